package deliver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// The frames of HTTP/2 that a test has to do with (RFC 9113, section 6).
const (
	frameData     = 0
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	framePush     = 5
	framePing     = 6
	frameGoAway   = 7
	frameWindow   = 8
	frameMore     = 9   // CONTINUATION
	frameStop     = 255 // ours: the server reads and says nothing any more

	flagEnd        = 1 // of a stream
	flagAck        = 1
	flagEndHeaders = 4
)

// frame is one of them; what a server says is a list of frames.
type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

func (f frame) bytes() []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(f.payload))<<8|uint32(f.kind))
	return append(binary.BigEndian.AppendUint32(append(head, f.flags), f.stream), f.payload...)
}

func numbers(list ...uint32) (b []byte) {
	for _, n := range list {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// well answers 200.
func well(stream uint32) frame {
	return frame{frameHeaders, flagEnd | flagEndHeaders, stream, []byte{0x88}} // the 8th of HPACK's static table
}

func reset(stream, code uint32) frame { return frame{frameReset, 0, stream, numbers(code)} }

func goAway(last, code uint32) frame { return frame{frameGoAway, 0, 0, numbers(last, code)} }

// frameServer speaks HTTP/2 frame by frame.
type frameServer struct {
	net.Listener
	wg   sync.WaitGroup
	over chan struct{} // closed when the test ends
	late atomic.Int64  // how much later it says its settings, ns
	data func([]byte)  // gets each DATA frame. Set before the first connection
	head func()        // is told of each HEADERS frame, as data

	mu       sync.Mutex
	conns    []net.Conn
	requests int
	bytes    int // of their bodies
	acks     int // of pings
}

// serveFrames answers each request that has come whole, the nth of its
// connection, with frames; nil ends the connection. It begins with its settings,
// or with hello.
func serveFrames(t *testing.T, answer func(conn, n int, stream uint32) []frame, hello ...[]byte) (*frameServer, destination.TLS, held) {
	t.Helper()
	cert, key := certificate(t, "bank.example")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	if hello == nil {
		hello = [][]byte{frame{kind: frameSettings}.bytes()}
	}
	s := &frameServer{Listener: l, over: make(chan struct{})}
	s.wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.wg.Go(func() { defer c.Close(); s.serve(c, n, answer, bytes.Join(hello, nil)) })
		}
	})
	t.Cleanup(func() {
		close(s.over)
		_ = l.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s, destination.TLS{CAFile: "/ca", ServerName: "bank.example"}, held{"/ca": cert}
}

func (s *frameServer) serve(c net.Conn, number int, answer func(conn, n int, stream uint32) []frame, hello []byte) {
	say := func(f frame) bool { _, err := c.Write(f.bytes()); return err == nil }
	if _, err := io.CopyN(io.Discard, c, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	<-time.After(time.Duration(s.late.Load()))
	if _, err := c.Write(hello); err != nil {
		return
	}
	for n := 0; ; {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		f := frame{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:])}
		f.payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c, f.payload); err != nil {
			return
		}
		switch {
		case f.kind == framePing && f.flags&flagAck == 0:
			say(frame{framePing, flagAck, 0, f.payload})
		case f.kind == framePing:
			s.mu.Lock()
			s.acks++
			s.mu.Unlock()
		case f.kind == frameHeaders && s.head != nil:
			s.head()
		case f.kind == frameData:
			s.mu.Lock()
			s.bytes += len(f.payload)
			s.mu.Unlock()
			if s.data != nil {
				s.data(f.payload)
			}
		}
		if f.kind > frameHeaders || f.flags&flagEnd == 0 {
			continue
		}
		s.mu.Lock()
		s.requests++
		s.mu.Unlock()
		frames := answer(number, n, f.stream)
		for _, f := range frames {
			if f.kind == frameStop {
				<-s.over
			}
			say(f)
		}
		if n++; frames == nil {
			return
		}
	}
}

func (s *frameServer) counts() (conns, requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns), s.requests
}

// first is the first connection.
func (s *frameServer) first() net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[0]
}

