package app

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestRedisURLFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	at := func(name, text string) string {
		path := filepath.Join(folder, name)
		write(t, path, text)
		return path
	}
	for name, c := range map[string]struct {
		file string
		want string // how its only problem begins; empty: there is none
	}{
		"good":    {at("good", "redis://127.0.0.1/1\n"), ""},
		"missing": {filepath.Join(folder, "none"), "--redis-url-file: open "},
		"empty":   {at("empty", "\n"), "--redis-url-file: the file is empty"},
		"wrong":   {at("wrong", "ftp://S3CR3T@h"), "--redis-url-file: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p problems
			cfg := Common{RedisURL: "redis://127.0.0.1/0", RedisURLFile: c.file, Namespace: "default", LogLevel: "info", LogFormat: "text"}
			cfg.validate(&p)
			if c.want == "" && len(p) > 0 || c.want != "" && (len(p) != 1 || !strings.HasPrefix(p[0], c.want)) || strings.Contains(strings.Join(p, ""), "S3CR3T") {
				t.Errorf("%q, want %q", p, c.want)
			}
		})
	}
}

func TestAddressesApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		one, other string
		apart      bool
	}{
		{"127.0.0.1:8080", "127.0.0.1:8081", true},
		{"127.0.0.1:8080", "127.0.0.2:8080", true},
		{"127.0.0.1:0", "127.0.0.1:0", true},
		{"127.0.0.1:8080", "127.0.0.1:8080", false},
		{"localhost:8080", "127.0.0.1:8080", false},
		{":8080", "127.0.0.1:8080", false},
		{"127.0.0.1:8080", "0.0.0.0:8080", false},
		{"[::]:8080", "[::1]:8080", false},
		{"nonsense", "nonsense", true}, // told by itself
	} {
		var p problems
		p.apart("--listen", c.one, "--admin-listen", c.other)
		if (len(p) == 0) != c.apart {
			t.Errorf("%s and %s: %q", c.one, c.other, p)
		}
	}
}

// --check sees what could be known before a start.
func TestCheckSeesAddressesAndTheWriteLog(t *testing.T) {
	t.Parallel()
	shared := Common{RedisURL: "redis://127.0.0.1/0", Namespace: "default", LogLevel: "info", LogFormat: "text", Check: true}
	e := enqueuerConfig(shared)
	e.Listen, e.AdminListen = "127.0.0.1:8080", "127.0.0.1:8080"
	var stderr bytes.Buffer
	if code := RunEnqueuer(t.Context(), e, &stderr); code != exitUsage || !strings.HasPrefix(stderr.String(), "--listen and --admin-listen: ") {
		t.Errorf("exit %d, %s", code, stderr.String())
	}
	w := workerConfig(shared)
	w.WriteLog = filepath.Join(t.TempDir(), "none", "log")
	stderr.Reset()
	if code := RunWorker(t.Context(), w, &stderr); code != exitUsage || !strings.HasPrefix(stderr.String(), "--write-log: ") {
		t.Errorf("exit %d, %s", code, stderr.String())
	}
}
