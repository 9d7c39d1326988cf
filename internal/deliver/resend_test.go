package deliver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tundish/internal/job"
)

// A destination that reads the second request of a kept connection and hangs up
// is what makes net/http's pool send it again.
func TestNoHiddenResend(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST", "DELETE"} {
		for _, size := range []int{0, 1, 256 << 10} {
			t.Run(method+strconv.Itoa(size), func(t *testing.T) {
				t.Parallel()
				srv := serveRaw(t, func(s *rawServer, n int, c net.Conn) {
					br := bufio.NewReader(c)
					s.readRequest(br)
					io.WriteString(c, okAnswer)
					s.readRequest(br)
				})
				s := newSender(t)
				a := attemptTo(srv.url())
				a.Job.Request.Method = method
				wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
				a.Job.Request.Body = bytes.Repeat([]byte{'x'}, size)
				wantOutcome(t, s.Send(background, a), job.OutcomeReset, true)
				if conns, requests := srv.counts(); conns != 1 || requests != 2 {
					t.Errorf("%d connections, %d requests, want 1 and 2", conns, requests)
				}
			})
		}
	}
}

// An idle connection that the destination has closed costs neither the attempt
// nor a second write.
func TestClosedIdleConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	closedOnce := make(chan struct{})
	srv := serveRaw(t, func(s *rawServer, n int, c net.Conn) {
		br := bufio.NewReader(c)
		s.readRequest(br)
		io.WriteString(c, okAnswer)
		if n == 0 {
			c.Close()
			close(closedOnce)
			return
		}
		s.readRequest(br)
	})
	s := newSender(t)
	a := attemptTo(srv.url())
	wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
	<-closedOnce
	wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
	if conns, requests := srv.counts(); conns != 2 || requests != 2 {
		t.Errorf("%d connections, %d requests, want 2 and 2", conns, requests)
	}
}

// A kept connection on which nothing comes back any more costs one attempt: the
// next one is made on another.
func TestSilentConnectionIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	srv := serveRaw(t, func(s *rawServer, conn int, c net.Conn) {
		br := bufio.NewReader(c)
		for n := 0; ; n++ {
			if _, _, err := s.readRequest(br); err != nil {
				return
			}
			if conn > 0 || n == 0 { // the first connection answers once
				io.WriteString(c, okAnswer)
			}
		}
	})
	s := newSender(t)
	for i, want := range []job.Outcome{job.OutcomeDelivered, job.OutcomeTimeout, job.OutcomeDelivered, job.OutcomeDelivered} {
		a := attemptTo(srv.url())
		a.Timeout = 10 * time.Second
		if want == job.OutcomeTimeout {
			a.Timeout = 100 * time.Millisecond
		}
		if r := s.Send(background, a); r.Outcome != want {
			t.Errorf("attempt %d: %+v, want %s", i, r, want)
		}
	}
	if conns, requests := srv.counts(); conns != 2 || requests != 4 {
		t.Errorf("%d connections and %d requests, want 2 and 4", conns, requests)
	}
}

// A connection that ends while its request waits for the slot is replaced in time.
func TestConnectionEndsDuringWait(t *testing.T) {
	t.Parallel()
	hangUp := make(chan struct{})
	srv := serveRaw(t, func(s *rawServer, n int, c net.Conn) {
		br := bufio.NewReader(c)
		s.readRequest(br)
		io.WriteString(c, okAnswer)
		if n == 0 {
			<-hangUp
			return
		}
		s.readRequest(br)
	})
	s := newSender(t)
	a := attemptTo(srv.url())
	wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
	a.At = time.Now().Add(60 * time.Millisecond)
	time.AfterFunc(20*time.Millisecond, func() { close(hangUp) })
	r := s.Send(background, a)
	wantOutcome(t, r, job.OutcomeDelivered, true)
	if r.StartedAt.Before(a.At) {
		t.Errorf("written %v before its slot", a.At.Sub(r.StartedAt))
	}
	if conns, requests := srv.counts(); conns != 2 || requests != 2 {
		t.Errorf("%d connections, %d requests, want 2 and 2", conns, requests)
	}
}

func TestFreshConnectionHungUpOn(t *testing.T) {
	t.Parallel()
	srv := serveRaw(t, func(*rawServer, int, net.Conn) {})
	s := newSender(t)
	a := attemptTo(srv.url())
	a.At = time.Now().Add(50 * time.Millisecond)
	wantOutcome(t, s.Send(background, a), job.OutcomeConnect, false)
}

