package deliver

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
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

// The same against a side that refuses, resets, goes away, pushes, takes streams
// back and hangs up: no stream stays reserved on a connection that stands.
func TestRushAgainstOddAnswers(t *testing.T) {
	t.Parallel()
	const senders, each = 20, 50
	var mu sync.Mutex
	arrived := map[string]int{}
	said := func(stream uint32) []frame {
		switch rand.N(40) {
		case 0:
			return nil
		case 1:
			return []frame{goAway(stream-2, 0)}
		case 2:
			return []frame{well(stream), goAway(stream, calm)}
		case 3:
			return []frame{reset(stream, protocolError)}
		case 4:
			return []frame{settings(3, 0), well(stream)}
		case 5:
			return []frame{early(stream), {framePush, flagEndHeaders, stream, numbers(2)}}
		case 6, 7:
			return []frame{reset(stream, refused)}
		case 8, 9:
			return []frame{settings(3, rand.N[uint32](12)+1), well(stream)}
		case 10, 11:
			return []frame{} // no answer
		case 12, 13:
			return []frame{unended(stream), reset(stream, cancelled)}
		}
		return []frame{well(stream)}
	}
	srv, set, files := serveFrames(t, func(_, _ int, stream uint32) []frame { return said(stream) }, settings(3, 8).bytes())
	srv.data = func(id []byte) { mu.Lock(); arrived[string(id)]++; mu.Unlock() }
	s := newSender(t, with(files), func(c *Config) { c.IdleTimeout = 500 * time.Millisecond })
	outcomes := map[job.Outcome]int{}
	shareds := map[*shared]bool{}
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range each {
				a := srv.attempt(set)
				a.Job.Request.Body = []byte(a.Job.ID)
				a.At = time.Now().Add(rand.N(6*time.Millisecond) - time.Millisecond)
				a.Timeout = 100 * time.Millisecond
				ctx, cancel := context.WithCancel(background)
				if rand.N(10) == 0 {
					time.AfterFunc(rand.N(8*time.Millisecond), cancel)
				}
				r := s.Send(ctx, a)
				cancel()
				mu.Lock()
				n := arrived[string(a.Job.ID)]
				outcomes[r.Outcome]++
				for _, c := range s.pools.Unused() {
					shareds[c.shared] = true
				}
				mu.Unlock()
				if n > 1 || n == 1 && !r.Wrote || n == 0 && r.HTTPStatus > 0 {
					t.Errorf("it arrived %d times: %+v", n, r)
				}
			}
		})
	}
	wg.Wait()
	for _, want := range []job.Outcome{job.OutcomeDelivered, job.OutcomeReset, job.OutcomeUnfinished, job.OutcomeTimeout, job.OutcomeInvalidReply} {
		if outcomes[want] == 0 {
			t.Errorf("no %s in %v", want, outcomes)
		}
	}
	for c := range shareds {
		waitFor(t, "all streams to be given back", func() bool { return c.http.Err() != nil || c.http.InFlight() == 0 })
	}
	waitFor(t, "all connections to end", func() bool {
		return !slices.ContainsFunc(slices.Collect(maps.Keys(shareds)), func(c *shared) bool { return c.http.Err() == nil })
	})
}