func (s *frameServer) attempt(set destination.TLS) Attempt {
	a := over2("https://" + s.Addr().String())
	a.Contract.Target.TLS = set
	return a
}

const protocolError, cancelled, refused, calm = 1, 8, 7, 11

// What becomes of a request whose stream or connection ends without an answer.
// None is sent again by itself, and what the other side says it did not take up
// is in no doubt.
func TestLostStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(stream uint32) []frame
		want   job.Outcome
		text   string
	}{
		"refused":            {func(s uint32) []frame { return []frame{reset(s, refused)} }, job.OutcomeUnfinished, "REFUSED_STREAM"},
		"not taken up":       {func(s uint32) []frame { return []frame{goAway(s-2, 0)} }, job.OutcomeUnfinished, "GOAWAY"},
		"nor in calm":        {func(s uint32) []frame { return []frame{goAway(s-2, calm)} }, job.OutcomeUnfinished, "GOAWAY"},
		"cancelled":          {func(s uint32) []frame { return []frame{reset(s, cancelled)} }, job.OutcomeReset, "CANCEL"},
		"odd code":           {func(s uint32) []frame { return []frame{reset(s, 99)} }, job.OutcomeReset, "an unknown code"},
		"protocol error":     {func(s uint32) []frame { return []frame{reset(s, protocolError)} }, job.OutcomeReset, "PROTOCOL_ERROR"},
		"hangs up":           {func(uint32) []frame { return nil }, job.OutcomeReset, "no answer: "},
		"refused once begun": {func(s uint32) []frame { return []frame{early(s), reset(s, refused)} }, job.OutcomeTruncated, "broke off"},
		"broken frame":       {func(uint32) []frame { return []frame{{frameSettings, 0, 0, []byte{1}}} }, job.OutcomeInvalidReply, "not HTTP/2"},
		"no status":          {func(s uint32) []frame { return []frame{{frameHeaders, flagEnd | flagEndHeaders, s, nil}} }, job.OutcomeInvalidReply, "not HTTP/2"},
		"answered and reset": {func(s uint32) []frame { return []frame{unended(s), reset(s, 0)} }, job.OutcomeDelivered, ""},
		"taken up":           {func(s uint32) []frame { return []frame{goAway(s, 0), well(s)} }, job.OutcomeDelivered, ""},
		"let go once begun":  {func(s uint32) []frame { return []frame{early(s), goAway(s-2, 0)} }, job.OutcomeTruncated, "broke off"},
		"done and refused":   {func(s uint32) []frame { return []frame{well(s), reset(s, refused)} }, job.OutcomeDelivered, ""},
		"done and let go":    {func(s uint32) []frame { return []frame{well(s), goAway(s-2, 0)} }, job.OutcomeDelivered, ""},
		"pushed":             {func(s uint32) []frame { return []frame{{framePush, flagEndHeaders, s, numbers(2)}} }, job.OutcomeInvalidReply, "not HTTP/2"},
		"headers in pieces": {func(s uint32) []frame {
			return []frame{{frameHeaders, flagEnd, s, nil}, {frameMore, flagEndHeaders, s, well(s).payload}}
		}, job.OutcomeDelivered, ""},
		"broken in pieces": {func(s uint32) []frame { return []frame{{frameHeaders, flagEnd, s, well(s).payload}, reset(s, refused)} }, job.OutcomeInvalidReply, "not HTTP/2"},
		"trailers": {func(s uint32) []frame {
			return []frame{unended(s), {frameHeaders, flagEnd | flagEndHeaders, s, field("x", "y")}}
		}, job.OutcomeDelivered, ""},
		"two answers": {func(s uint32) []frame { return []frame{unended(s), well(s)} }, job.OutcomeDelivered, ""},
		"pings": {func(s uint32) []frame {
			return append(slices.Repeat([]frame{{framePing, 0, 0, make([]byte, 8)}}, 5000), well(s))
		}, job.OutcomeDelivered, ""},
		"answers before": {func(s uint32) []frame { return append(slices.Repeat([]frame{early(s)}, 5000), well(s)) }, job.OutcomeInvalidReply, "not HTTP/2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, set, files := serveFrames(t, func(conn, n int, stream uint32) []frame {
				if conn == 0 && n == 1 {
					return c.answer(stream)
				}
				return []frame{well(stream)}
			})
			s := newSender(t, with(files))
			wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
			r := s.Send(background, srv.attempt(set))
			wantOutcome(t, r, c.want, true)
			if !strings.Contains(r.Error, c.text) {
				t.Errorf("error %q, want %q in it", r.Error, c.text)
			}
			if _, n := srv.counts(); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
			wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
		})
	}
}