func TestBodiesByteForByte(t *testing.T) {
	t.Parallel()
	all := make([]byte, 256*64)
	for i := range all {
		all[i] = byte(i)
	}
	random := make([]byte, 1<<20)
	src := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(src.Uint32())
	}
	type got struct {
		sum      [32]byte
		length   int64
		encoding string
		chunked  bool
	}
	sink := make(chan got, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		sink <- got{sha256.Sum256(b), r.ContentLength, r.Header.Get("Content-Encoding"), len(r.TransferEncoding) > 0}
	}))
	t.Cleanup(srv.Close)
	s := newSender(t)
	for name, body := range map[string][]byte{
		"all": all, "random": random, "one": {0},
		"json": []byte(`{"v":15947634569000323,"f":1.0,"a":[], "o":{},"s":"\u0000"}`),
	} {
		a := attemptTo(srv.URL)
		a.Job.Request.Body = body
		a.Job.Request.Headers = []job.Header{{Name: "Content-Encoding", Value: "gzip"}}
		wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
		want := got{sha256.Sum256(body), int64(len(body)), "gzip", false}
		if g := <-sink; g != want {
			t.Errorf("%s: got %+v, want %+v", name, g, want)
		}
	}
}

func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	const senders, each = 16, 40
	var accepted atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.Header.Get("X-Size"))
		status, _ := strconv.Atoi(r.Header.Get("X-Status"))
		w.WriteHeader(status)
		if status != 204 {
			w.Write(make([]byte, n))
		}
	}))
	srv.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			accepted.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	s := newSender(t)
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for i := range each {
				a := attemptTo(srv.URL)
				a.Job.Request.Headers = []job.Header{
					{Name: "X-Size", Value: []string{"0", "8192", "65536"}[i%3]},
					{Name: "X-Status", Value: []string{"200", "204", "404", "429", "500"}[i%5]},
				}
				if r := s.Send(background, a); r.HTTPStatus == 0 {
					t.Errorf("no answer: %+v", r)
				}
			}
		})
	}
	wg.Wait()
	if n := accepted.Load(); n > senders {
		t.Errorf("%d connections for %d senders", n, senders)
	}
}

// One that is always busy would stay with an address that the name has left.
func TestConnectionsDoNotLiveForEver(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		srv := serveBoth(t, 100, func(http.ResponseWriter, *http.Request) {})
		for age, want := range map[time.Duration]int64{time.Hour: 1, time.Nanosecond: 5} {
			s, before := newSender(t, trust(srv.Server), func(c *Config) { c.MaxAge = age }), srv.made.Load()
			for range 5 {
				a := attemptTo(srv.URL)
				a.Contract.Target.HTTP2 = http2
				wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
			}
			if n := srv.made.Load() - before; n != want {
				t.Errorf("HTTP/2 %v, at most %v old: %d connections for 5 requests, want %d", http2, age, n, want)
			}
		}
	}
}

// One of HTTP/2 that never has no request on it would else never end.
func TestOldConnectionTakesNoMoreRequests(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]int64{time.Hour: 1, time.Nanosecond: 2} {
		begun, release := make(chan struct{}), make(chan struct{})
		srv := serveBoth(t, 100, func(_ http.ResponseWriter, r *http.Request) {
			if r.Method == "PUT" {
				close(begun)
				<-release
			}
		})
		s := newSender(t, trust(srv.Server), func(c *Config) { c.MaxAge = age })
		var wg sync.WaitGroup
		wg.Go(func() {
			a := over2(srv.URL)
			a.Job.Request.Method = "PUT"
			wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
		})
		<-begun
		wantOutcome(t, s.Send(background, over2(srv.URL)), job.OutcomeDelivered, true)
		if n := srv.made.Load(); n != want {
			t.Errorf("at most %v old: %d connections for two requests at once, want %d", age, n, want)
		}
		close(release)
		wg.Wait()
	}
}

// Cancelled early, a dial goes on and its connection serves a later slot.
func TestDialOutlivesItsSend(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var accepted atomic.Int64
	srv.Listener = &slowTLS{srv.Listener, release, &accepted}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	s := newSender(t, trust(srv))
	a := attemptTo(srv.URL)
	ctx, cancel := context.WithTimeout(background, 30*time.Millisecond)
	defer cancel()
	wantOutcome(t, s.Send(ctx, a), job.OutcomeConnectTimeout, false)
	close(release)
	waitFor(t, "the connection to be kept", func() bool { return len(s.pools.Unused()) == 1 })
	wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
	if n := accepted.Load(); n != 1 {
		t.Errorf("%d connections, want the first one to be kept", n)
	}
}

// slowTLS lets no connection speak before release is closed.
type slowTLS struct {
	net.Listener
	release  chan struct{}
	accepted *atomic.Int64
}

func (l *slowTLS) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
		c = &slowConn{c, l.release}
	}
	return c, err
}

type slowConn struct {
	net.Conn
	release chan struct{}
}

func (c *slowConn) Read(b []byte) (int, error) {
	<-c.release
	return c.Conn.Read(b)
}

func trust(srv *httptest.Server) func(*Config) {
	return func(c *Config) { c.RootCAs = srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs }
}
