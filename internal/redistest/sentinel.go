package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Sentinel starts one Sentinel that watches master under the name "main", and
// returns its host:port. It is killed at the test's end.
func Sentinel(t testing.TB, master *Server) string {
	t.Helper()
	_, masterPort, _ := strings.Cut(master.Addr(), ":")
	conf := filepath.Join(t.TempDir(), "sentinel.conf") // a Sentinel rewrites its file
	text := fmt.Sprintf("sentinel monitor main 127.0.0.1 %s 1\n", masterPort)
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
			return "127.0.0.1:" + strconv.Itoa(port)
		}
		p.kill()
	}
	t.Fatal(err)
	return ""
}