// early is an answer before the answer, 103.
func early(stream uint32) frame {
	return frame{frameHeaders, flagEndHeaders, stream, append([]byte{0x08, 3}, "103"...)}
}

// field is a header that HPACK does not compress.
func field(name, value string) []byte {
	return slices.Concat([]byte{0, byte(len(name))}, []byte(name), []byte{byte(len(value))}, []byte(value))
}

func settings(id uint16, value uint32) frame {
	return frame{frameSettings, 0, 0, append(binary.BigEndian.AppendUint16(nil, id), numbers(value)...)}
}

func unended(stream uint32) frame { f := well(stream); f.flags = flagEndHeaders; return f }

func TestGoAwayOnAFreshConnection(t *testing.T) {
	t.Parallel()
	srv, set, files := serveFrames(t, func(conn, _ int, stream uint32) []frame {
		if conn == 0 {
			return []frame{goAway(0, calm)}
		}
		return []frame{well(stream)}
	})
	s := newSender(t, with(files))
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeUnfinished, true)
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
}

// A GOAWAY that comes in between is noticed before the write: the attempt goes
// over another connection, and what is under way on the old one is answered.
func TestGoAwayWhileUnused(t *testing.T) {
	t.Parallel()
	srv, set, files := serveFrames(t, func(_, n int, stream uint32) []frame {
		if n == 1 {
			return []frame{} // answered below
		}
		return []frame{well(stream)}
	})
	s := newSender(t, with(files))
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
	first := make(chan Result)
	go func() { first <- s.Send(background, srv.attempt(set)) }()
	waitFor(t, "the second request", func() bool { _, n := srv.counts(); return n == 2 })
	// When the ping is answered the frame before it was read.
	if _, err := srv.first().Write(append(goAway(3, 0).bytes(), frame{framePing, 0, 0, make([]byte, 8)}.bytes()...)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the GOAWAY to be read", func() bool { srv.mu.Lock(); defer srv.mu.Unlock(); return srv.acks == 1 })
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
	if _, err := srv.first().Write(well(3).bytes()); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, <-first, job.OutcomeDelivered, true)
	if conns, requests := srv.counts(); conns != 2 || requests != 3 {
		t.Errorf("%d connections, %d requests", conns, requests)
	}
}

// A connection that ends while its request waits for the slot is replaced in time.
func TestSharedConnectionEndsDuringWait(t *testing.T) {
	t.Parallel()
	srv, set, files := serveFrames(t, func(_, _ int, stream uint32) []frame { return []frame{well(stream)} })
	srv.late.Store(int64(100 * time.Millisecond)) // what takes long to make is taken long before its slot
	s := newSender(t, with(files))
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
	srv.late.Store(0)
	seat := s.pools.Unused()[0]
	done := make(chan Result)
	a := srv.attempt(set)
	a.At = time.Now().Add(300 * time.Millisecond)
	go func() { done <- s.Send(background, a) }()
	waitFor(t, "the connection to be taken", func() bool { return len(s.pools.Unused()) == 0 })
	_ = srv.first().Close()
	r := <-done
	wantOutcome(t, r, job.OutcomeDelivered, true)
	if conns, requests := srv.counts(); conns != 2 || requests != 2 || !seat.Ended() || r.StartedAt.Before(a.At) {
		t.Errorf("%d connections, %d requests", conns, requests)
	}
}

