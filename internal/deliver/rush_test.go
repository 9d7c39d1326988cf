package deliver

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"tundish/internal/job"
)

// Many at once, with slots, refusals, cancels, timeouts and connections that are
// cut: what was not written did not arrive, nothing arrived twice, and in the end
// no connection is left.
func TestRushOverHTTP2(t *testing.T) {
	t.Parallel()
	const senders, each, streams = 24, 40, 7
	var mu sync.Mutex
	arrived := map[string]int{}
	srv := serveBoth(t, streams, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		arrived[r.Header.Get("Tundish-Job-Id")]++
		mu.Unlock()
		if r.ContentLength%2 == 1 {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		select {
		case <-time.After(rand.N(4 * time.Millisecond)):
		case <-r.Context().Done():
		}
		w.WriteHeader([]int{200, 204, 302, 429, 500}[rand.N(5)])
	})
	s := newSender(t, trust(srv.Server), func(c *Config) { c.IdleTimeout = 200 * time.Millisecond })
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range each {
				a := over2(srv.URL)
				a.Job.Request.Body = make([]byte, rand.N(100<<10))
				a.At = time.Now().Add(rand.N(6*time.Millisecond) - time.Millisecond)
				if rand.N(20) == 0 {
					a.Timeout = time.Millisecond
				}
				if rand.N(10) == 0 {
					a.Gate = func() error { return errors.New("too late") }
				}
				ctx, cancel := context.WithCancel(background)
				if rand.N(10) == 0 {
					time.AfterFunc(rand.N(8*time.Millisecond), cancel)
				}
				r := s.Send(ctx, a)
				cancel()
				mu.Lock()
				n := arrived[string(a.Job.ID)]
				mu.Unlock()
				if n > 1 || n == 1 && !r.Wrote || n == 0 && r.HTTPStatus > 0 || n == 1 && r.Outcome == job.OutcomeUnfinished {
					t.Errorf("it arrived %d times: %+v", n, r)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for cut := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-cut.C:
			srv.CloseClientConnections()
			continue
		case <-done:
			cut.Stop()
		}
		break
	}
	waitFor(t, "all connections to end", func() bool { return srv.open.Load() == 0 && len(s.pools.Unused()) == 0 })
	if r := s.Send(background, over2(srv.URL)); r.HTTPStatus == 0 {
		t.Errorf("%+v", r)
	}
}
