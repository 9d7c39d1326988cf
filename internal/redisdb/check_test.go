package redisdb

import (
	"strings"
	"testing"

	"tundish/internal/redistest"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		opts   []redistest.Option
		url    func(*redistest.Server) string
		wantOK bool
		want   []string // in the error or the warnings
		absent []string
	}{
		{"persistent", []redistest.Option{redistest.WithAOF()}, nil, true, nil, []string{"disk", "policy", "replicas", "CONFIG"}},
		{"snapshots", []redistest.Option{redistest.WithConfig("save", "60", "1")}, nil, true, nil, []string{"disk"}},
		{"nothing on disk", nil, nil, true, []string{"disk"}, nil},
		{"evicting", []redistest.Option{redistest.WithConfig("maxmemory", "100mb"), redistest.WithConfig("maxmemory-policy", "volatile-lru")}, nil, false, []string{"noeviction", "volatile-lru"}, nil},
		{"evicting without a limit", []redistest.Option{redistest.WithConfig("maxmemory-policy", "allkeys-lru")}, nil, true, []string{"harmless"}, nil},
		{"limited", []redistest.Option{redistest.WithConfig("maxmemory", "100mb")}, nil, true, nil, []string{"policy"}},
		{"config refused", []redistest.Option{redistest.WithConfig("rename-command", "CONFIG", "")}, nil, true, []string{"CONFIG is refused"}, []string{"disk"}},
		{"evicting, config refused", []redistest.Option{
			redistest.WithConfig("rename-command", "CONFIG", ""), redistest.WithConfig("maxmemory", "100mb"),
			redistest.WithConfig("maxmemory-policy", "allkeys-lru"),
		}, nil, false, []string{"noeviction"}, nil},
		{"cluster", []redistest.Option{redistest.WithCluster()}, (*redistest.Server).ClusterURL, true, []string{"failover"}, nil},
		{"node of a cluster", []redistest.Option{redistest.WithCluster()}, nil, false, []string{"redis+cluster://"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := (*redistest.Server).URL
			if tt.url != nil {
				url = tt.url
			}
			checkServer(t, url(redistest.Start(t, tt.opts...)), tt.wantOK, tt.want, tt.absent)
		})
	}
}

func checkServer(t *testing.T, url string, wantOK bool, want, absent []string) Report {
	t.Helper()
	report, err := open(t, Config{URL: url}).Check(t.Context())
	if (err == nil) != wantOK {
		t.Fatalf("error is %v", err)
	}
	said := strings.Join(report.Warnings, "\n")
	if err != nil {
		said += err.Error()
	}
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("%q does not say %q", said, w)
		}
	}
	for _, w := range absent {
		if strings.Contains(said, w) {
			t.Errorf("%q says %q", said, w)
		}
	}
	return report
}

func TestCheckEmbedded(t *testing.T) {
	t.Parallel()
	r := checkServer(t, redistest.MiniURL(redistest.Mini(t)), true, []string{"embedded"}, nil)
	if !r.Embedded || r.Product != "embedded" || r.Mode != Single {
		t.Errorf("report is %+v", r)
	}
}

func TestCheckReport(t *testing.T) {
	t.Parallel()
	r := checkServer(t, redistest.Shared(t).URL(), true, nil, nil)
	if r.Embedded || r.Product == "" || !strings.Contains(r.Version, ".") {
		t.Errorf("report is %+v", r)
	}
}

// A master with a replica, and the replica itself.
func TestCheckReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Replica(t, master)
	checkServer(t, master.URL(), true, []string{"min-replicas-to-write is 0"}, nil)
	checkServer(t, replica.URL(), false, []string{"is a replica"}, nil)
	master.Config(t, "min-replicas-to-write", "1")
	checkServer(t, master.URL(), true, nil, []string{"min-replicas-to-write is 0"})
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		redis, valkey string
		ok            bool
	}{
		{"6.2.0", "", true}, {"7.0.15", "", true}, {"8.2", "", true}, {"10.0.1", "", true}, {"255.255.255", "", true},
		{"6.0.16", "", false}, {"5.0.7", "", false}, {"7.2.4", "8.1.0", true}, {"", "", true},
	} {
		f := facts{info: map[string]string{"redis_version": tt.redis, "valkey_version": tt.valkey}}
		err := f.verify(Single)
		if (err == nil) != tt.ok {
			t.Errorf("redis %s valkey %s: %v", tt.redis, tt.valkey, err)
		}
		if err != nil && !strings.Contains(err.Error(), "6.2") {
			t.Errorf("%v does not name the minimum", err)
		}
	}
}

func TestSentinelIsNoServer(t *testing.T) {
	t.Parallel()
	f := facts{info: map[string]string{"redis_mode": "sentinel", "redis_version": "7.0.0"}}
	if err := f.verify(Single); err == nil || !strings.Contains(err.Error(), "redis+sentinel://") {
		t.Errorf("error is %v", err)
	}
}

// What a Cluster has to be set to for its nodes to fail alone.
func TestCheckCluster(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.WithCluster())
	full, failover := "cluster-require-full-coverage is yes", "a failover may lose"
	checkServer(t, node.ClusterURL(), true, []string{full, failover}, nil)
	node.Config(t, "cluster-require-full-coverage", "no")
	node.Config(t, "min-replicas-to-write", "1")
	checkServer(t, node.ClusterURL(), true, nil, []string{full, failover})
}
