package e2e

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tundish/internal/bank"
)

// secureSite speaks HTTP/2 and takes 20 ms for each request.
type secureSite struct {
	*httptest.Server
	ca    string // file
	conns atomic.Int64

	mu       sync.Mutex
	arrivals []bank.Arrival
	protos   map[string]int
}

func newSecureSite(r *rig) *secureSite {
	r.Helper()
	s := &secureSite{protos: map[string]int{}, ca: filepath.Join(r.dir, "ca.pem")}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		at := bank.Monotonic()
		s.mu.Lock()
		s.protos[q.Proto]++
		s.arrivals = append(s.arrivals, bank.Arrival{Job: q.Header.Get("Tundish-Job-Id"), Key: q.Header.Get("Idempotency-Key"), At: at, Attempt: 1, Status: http.StatusOK})
		s.mu.Unlock()
		after(20 * time.Millisecond)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			s.conns.Add(1)
		}
	}
	s.StartTLS()
	r.Cleanup(s.Close)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(s.ca, text, 0o600); err != nil {
		r.Fatal(err)
	}
	return s
}

func (s *secureSite) seen() []bank.Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.arrivals)
}

// Over HTTP/2 the rate holds as well, all jobs arrive once, and they share one
// connection of each worker.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	const rate, jobs, workers = 50, 150, 2
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(workers)
	site := newSecureSite(r)
	doc := fmt.Sprintf(`{"target":{"http":{"url":%q,"http2":true,"tls":{"ca_file":%q}}},"limits":[{"rate":%d,"per":"1s"}]}`, site.URL+"/v1", site.ca, rate)
	r.do(http.MethodPut, r.at("bank"), doc, http.StatusCreated)
	if a := r.do(http.MethodGet, r.at("bank"), "", http.StatusOK); !strings.Contains(string(a.body), `"http2":true`) {
		t.Errorf("the destination is shown as %s", a.body)
	}
	r.push("bank", jobs)
	r.settled("bank")
	c := bank.Case{Rate: rate, Per: time.Second, Jobs: jobs, Arrivals: site.seen()}
	r.eventually("a line in the write logs for each arrival", patience, func() bool {
		c.Writes = bank.OfLane(r.writes(r.logs...), "bank")
		return len(c.Writes) >= len(c.Arrivals)
	})
	if v := bank.Judge(c); !v.OK {
		t.Error(v)
	}
	if n := site.conns.Load(); site.protos["HTTP/2.0"] != jobs || n > workers {
		t.Errorf("%v over %d connections", site.protos, n)
	}
}
