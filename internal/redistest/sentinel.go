package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sentinel starts one Sentinel that watches master under the name "main",
// waits until it knows the replicas, and returns its host:port. It is killed
// at the test's end.
func Sentinel(t testing.TB, master *Server, replicas ...*Server) string {
	t.Helper()
	_, masterPort, _ := strings.Cut(master.Addr(), ":")
	conf := filepath.Join(t.TempDir(), "sentinel.conf") // a Sentinel rewrites its file
	text := fmt.Sprintf("sentinel monitor main 127.0.0.1 %s 1\nsentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 5000\n", masterPort)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 10 {
		var port int
		if port, err = freePort(); err != nil {
			continue
		}
		p, serr := spawn("redis-server", []string{conf, "--sentinel", "--port", strconv.Itoa(port), "--bind", "127.0.0.1"})
		if serr != nil {
			t.Fatal(serr)
		}
		if err = p.waitFor("+monitor master main"); err == nil {
			t.Cleanup(p.kill)
			for _, r := range replicas {
				if err := p.waitFor("+slave slave " + r.Addr()); err != nil {
					t.Fatal(err)
				}
			}
			return "127.0.0.1:" + strconv.Itoa(port)
		}
		p.kill()
	}
	t.Fatal(err)
	return ""
}

// NextMaster waits until the Sentinel names another master than old.
func NextMaster(t testing.TB, sentinel string, old *Server) string {
	t.Helper()
	c := redis.NewSentinelClient(&redis.Options{Addr: sentinel, DisableIdentity: true})
	defer c.Close()
	for end := time.Now().Add(joinWithin); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		a, err := c.GetMasterAddrByName(context.Background(), "main").Result()
		if err == nil && len(a) == 2 && a[0]+":"+a[1] != old.Addr() {
			return a[0] + ":" + a[1]
		}
	}
	t.Fatalf("no other master than %s within %s", old.Addr(), joinWithin)
	return ""
}