// One that ends when the gate has opened has sent nothing, and the gate is not
// asked again: it has spoken for that write.
func TestSharedConnectionEndsBehindTheGate(t *testing.T) {
	t.Parallel()
	srv, set, files := serveFrames(t, func(_, _ int, stream uint32) []frame { return []frame{well(stream)} })
	s := newSender(t, with(files))
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
	seat := s.pools.Unused()[0]
	a := srv.attempt(set)
	asked := 0
	a.Gate = func() error {
		asked++
		_ = srv.first().Close()
		waitFor(t, "the end to be seen", func() bool { return seat.http.Err() != nil })
		return nil
	}
	wantOutcome(t, s.Send(background, a), job.OutcomeNotSent, false)
	if conns, requests := srv.counts(); conns != 1 || requests != 1 || asked != 1 {
		t.Errorf("%d connections, %d requests, asked %d times", conns, requests, asked)
	}
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
}

// Who does not read any more gets no further requests on that connection: they
// would wait in it and leave together.
func TestStalledConnectionTakesNoMore(t *testing.T) {
	t.Parallel()
	const size = 32 << 20 // more than the kernel takes
	windows := frame{frameSettings, 0, 0, append([]byte{0, 4}, numbers(1<<30)...)}.bytes()
	windows = append(windows, frame{frameWindow, 0, 0, numbers(1 << 30)}.bytes()...)
	srv, set, files := serveFrames(t, func(conn, _ int, stream uint32) []frame {
		if conn == 0 {
			return []frame{well(stream), {kind: frameStop}}
		}
		return []frame{well(stream)}
	}, windows)
	s := newSender(t, with(files))
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
	seat := s.pools.Unused()[0]
	ctx, cancel := context.WithCancel(background)
	large := make(chan Result)
	go func() {
		a := srv.attempt(set)
		a.Job.Request.Body = make([]byte, size)
		large <- s.Send(ctx, a)
	}()
	waitFor(t, "its write to wait", seat.gate.stalled)
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
	// One that has its seat already notices it right before the gate.
	late := &pass{ctx: background, gate: func() error { t.Error("the gate was asked"); return nil }}
	if err := begin(seat, late); !errors.Is(err, errStalled) {
		t.Error(err)
	}
	cancel()
	wantOutcome(t, <-large, job.OutcomeInterrupted, true)
	if conns, requests := srv.counts(); conns != 2 || requests != 2 {
		t.Errorf("%d connections, %d requests", conns, requests)
	}
}

// A destination that reads the request and hangs up gets it once, whatever its
// method and size, on a fresh connection and on a used one.
func TestNoHiddenResendOverHTTP2(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST", "DELETE"} {
		for _, size := range []int{0, 1, 60 << 10} {
			for _, used := range []int{0, 1} {
				t.Run(method+strconv.Itoa(size)+"after"+strconv.Itoa(used), func(t *testing.T) {
					t.Parallel()
					srv, set, files := serveFrames(t, func(_, n int, stream uint32) []frame {
						if n < used {
							return []frame{well(stream)}
						}
						return nil
					})
					s := newSender(t, with(files))
					a := srv.attempt(set)
					a.Job.Request.Method, a.Job.Request.Body = method, nil
					for range used {
						wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
					}
					a.Job.Request.Body = bytes.Repeat([]byte{'x'}, size)
					wantOutcome(t, s.Send(background, a), job.OutcomeReset, true)
					conns, requests := srv.counts()
					srv.mu.Lock()
					defer srv.mu.Unlock()
					if conns != 1 || requests != used+1 || srv.bytes != size {
						t.Errorf("%d connections, %d requests with %d bytes, want 1, %d and %d", conns, requests, srv.bytes, used+1, size)
					}
				})
			}
		}
	}
}

