package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// idleFile holds n destinations to which nothing is pushed.
func idleFile(t testing.TB, n int) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("destinations:\n")
	for i := range n {
		fmt.Fprintf(&text, "- {name: idle-%d, target: {http: {url: \"https://bank.example/\"}}, limits: [{algorithm: leaky_bucket, rate: 50, per: 1s}]}\n", i)
	}
	file := filepath.Join(t.TempDir(), "destinations.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// traffic counts the commands that clients send to Redis for some time, by
// name: what scripts call inside is not sent, and what asynq does beside is
// counted apart.
func (r *rig) traffic(d time.Duration) (ours, asynq map[string]int) {
	r.Helper()
	conn, err := net.Dial("tcp", r.redis.Addr())
	if err != nil {
		r.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil {
		r.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		r.Fatal(err)
	}
	ours, asynq = map[string]int{}, map[string]int{}
	for s := bufio.NewScanner(conn); s.Scan(); {
		// +1796039234.165727 [0 127.0.0.1:50000] "evalsha" …
		_, client, ok := strings.Cut(s.Text(), "[")
		client, command, ok2 := strings.Cut(client, "] ")
		if !ok || !ok2 || strings.HasSuffix(client, " lua") {
			continue
		}
		name, _, _ := strings.Cut(strings.Trim(command, `"`), `"`)
		if strings.Contains(command, "asynq:") {
			asynq[name]++
		} else {
			ours[name]++
		}
	}
	return ours, asynq
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Destinations to which nothing is sent cost nothing each.
func TestIdleDestinationsAreNotPolled(t *testing.T) {
	t.Parallel()
	const destinations, workers, seconds = 200, 2, 5
	r := newRig(t, false)
	r.startEnqueuer("--destinations", idleFile(t, destinations))
	r.startWorkers(workers)
	after(time.Second) // what is asked once at the start
	ours, asynq := r.traffic(seconds * time.Second)
	if n := total(ours); n > 10*seconds || n == 0 {
		t.Errorf("%d commands in %d s, want at most %d (and asynq %d): %v", n, seconds, 10*seconds, total(asynq), ours)
	}
	t.Logf("%d destinations: %v of ours, %v of asynq in %d s", destinations, ours, asynq, seconds)
	r.do(http.MethodGet, r.at(fmt.Sprintf("idle-%d", destinations-1)), "", http.StatusOK)
}
