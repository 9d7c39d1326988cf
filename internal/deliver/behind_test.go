package deliver

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// frozen is a server that reads nothing on its first connection between its
// second request and the end of resume.
func frozen(t *testing.T) (srv *frameServer, s *Sender, attempt func() Attempt, resume func()) {
	t.Helper()
	thawed, cancel := context.WithCancel(background)
	srv, set, files := serveFrames(t, func(conn, n int, stream uint32) []frame {
		if conn == 0 && n == 1 {
			<-thawed.Done()
		}
		return []frame{well(stream)}
	}, settings(4, 1<<30).bytes(), frame{frameWindow, 0, 0, numbers(1 << 30)}.bytes())
	t.Cleanup(cancel)
	return srv, newSender(t, with(files)), func() Attempt { return srv.attempt(set) }, cancel
}

// A request that waits in the connection behind others is taken back: it leaves
// neither late nor together with others that waited, and it is in no doubt.
func TestRequestBehindAWriteThatWaits(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Attempt) (context.Context, context.CancelFunc){
		"by itself": func(*Attempt) (context.Context, context.CancelFunc) { return context.WithCancel(background) },
		"by a stop": func(*Attempt) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(background)
			return ctx, func() { cancel(ErrStopped) }
		},
		"by its time": func(a *Attempt) (context.Context, context.CancelFunc) {
			a.Timeout = 5 * time.Millisecond
			return context.WithCancel(background)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, s, attempt, resume := frozen(t)
			wantOutcome(t, s.Send(background, attempt()), job.OutcomeDelivered, true)
			seat := s.pools.Unused()[0]
			others := make(chan Result, 2)
			late := attempt()
			late.Writing = func() { t.Error("it says that it writes") }
			ctx, cancel := change(&late)
			defer cancel()
			late.Gate = func() error {
				go func() { others <- s.Send(background, attempt()) }()
				waitFor(t, "the server to freeze", func() bool { _, n := srv.counts(); return n == 2 })
				go func() {
					large := attempt()
					large.Timeout, large.Job.Request.Body = time.Minute, make([]byte, 32<<20)
					others <- s.Send(background, large)
				}()
				waitFor(t, "a write to wait", seat.gate.stalled)
				if name == "by a stop" {
					time.AfterFunc(5*time.Millisecond, cancel)
				}
				return nil
			}
			begin := time.Now()
			wantOutcome(t, s.Send(ctx, late), job.OutcomeNotSent, false)
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("it waited for %v", took)
			}
			resume()
			for range 2 {
				wantOutcome(t, <-others, job.OutcomeDelivered, true)
			}
			if conns, n := srv.counts(); conns != 1 || n != 3 {
				t.Errorf("%d connections, %d requests, want 1 and 3", conns, n)
			}
		})
	}
}

// net/http tells of the headers before it writes them: what was not told of has
// not left. Should that change, a request that is taken back might have arrived.
func TestHeadersAreToldOfBeforeTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 100} {
		srv, set, files := serveFrames(t, func(_, _ int, stream uint32) []frame { return []frame{well(stream)} })
		var heads atomic.Int64
		srv.head = func() { heads.Add(1) }
		s := newSender(t, with(files))
		wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
		gate := s.pools.Unused()[0].gate
		a := srv.attempt(set)
		a.Job.Request.Body = make([]byte, size)
		a.Writing = func() { _ = gate.Close() }
		wantOutcome(t, s.Send(background, a), job.OutcomeReset, true)
		waitFor(t, "the server to read all", func() bool { _, err := srv.first().Write(nil); return errors.Is(err, net.ErrClosed) })
		if n := heads.Load(); n != 1 {
			t.Errorf("the headers of %d requests came, want 1", n)
		}
	}
}

// A connection on which others write without a pause holds a request up as well,
// a processor that others use does not.
func TestWhatHoldsARequestUp(t *testing.T) {
	t.Parallel()
	srv, set, files := serveFrames(t, func(_, _ int, stream uint32) []frame { return []frame{well(stream)} })
	s := newSender(t, with(files))
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
	c := s.pools.Unused()[0].shared
	const little, long = time.Millisecond, 3 * stallAfter
	for _, w := range []struct {
		waits, writes time.Duration
		left, back    bool
	}{
		{waits: little, writes: little},
		{waits: long},
		{waits: long, writes: little, back: true},
		{waits: little, writes: long, back: true},
		{waits: long, writes: long, left: true},
	} {
		ctx, cancel := context.WithCancelCause(background)
		p := &pass{wrote: true, started: time.Now().Add(-w.waits), ctx: ctx, cancel: cancel}
		p.left.Store(w.left)
		if w.writes > 0 {
			c.gate.writes.Store(int64(time.Since(processStart) - w.writes))
		}
		c.look(p)
		c.gate.writes.Store(0)
		if _, wrote := p.written(); wrote == w.back || (p.ctx.Err() != nil) != w.back || p.leave() == w.back {
			t.Errorf("%+v: written %v, %v", w, wrote, context.Cause(p.ctx))
		}
		p.cancel(nil)
	}
}