// A side that agrees on HTTP/2 and then says nothing, or something else, or
// takes no streams, gets no request.
func TestNoHTTP2AfterAll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hello []byte
		want  job.Outcome
		text  string
	}{
		"silence":    {[]byte{}, job.OutcomeConnectTimeout, "TLS handshake: not done within 100ms"},
		"HTTP/1.1":   {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), job.OutcomeTLS, "TLS handshake: "},
		"no streams": {frame{frameSettings, 0, 0, []byte{0, 3, 0, 0, 0, 0}}.bytes(), job.OutcomeConnect, "connect: it takes no requests"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, set, files := serveFrames(t, func(int, int, uint32) []frame { return nil }, c.hello)
			s := newSender(t, with(files), func(cfg *Config) {
				if c.want == job.OutcomeConnectTimeout {
					cfg.DialTimeout = 100 * time.Millisecond
				}
			})
			a := srv.attempt(set)
			a.Gate = func() error { t.Error("the gate was asked"); return nil }
			r := s.Send(background, a)
			wantOutcome(t, r, c.want, false)
			if !strings.HasPrefix(r.Error, c.text) {
				t.Errorf("error %q, want %q", r.Error, c.text)
			}
			if _, n := srv.counts(); n != 0 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// A request whose headers are more than the other side takes can never be sent.
func TestHeadersTheOtherSideDoesNotTake(t *testing.T) {
	t.Parallel()
	srv, set, files := serveFrames(t, func(_, _ int, stream uint32) []frame { return []frame{well(stream)} },
		frame{frameSettings, 0, 0, []byte{0, 6, 0, 0, 0, 100}}.bytes())
	s := newSender(t, with(files))
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeBadRequest, false)
	if _, n := srv.counts(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// Nor one with a header that net/http does not write: it would come back for ever.
func TestHeadersThatAreNotWritten(t *testing.T) {
	t.Parallel()
	srv, set, files := serveFrames(t, func(_, _ int, stream uint32) []frame { return []frame{well(stream)} })
	s := newSender(t, with(files))
	a := srv.attempt(set)
	a.Contract.Target.Headers = []destination.Header{{Name: "Host", Value: "s3cret of a bank"}}
	r := s.Send(background, a)
	wantOutcome(t, r, job.OutcomeBadRequest, false)
	if strings.Contains(r.Error, "s3cret") {
		t.Error(r.Error)
	}
	wantOutcome(t, s.Send(background, srv.attempt(set)), job.OutcomeDelivered, true)
}

// That our certificate is refused is no doubt as long as nothing was answered on
// the connection. Behind an answer it is another end.
func TestAlertBehindAnAnswer(t *testing.T) {
	t.Parallel()
	alert := &net.OpError{Op: "remote error", Err: tls.AlertError(42)}
	for name, c := range map[string]struct {
		shared, reused, answered bool
		want                     job.Outcome
	}{
		"HTTP/1.1":          {false, false, false, job.OutcomeTLS},
		"HTTP/1.1 answered": {false, false, true, job.OutcomeTruncated},
		"HTTP/1.1 reused":   {false, true, false, job.OutcomeReset},
		"HTTP/2":            {true, false, false, job.OutcomeTLS},
		"HTTP/2 answered":   {true, false, true, job.OutcomeTruncated},
		"HTTP/2 another":    {true, true, false, job.OutcomeReset},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := &conn{gate: &gateConn{}}
			if c.shared {
				conn.shared = &shared{}
			}
			conn.gate.reused.Store(c.reused)
			p := &pass{ctx: background}
			p.answered.Store(c.answered)
			if got, text := lostOutcome(conn, p, alert); got != c.want {
				t.Errorf("%s, want %s: %s", got, c.want, text)
			}
		})
	}
}

// The first answer on a shared connection says for all on it that it was well:
// its end is then a matter of chance, no failure of the destination.
func TestAnAnswerCountsForAll(t *testing.T) {
	t.Parallel()
	srv, set, files := serveFrames(t, func(_, _ int, stream uint32) []frame {
		return []frame{unended(stream), {framePing, 0, 0, make([]byte, 8)}}
	})
	s := newSender(t, with(files))
	first := make(chan Result, 1)
	go func() { first <- s.Send(background, srv.attempt(set)) }()
	waitFor(t, "the answer to be read", func() bool { srv.mu.Lock(); defer srv.mu.Unlock(); return srv.acks == 1 })
	a := srv.attempt(set)
	a.Gate = func() error {
		_ = srv.first().Close()
		wantOutcome(t, <-first, job.OutcomeDelivered, true)
		return nil
	}
	wantOutcome(t, s.Send(background, a), job.OutcomeNotSent, false)
	if conns, requests := srv.counts(); conns != 1 || requests != 1 {
		t.Errorf("%d connections, %d requests", conns, requests)
	}
}
