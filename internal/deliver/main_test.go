package deliver

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tundish/internal/destination"
	"tundish/internal/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// newSender makes a Sender that may dial loopback and ends with the test.
func newSender(t testing.TB, change ...func(*Config)) *Sender {
	t.Helper()
	cfg := Config{AllowPrivate: loopback}
	for _, f := range change {
		f(&cfg)
	}
	s := New(cfg)
	t.Cleanup(s.Close)
	return s
}

// attemptTo makes an attempt of a POST job with a small body.
func attemptTo(url string) Attempt {
	return Attempt{
		Lane: "bank",
		Contract: &destination.Contract{
			Name:        "bank",
			Target:      destination.HTTPTarget{URL: url, Method: "POST"},
			Idempotency: destination.Idempotency{Header: "Idempotency-Key"},
		},
		Job:     &job.Job{ID: job.NewID(), Request: job.Request{Body: []byte("hello")}},
		Number:  1,
		Key:     "shop:order-77",
		Timeout: 5 * time.Second,
	}
}

// rawServer is a server of our own on plain TCP: it sees every byte and answers
// whatever a test wants.
type rawServer struct {
	net.Listener
	wg sync.WaitGroup

	mu       sync.Mutex
	conns    []net.Conn
	received bytes.Buffer // everything, of all connections
	requests int
}

// serveRaw runs handle for each connection; conn counts from 0.
func serveRaw(t testing.TB, handle func(s *rawServer, conn int, c net.Conn)) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{Listener: l}
	s.wg.Go(func() { s.accept(handle) })
	t.Cleanup(s.shut)
	return s
}

func (s *rawServer) accept(handle func(*rawServer, int, net.Conn)) {
	for n := 0; ; n++ {
		c, err := s.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns = append(s.conns, c)
		s.mu.Unlock()
		s.wg.Go(func() {
			defer c.Close()
			handle(s, n, &tapped{c, s})
		})
	}
}

func (s *rawServer) shut() {
	s.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *rawServer) url() string { return "http://" + s.Addr().String() }

func (s *rawServer) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received.String()
}

func (s *rawServer) counts() (conns, requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns), s.requests
}

// readRequest reads one whole request and counts it.
func (s *rawServer) readRequest(br *bufio.Reader) (*http.Request, []byte, error) {
	r, err := http.ReadRequest(br)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	s.requests++
	s.mu.Unlock()
	return r, body, nil
}

type tapped struct {
	net.Conn
	s *rawServer
}

func (c *tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.s.mu.Lock()
	c.s.received.Write(b[:n])
	c.s.mu.Unlock()
	return n, err
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// answering answers each request on each connection with the same bytes.
func answering(answer string) func(*rawServer, int, net.Conn) {
	return func(s *rawServer, _ int, c net.Conn) {
		br := bufio.NewReader(c)
		for {
			if _, _, err := s.readRequest(br); err != nil {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

func wantOutcome(t testing.TB, r Result, want job.Outcome, wrote bool) {
	t.Helper()
	if r.Outcome != want || r.Wrote != wrote {
		t.Errorf("outcome %s, wrote %v, want %s, %v (%+v)", r.Outcome, r.Wrote, want, wrote, r)
	}
	if r.Wrote == r.StartedAt.IsZero() {
		t.Errorf("wrote %v but started at %v", r.Wrote, r.StartedAt)
	}
}

var background = context.Background()

// waitFor waits for what no channel tells of.
func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(10 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited too long for %s", what)
		}
	}
}
