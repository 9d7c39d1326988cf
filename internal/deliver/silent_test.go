package deliver

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tundish/internal/job"
	"tundish/internal/redistest"
)

// crossing leads each new connection over the link of the moment.
type crossing struct {
	net.Listener
	via atomic.Pointer[redistest.Link]
	wg  sync.WaitGroup
}

func newCrossing(t *testing.T, via *redistest.Link) *crossing {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &crossing{Listener: l}
	c.via.Store(via)
	c.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", c.via.Load().Addr())
			if err != nil {
				_ = in.Close()
				continue
			}
			join := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_, _ = to.Close(), from.Close()
			}
			c.wg.Go(func() { join(out, in) })
			c.wg.Go(func() { join(in, out) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); c.wg.Wait() })
	return c
}

// A connection that was used loses all bytes from now on, and does not end: what
// is under way on it is lost, each attempt with an outcome, and soon everything
// goes over another. New connections are well.
func TestSilentConnectionIsLeft(t *testing.T) {
	t.Parallel()
	const timeout, every = 3 * time.Second, 20 * time.Millisecond
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serveBoth(t, 0, nil)
			bad, good := redistest.NewLink(t, srv.Listener.Addr().String()), redistest.NewLink(t, srv.Listener.Addr().String())
			c := newCrossing(t, bad)
			s := newSender(t, trust(srv.Server))
			send := func() Result {
				a := over2("https://" + c.Addr().String())
				a.Contract.Target.HTTP2, a.Contract.Target.Timeout, a.Timeout = http2, timeout, 0
				return s.Send(background, a)
			}
			wantOutcome(t, send(), job.OutcomeDelivered, true)
			c.via.Store(good)
			bad.Harm(t, redistest.Swallowed(true))
			bad.Harm(t, redistest.Swallowed(false))

			silent := time.Now()
			var wg sync.WaitGroup
			var lost atomic.Int64
			var last atomic.Pointer[time.Time] // begin of an attempt that was lost
			tick := time.NewTicker(every)
			defer tick.Stop()
			for begin := range tick.C {
				if begin.Sub(silent) > timeout+time.Second {
					break
				}
				wg.Go(func() {
					switch r := send(); {
					case r.Outcome == job.OutcomeDelivered:
					case http2 && r.Outcome == job.OutcomeNotSent && !r.Wrote: // behind the gate when a ping was missed: it takes a new slot
					case r.Outcome.Class() == job.Ambiguous && r.Wrote && r.Duration < timeout+time.Second:
						lost.Add(1)
						if l := last.Load(); l == nil || begin.After(*l) {
							last.Store(&begin)
						}
					default:
						t.Errorf("%+v", r)
					}
				})
			}
			wg.Wait()
			// HTTP/1.1: the one kept connection; HTTP/2: what came before a ping was missed.
			most, until := int64(1), timeout
			if http2 {
				until = 2*pingsOf(timeout) + 500*time.Millisecond
				most = int64(until / every)
			}
			if n := lost.Load(); n == 0 || n > most {
				t.Errorf("%d attempts were lost, want 1 to %d", n, most)
			}
			if l := last.Load(); l != nil && l.Sub(silent) > until {
				t.Errorf("an attempt that began %v after the silence was lost", l.Sub(silent))
			}
		})
	}
}

// The guard looks at the address that is dialled, and certificates are checked, with HTTP/2 as without.
func TestGuardAndCertificatesOverHTTP2(t *testing.T) {
	t.Parallel()
	srv := serveBoth(t, 0, nil)
	wantOutcome(t, newSender(t, trust(srv.Server), func(c *Config) { c.AllowPrivate = nil }).Send(background, over2(srv.URL)), job.OutcomeBlocked, false)
	wantOutcome(t, newSender(t).Send(background, over2(srv.URL)), job.OutcomeTLS, false)
	wantOutcome(t, newSender(t).Send(background, over2("https://"+closedPort(t))), job.OutcomeRefused, false)
	byName := over2(strings.Replace(srv.URL, "127.0.0.1", "localhost", 1))
	r := newSender(t, trust(srv.Server)).Send(background, byName)
	wantOutcome(t, r, job.OutcomeTLS, false)
	if !strings.Contains(r.Error, "not localhost") || srv.requests.Load() != 0 {
		t.Errorf("%q, %d requests", r.Error, srv.requests.Load())
	}
	byName.Contract.Target.TLS.ServerName = "example.com" // a name in the certificate of httptest
	wantOutcome(t, newSender(t, trust(srv.Server)).Send(background, byName), job.OutcomeDelivered, true)
}
