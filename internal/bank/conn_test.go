package bank

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// wire is a listener with one connection, in memory: a write returns only when
// the bank has read it, so the order of events is certain.
type wire struct {
	conns chan net.Conn
	ended chan struct{}
}

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.ended:
		return nil, errors.New("closed")
	}
}
func (w *wire) Close() error   { close(w.ended); return nil }
func (w *wire) Addr() net.Addr { return &net.TCPAddr{} }

// connect serves b on a wire and returns the caller's end.
func connect(t *testing.T, b *Bank) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	w := &wire{conns: make(chan net.Conn, 1), ended: make(chan struct{})}
	w.conns <- theirs
	server := &http.Server{Handler: b.Handler(), ConnContext: b.ConnContext}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(b.Listener(w)) }()
	t.Cleanup(func() {
		_ = ours.Close()
		_ = server.Shutdown(context.Background())
		<-done
	})
	return ours
}

func put(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func answers(t *testing.T, c net.Conn, n int) {
	t.Helper()
	r := bufio.NewReader(c)
	for range n {
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != 200 {
			t.Errorf("answer: %d", answer.StatusCode)
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func counting(t *testing.T, script func(int, *http.Request) *Answer) *Bank {
	t.Helper()
	b, err := New(Config{Rate: 1000, Per: time.Second, Script: script})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheStampIsThatOfTheFirstByte(t *testing.T) {
	t.Parallel()
	b := counting(t, nil)
	c := connect(t, b)
	for _, id := range []string{"a", "b"} { // the second on the kept connection
		before := Monotonic()
		put(t, c, "P")
		put(t, c, "OST / HTTP/1.1\r\nHost: b\r\nTundish-Job-Id: "+id+"\r\n") // begun: the first read is stamped
		after := Monotonic()
		put(t, c, "Content-Length: 4\r\n\r\nab")
		put(t, c, "cd")
		answers(t, c, 1)
		all, _ := b.Arrivals()
		last := all[len(all)-1]
		if last.Job != id || last.At < before || last.At > after {
			t.Errorf("%s: arrival %+v, first byte read between %d and %d", id, last, before, after)
		}
	}
}

func TestPipelinedRequestsAreStampedWhenRead(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	b := counting(t, func(n int, _ *http.Request) *Answer {
		if n == 1 {
			<-release // the others are read, and wait for their turn
		}
		return nil
	})
	c := connect(t, b)
	before := Monotonic()
	put(t, c, "POST / HTTP/1.1\r\nHost: b\r\nTundish-Job-Id: a\r\nContent-Length: 2\r\n\r\nhi"+
		"POST / HTTP/1.1\r\nHost: b\r\nTundish-Job-Id: b\r\nContent-Length: 0\r\n\r\n"+
		"GET / HTTP/1.1\r\nHost: b\r\nTundish-Job-Id: c\r\n\r\n")
	after := Monotonic()
	close(release)
	answers(t, c, 3)
	all, _ := b.Arrivals()
	if len(all) != 3 {
		t.Fatalf("%d arrivals, want 3", len(all))
	}
	for i, a := range all {
		if want := string("abc"[i]); a.Job != want || a.At != all[0].At {
			t.Errorf("arrival %d = %+v, want job %s in the read of %d", i, a, want, all[0].At)
		}
	}
	// The stamp follows the copy that lets the write return: compare loosely.
	if all[0].At < before || all[0].At-after > int64(time.Second) {
		t.Errorf("stamp %d, written between %d and %d", all[0].At, before, after)
	}
}

func TestARequestThatDoesNotEndIsNoSuccess(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	b := counting(t, nil)
	inner := b.Handler()
	ended := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		defer close(ended)
		inner.ServeHTTP(w, r)
	})
	ours, theirs := net.Pipe()
	w := &wire{conns: make(chan net.Conn, 1), ended: make(chan struct{})}
	w.conns <- theirs
	server := &http.Server{Handler: handler, ConnContext: b.ConnContext}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(b.Listener(w)) }()
	put(t, ours, "POST / HTTP/1.1\r\nHost: b\r\nIdempotency-Key: k\r\nContent-Length: 9\r\n\r\nhal")
	<-begun
	_ = ours.Close()
	<-ended
	_ = server.Shutdown(context.Background())
	<-done
	all, _ := b.Arrivals()
	if len(all) != 1 || all[0].Status != 0 || all[0].Job != "k" {
		t.Errorf("arrivals = %+v, want one without success", all)
	}
}

func TestWithoutItsListenerTheBankStampsInTheHandler(t *testing.T) {
	t.Parallel()
	b := counting(t, nil)
	before := Monotonic()
	r, err := http.NewRequest("GET", "http://bank/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	b.Handler().ServeHTTP(nothing{http.Header{}}, r)
	if all, _ := b.Arrivals(); len(all) != 1 || all[0].At < before || all[0].At > Monotonic() {
		t.Errorf("arrivals = %+v", all)
	}
}

// nothing is a ResponseWriter that keeps nothing.
type nothing struct{ header http.Header }

func (n nothing) Header() http.Header         { return n.header }
func (n nothing) Write(p []byte) (int, error) { return len(p), nil }
func (n nothing) WriteHeader(int)             {}
