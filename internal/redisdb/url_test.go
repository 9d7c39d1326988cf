package redisdb

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	tests := map[string]target{
		"redis://localhost":             {mode: Single, addrs: []string{"localhost:6379"}},
		"redis://localhost:7000/3":      {mode: Single, addrs: []string{"localhost:7000"}, db: 3},
		"redis://h?db=2":                {mode: Single, addrs: []string{"h:6379"}, db: 2},
		"redis://:p%40ss@h:1/":          {mode: Single, addrs: []string{"h:1"}, password: "p@ss"},
		"redis://me:p@ss@h:1":           {mode: Single, addrs: []string{"h:1"}, username: "me", password: "p@ss"},
		"redis://[::1]:7000":            {mode: Single, addrs: []string{"[::1]:7000"}},
		"redis://[::1]":                 {mode: Single, addrs: []string{"[::1]:6379"}},
		"rediss://h:1/0":                {mode: Single, tls: true, addrs: []string{"h:1"}},
		"unix:///run/redis.sock?db=1":   {mode: Single, unix: true, addrs: []string{"/run/redis.sock"}, db: 1},
		"unix://:pw@/run/redis.sock":    {mode: Single, unix: true, addrs: []string{"/run/redis.sock"}, password: "pw"},
		"redis://h1:1,h2:2/":            {mode: Cluster, addrs: []string{"h1:1", "h2:2"}},
		"rediss://u:p@h1,[::1]:2,h3/":   {mode: Cluster, tls: true, username: "u", password: "p", addrs: []string{"h1:6379", "[::1]:2", "h3:6379"}},
		"redis+cluster://one.example:1": {mode: Cluster, addrs: []string{"one.example:1"}},
		"redis+sentinel://s1,s2:5/main": {mode: Sentinel, addrs: []string{"s1:26379", "s2:5"}, master: "main"},
		"rediss+sentinel://s1:1/main":   {mode: Sentinel, tls: true, addrs: []string{"s1:1"}, master: "main"},
		"redis+sentinel://u:p@s1/m?db=4&sentinel_username=su&sentinel_password=sp": {
			mode: Sentinel, addrs: []string{"s1:26379"}, master: "m", username: "u", password: "p", db: 4,
			sentinelUsername: "su", sentinelPassword: "sp",
		},
	}
	for url, want := range tests {
		got, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as\n%+v, want\n%+v", url, got, want)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"":                                        "scheme",
		"localhost:6379":                          "scheme",
		"http://u:hunter2@h":                      "scheme",
		"redis://u:hunter2@":                      "host",
		"redis://u:hunter2@h:port":                "port",
		"redis://u:hunter2@h:0":                   "port",
		"redis://u:hunter2@h:70000":               "port",
		"redis://u:hunter2@h:1:2":                 "more than one ':'",
		"redis://u:hunter2@h,,i":                  "host",
		"redis://u:hunter2%zz@h":                  "%-escape",
		"redis://u:hunter2@h/x":                   "database",
		"redis://u:hunter2@h/-1":                  "database",
		"redis://u:hunter2@h?db=x":                "database",
		"redis://u:hunter2@h?password=x":          `"password"`,
		"redis://u:hunter2@h?sentinel_username=x": `"sentinel_username"`,
		"redis://u:hunter2@h1,h2/1":               "database 0",
		"unix://h/run/x":                          "socket",
		"unix://u:hunter2@":                       "socket",
		"redis+sentinel://u:hunter2@s1":           "master",
		"redis+sentinel://u:hunter2@s1/a/b":       "master",
		"redis://u:hunter2/x@h:1":                 "",
		"redis://u:hunter2#x@h":                   "",
	} {
		got, err := parseURL(url)
		if err == nil {
			if want != "" {
				t.Errorf("%s is read as %+v", url, got)
			}
			continue
		}
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "redis+sentinel://") {
			t.Errorf("%s: %v; want %q and the forms", url, err, want)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error tells the password: %v", url, err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("hunter2", "h:1/0")
	f.Add("hunter2%", "h1,h2?db=1")
	f.Fuzz(func(t *testing.T, password, rest string) {
		secret := "hunter2" + password
		if _, err := parseURL("redis://u:" + secret + "@" + rest); err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error tells the password: %v", err)
		}
	})
}
