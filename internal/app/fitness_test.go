package app

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tundish/internal/redistest"
)

// push sends one job to the bank and gives the status and Retry-After.
func push(t *testing.T, addr string) (status int, retryAfter string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/destinations/bank/jobs", strings.NewReader(`{"body":1}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Retry-After")
}

// startWithBank starts an enqueuer whose file holds the bank.
func startWithBank(t *testing.T, server *redistest.Server) *Enqueuer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "d.yaml")
	write(t, path, strings.ReplaceAll(bankFile, "%RATE%", "50"))
	c := enqueuerConfig(common(t, server.URL()))
	c.Destinations, c.fitEvery = path, 50*time.Millisecond
	return startEnqueuer(t, c)
}

// A Redis that answers and takes no writes cannot hold jobs: the door is not
// ready, and says why.
func TestNotReadyWhileRedisRefusesWrites(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse, serve func(t *testing.T, s *redistest.Server)
		reason        string
	}{
		"full": {
			func(t *testing.T, s *redistest.Server) { s.Config(t, "maxmemory", "1") },
			func(t *testing.T, s *redistest.Server) { s.Config(t, "maxmemory", "0") }, "oom",
		},
		"replica": {
			func(t *testing.T, s *redistest.Server) {
				if err := s.Client(t).SlaveOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
					t.Fatal(err)
				}
			},
			func(t *testing.T, s *redistest.Server) {
				if err := s.Client(t).SlaveOf(t.Context(), "NO", "ONE").Err(); err != nil {
					t.Fatal(err)
				}
			}, "readonly",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			e := startWithBank(t, server)
			ready := func() (int, string) { return get(t, "http://"+e.AdminAddr()+"/readyz") }
			if code, body := ready(); code != http.StatusOK {
				t.Fatalf("%d %s", code, body)
			}
			if status, _ := push(t, e.Addr()); status != http.StatusAccepted {
				t.Fatalf("push: %d", status)
			}
			c.refuse(t, server)
			if code, body := ready(); code != http.StatusServiceUnavailable || !strings.Contains(body, "redis takes no writes: "+c.reason) {
				t.Errorf("%d %s", code, body)
			}
			if status, after := push(t, e.Addr()); status != http.StatusServiceUnavailable || after == "" {
				t.Errorf("push: %d, Retry-After %q", status, after)
			}
			if code, _ := get(t, "http://"+e.AdminAddr()+"/healthz"); code != http.StatusOK {
				t.Errorf("healthz: %d; a restart would not help", code)
			}
			c.serve(t, server)
			eventually(t, "ready again", func() bool { code, _ := ready(); return code == http.StatusOK })
		})
	}
}

// Somebody changes the eviction policy while we run: Redis may now throw away
// jobs, so both services say that they are not ready.
func TestEvictingPolicyIsNoticed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e := startWithBank(t, server)
	config := workerConfig(e.cfg.Common)
	w := startWorker(t, config)
	server.Config(t, "maxmemory-policy", "allkeys-lru")
	server.Config(t, "maxmemory", "1gb")
	for _, addr := range []string{e.AdminAddr(), w.AdminAddr()} {
		eventually(t, "the policy is a reason", func() bool {
			code, body := get(t, "http://"+addr+"/readyz")
			return code == http.StatusServiceUnavailable && strings.Contains(body, "maxmemory-policy is allkeys-lru")
		})
	}
	server.Config(t, "maxmemory-policy", "noeviction")
	for _, addr := range []string{e.AdminAddr(), w.AdminAddr()} {
		eventually(t, "ready again", func() bool { code, _ := get(t, "http://"+addr+"/readyz"); return code == http.StatusOK })
	}
}

// In a Cluster every shard is asked.
func TestReadyOnCluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithCluster())
	e := startEnqueuer(t, enqueuerConfig(common(t, server.ClusterURL())))
	if code, body := get(t, "http://"+e.AdminAddr()+"/readyz"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	server.Config(t, "maxmemory", "1")
	if code, body := get(t, "http://"+e.AdminAddr()+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "oom") {
		t.Errorf("full: %d %s", code, body)
	}
}
