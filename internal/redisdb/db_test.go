package redisdb

import (
	"net"
	"strings"
	"testing"

	"tundish/internal/redistest"
)

func TestOpenModes(t *testing.T) {
	t.Parallel()
	socket := t.TempDir() + "/s"
	master := redistest.Start(t, redistest.WithConfig("unixsocket", socket), redistest.WithPassword("hunter2"))
	plain := redistest.Start(t)
	tests := map[string]struct {
		url  string
		mode Mode
	}{
		"password":     {"redis://:hunter2@" + master.Addr() + "/2", Single},
		"unix":         {"unix://:hunter2@" + socket + "?db=2", Single},
		"cluster":      {redistest.SharedCluster(t).ClusterURL(), Cluster},
		"cluster name": {"redis+cluster://" + redistest.SharedCluster(t).Addr(), Cluster},
		"sentinel":     {"redis+sentinel://" + redistest.Sentinel(t, plain) + "/main?db=1", Sentinel},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, Config{URL: tt.url})
			if db.Mode() != tt.mode {
				t.Errorf("mode is %s", db.Mode())
			}
			if v, err := db.RunOnce(t.Context(), incr, laneKeys(t, db)); v != int64(1) || err != nil {
				t.Errorf("a script gives %v, %v", v, err)
			}
			if _, err := db.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	_ = l.Close()
	locked := redistest.Start(t, redistest.WithPassword("right"))
	tests := map[string]struct {
		cfg         Config
		want        string
		unavailable bool
	}{
		"no URL":    {Config{}, "allowed: redis://", false},
		"namespace": {Config{URL: "redis://h", Namespace: "A"}, "namespace", false},
		"nobody":    {Config{URL: "redis://:hunter2@" + gone}, "does not answer", true},
		"cluster":   {Config{URL: "redis://:hunter2@" + gone + "," + gone + "/"}, "does not answer", true},
		"sentinel":  {Config{URL: "redis+sentinel://:hunter2@" + gone + "/main?sentinel_password=hunter2"}, "does not answer", true},
		"password":  {Config{URL: "redis://:hunter2@" + locked.Addr()}, "WRONGPASS", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Open(t.Context(), tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) || Unavailable(err) != tt.unavailable {
				t.Fatalf("error is %v (%s)", err, Kind(err))
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

func TestCallsCountsCommands(t *testing.T) {
	t.Parallel()
	for name, url := range backends(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, Config{URL: url})
			keys := laneKeys(t, db)
			if _, err := db.Run(t.Context(), incr, keys); err != nil {
				t.Fatal(err)
			}
			before := db.Calls()
			c := Call{Script: incr, Keys: keys}
			db.Pipeline(t.Context(), []Call{c, c, c})
			_, _ = db.Run(t.Context(), incr, keys)
			db.Client().Get(t.Context(), keys.Conf())
			if n := db.Calls() - before; n != 5 {
				t.Errorf("%d calls, want 5", n)
			}
		})
	}
}
