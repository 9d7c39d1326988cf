package deliver

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tundish/internal/deliver/kept"
	"tundish/internal/job"
)

// countingListener counts what connections receive, below TLS, after their
// first request's worth: see mark.
type countingListener struct {
	net.Listener
	read atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{c, l}, nil
}

type countingConn struct {
	net.Conn
	l *countingListener
}

func (c *countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.l.read.Add(int64(n))
	return n, err
}

// A refused request leaves nothing behind: neither a request at the server nor,
// on plain TCP, a single byte.
func TestRefusedRequestWritesNothing(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "tls"}[secure], func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
			}))
			l := &countingListener{Listener: srv.Listener}
			srv.Listener = l
			s := newSender(t, start(srv, secure))
			t.Cleanup(srv.Close)

			refuse := errors.New("too late")
			for i := range 300 {
				a := attemptTo(srv.URL)
				asked := 0
				a.Gate = func() error { asked++; return refuse }
				if i%3 == 0 {
					a.Job.Request.Body = bytes.Repeat([]byte("x"), 100<<10)
				}
				if i%2 == 0 {
					a.At = time.Now().Add(time.Millisecond)
				}
				wantOutcome(t, s.Send(background, a), job.OutcomeNotSent, false)
				if asked != 1 {
					t.Fatalf("the gate was asked %d times", asked)
				}
			}
			if n := requests.Load(); n != 0 {
				t.Errorf("%d requests arrived", n)
			}
			if n := l.read.Load(); !secure && n != 0 {
				t.Errorf("%d bytes arrived", n)
			}
			// Every refusal cost its connection and nothing else.
			wantOutcome(t, s.Send(background, attemptTo(srv.URL)), job.OutcomeDelivered, true)
		})
	}
}

func start(srv *httptest.Server, secure bool) func(*Config) {
	if !secure {
		srv.Start()
		return func(*Config) {}
	}
	srv.Config.ErrorLog = quiet
	srv.StartTLS()
	return trust(srv)
}

// A slot that is over when the connection is at hand costs no connection.
func TestLateSlotKeepsConnection(t *testing.T) {
	t.Parallel()
	srv := serveRaw(t, answering(okAnswer))
	s := newSender(t)
	for range 20 {
		a := attemptTo(srv.url())
		a.At = time.Now().Add(-time.Second)
		a.Gate = func() error { return errors.New("over") }
		wantOutcome(t, s.Send(background, a), job.OutcomeNotSent, false)
	}
	wantOutcome(t, s.Send(background, attemptTo(srv.url())), job.OutcomeDelivered, true)
	if conns, requests := srv.counts(); conns != 1 || requests != 1 {
		t.Errorf("%d connections, %d requests, want 1 and 1", conns, requests)
	}
}

func TestNothingIsWrittenBeforeTheSlot(t *testing.T) {
	t.Parallel()
	srv := serveRaw(t, answering(okAnswer))
	s := newSender(t)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			a := attemptTo(srv.url())
			a.At = time.Now().Add(time.Duration(i) * 2 * time.Millisecond)
			var asked time.Time
			a.Gate = func() error { asked = time.Now(); return nil }
			r := s.Send(background, a)
			wantOutcome(t, r, job.OutcomeDelivered, true)
			if asked.Before(a.At) || r.StartedAt.Before(asked) {
				t.Errorf("slot %v, gate %v, write %v", a.At, asked, r.StartedAt)
			}
		})
	}
	wg.Wait()
}

func TestCancelDuringWaitWritesNothing(t *testing.T) {
	t.Parallel()
	// Before a connection is taken, and inside the write.
	for _, ahead := range []time.Duration{time.Hour, kept.AheadMin / 2} {
		for tries := 0; ; tries++ {
			// A server for each try: what the one before wrote may arrive late.
			srv, s := serveRaw(t, answering(okAnswer)), newSender(t)
			wantOutcome(t, s.Send(background, attemptTo(srv.url())), job.OutcomeDelivered, true)
			before := srv.seen()
			a := attemptTo(srv.url())
			ctx, cancel := context.WithCancelCause(background)
			a.At = time.Now().Add(ahead)
			time.AfterFunc(time.Millisecond/2, func() { cancel(ErrStopped) })
			begin := time.Now()
			r := s.Send(ctx, a)
			if r.Wrote && tries < 20 && time.Since(a.At) > 0 {
				continue // a busy machine: the slot came before the cancel
			}
			wantOutcome(t, r, job.OutcomeNotSent, false)
			if took := time.Since(begin); took > time.Second {
				t.Errorf("the cancel took %v", took)
			}
			if got := srv.seen(); got != before {
				t.Errorf("bytes arrived: %q", strings.TrimPrefix(got, before))
			}
			break
		}
	}
}

func TestPanickingGateDoesNotOpen(t *testing.T) {
	t.Parallel()
	srv := serveRaw(t, answering(okAnswer))
	s := newSender(t)
	a := attemptTo(srv.url())
	a.Gate = func() error { panic("no") }
	wantOutcome(t, s.Send(background, a), job.OutcomeNotSent, false)
	if srv.seen() != "" {
		t.Errorf("bytes arrived: %q", srv.seen())
	}
}

// A write of which the kernel took nothing is not a written request.
func TestFailedFirstWrite(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	theirs.Close()
	g := newGateConn(ours)
	ctx, cancel := context.WithCancelCause(background)
	defer cancel(nil)
	p := &pass{ctx: ctx, cancel: cancel, timeout: time.Minute}
	defer p.end()
	g.pass.Store(p)
	if n, err := g.Write([]byte("x")); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Fatalf("wrote %d, %v", n, err)
	}
	if _, wrote := p.written(); wrote {
		t.Error("counted as written")
	}
}

// A panic ends the job for good when nothing was written, and is an unknown end
// when something may have been.
func TestPanicked(t *testing.T) {
	t.Parallel()
	wantOutcome(t, panicked(nil), job.OutcomeBadRequest, false)
	wantOutcome(t, panicked(&pass{}), job.OutcomeBadRequest, false)
	wantOutcome(t, panicked(&pass{wrote: true, started: time.Now()}), job.OutcomeReset, true)
}

func TestTimeoutOf(t *testing.T) {
	t.Parallel()
	a := attemptTo("http://h")
	a.Timeout = time.Second
	if got := timeoutOf(&a); got != time.Second {
		t.Errorf("own: %v", got)
	}
	a.Timeout, a.Contract.Target.Timeout = 0, time.Minute
	if got := timeoutOf(&a); got != time.Minute {
		t.Errorf("the contract's: %v", got)
	}
	a.Contract.Target.Timeout = 0
	if got := timeoutOf(&a); got != defaultTimeout {
		t.Errorf("default: %v", got)
	}
}

// With TLS the gate stands below the encryption: what it lets pass is a record.
func TestGateIsBelowTLS(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || r.TLS.Version < tls.VersionTLS12 || r.ProtoMajor != 1 {
			t.Errorf("TLS %+v, HTTP/%d", r.TLS, r.ProtoMajor)
		}
	}))
	srv.EnableHTTP2 = true
	s := newSender(t, start(srv, true))
	t.Cleanup(srv.Close)
	for range 3 {
		a := attemptTo(srv.URL)
		a.At = time.Now().Add(20 * time.Millisecond)
		r := s.Send(background, a)
		wantOutcome(t, r, job.OutcomeDelivered, true)
		if r.StartedAt.Before(a.At) {
			t.Errorf("written %v early", a.At.Sub(r.StartedAt))
		}
	}
}