// A body that the other side takes no byte of leaves its request in doubt, and
// nothing else: others go over a new connection.
func TestBodyWithoutAWindow(t *testing.T) {
	t.Parallel()
	srv, set, files := serveFrames(t, func(_, _ int, stream uint32) []frame { return []frame{well(stream)} }, settings(4, 0).bytes())
	s := newSender(t, with(files))
	get := srv.attempt(set)
	get.Job.Request.Method, get.Job.Request.Body = "GET", nil
	wantOutcome(t, s.Send(background, get), job.OutcomeDelivered, true)
	a := srv.attempt(set)
	a.Timeout = 100 * time.Millisecond
	wantOutcome(t, s.Send(background, a), job.OutcomeTimeout, true)
	wantOutcome(t, s.Send(background, get), job.OutcomeDelivered, true)
	if conns, requests := srv.counts(); conns != 2 || requests != 2 || srv.bytes != 0 {
		t.Errorf("%d connections, %d requests with %d bytes", conns, requests, srv.bytes)
	}
}

// The other side takes streams back when the gate has opened already: the
// request does not wait in the connection until it gives one again.
func TestStreamsAreTakenBackBehindTheGate(t *testing.T) {
	t.Parallel()
	srv, set, files := serveFrames(t, func(_, _ int, stream uint32) []frame { return []frame{well(stream)} })
	s := newSender(t, with(files))
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
	a := srv.attempt(set)
	a.Gate = func() error {
		// When the ping is answered the frame before it was read.
		if _, err := srv.first().Write(append(settings(3, 0).bytes(), frame{framePing, 0, 0, make([]byte, 8)}.bytes()...)); err != nil {
			t.Error(err)
		}
		waitFor(t, "the settings to be read", func() bool { srv.mu.Lock(); defer srv.mu.Unlock(); return srv.acks == 1 })
		return nil
	}
	begin := time.Now()
	wantOutcome(t, s.Send(background, a), job.OutcomeNotSent, false)
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it waited for %v", took)
	}
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
	if conns, n := srv.counts(); conns != 2 || n != 2 {
		t.Errorf("%d connections, %d requests, want 2 and 2", conns, n)
	}
}

// Streams that come and go while one looks are no sign of an end.
func TestBusyStreamsAreNoEnd(t *testing.T) {
	t.Parallel()
	const streams, requests = 3, 600
	srv, set, files := serveFrames(t, func(_, _ int, stream uint32) []frame { return []frame{well(stream)} }, settings(3, streams).bytes())
	s := newSender(t, with(files))
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
	seat := s.pools.Unused()[0]
	over := make(chan struct{})
	var looking, sending sync.WaitGroup
	var looks, ends, wrong int
	looking.Go(func() {
		for ; ; looks++ {
			select {
			case <-over:
				return
			default:
				runtime.Gosched()
			}
			if seat.Ended() {
				ends++
			}
			seat.shared.of.mu.Lock()
			if seat.shared.room(); seat.shared.limit != streams {
				wrong++
			}
			seat.shared.of.mu.Unlock()
		}
	})
	for range streams {
		sending.Go(func() {
			for range requests / streams {
				s.Send(background, srv.attempt(set))
			}
		})
	}
	sending.Wait()
	close(over)
	looking.Wait()
	if _, n := srv.counts(); n < requests/2 || seat.http.Err() == nil && (ends > 0 || wrong > 0) {
		t.Errorf("%d requests; of %d looks %d saw an end, and %d a wrong limit", n, looks, ends, wrong)
	}
}

// Connections that nobody waits for any more are not made in any number, also
// where the other side agreed on HTTP/1.1 the last time.
func TestOrphanedConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const attempts, most = 40, 8 // most: what package kept lets go on
	cert, key := certificate(t, "bank.example")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	var open, made atomic.Int64
	srv := serveRaw(t, func(s *rawServer, n int, c net.Conn) {
		open.Add(1)
		made.Add(1)
		defer open.Add(-1)
		if n > 0 {
			_, _ = io.Copy(io.Discard, c) // no handshake
			return
		}
		secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}})
		if _, _, err := s.readRequest(bufio.NewReader(secure)); err == nil {
			_, _ = io.WriteString(secure, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}
	})
	s := newSender(t, with(held{"/ca": cert}))
	attempt := func() Attempt {
		a := over2("https://" + srv.Addr().String())
		a.Contract.Target.TLS = destination.TLS{CAFile: "/ca", ServerName: "bank.example"}
		return a
	}
	wantOutcome(t, s.Send(background, attempt()), job.OutcomeDelivered, true)
	waitFor(t, "the first connection to end", func() bool { return open.Load() == 0 })
	ctx, cancel := context.WithCancel(background)
	var wg sync.WaitGroup
	for range attempts {
		wg.Go(func() { wantOutcome(t, s.Send(ctx, attempt()), job.OutcomeNotSent, false) })
	}
	waitFor(t, "all connections to be begun", func() bool { return made.Load() == attempts+1 })
	cancel()
	wg.Wait()
	waitFor(t, "the others to be given up", func() bool { return open.Load() == most })
}

// A Sender that is closed while connections are made and used waits for those that
// are made, and leaves none.
func TestCloseWhileConnectionsAreMade(t *testing.T) {
	t.Parallel()
	srv := serveBoth(t, 2, nil)
	for range 10 {
		s := newSender(t, trust(srv.Server))
		var wg sync.WaitGroup
		begun := srv.made.Load()
		for range 12 {
			wg.Go(func() {
				if r := s.Send(background, over2(srv.URL)); r.Outcome != job.OutcomeDelivered && r.Outcome != job.OutcomeNotSent {
					t.Errorf("%+v", r)
				}
			})
		}
		waitFor(t, "connections to be begun", func() bool { return srv.made.Load() >= begun+2 })
		s.Close()
		wg.Wait()
		if n := len(s.pools.Unused()); n > 0 {
			t.Errorf("%d connections are kept", n)
		}
	}
	waitFor(t, "all connections to end", func() bool { return srv.open.Load() == 0 })
}
