package deliver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// both is a real server that speaks HTTP/2 and HTTP/1.1.
type both struct {
	*httptest.Server
	requests, made, open atomic.Int64 // connections made and open
}

// serveBoth serves with so many streams a connection; 0: as many as net/http
// takes, below 0: HTTP/1.1 alone.
func serveBoth(t testing.TB, streams int, handle http.HandlerFunc) *both {
	t.Helper()
	b := &both{}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.requests.Add(1)
		if handle != nil {
			handle(w, r)
		}
	}))
	b.EnableHTTP2 = streams >= 0
	b.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	b.Config.ErrorLog = quiet
	b.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			b.made.Add(1)
			b.open.Add(1)
		case http.StateClosed:
			b.open.Add(-1)
		}
	}
	b.StartTLS()
	t.Cleanup(b.Close)
	return b
}

// over2 makes an attempt over HTTP/2.
func over2(url string) Attempt {
	a := attemptTo(url)
	a.Contract.Target.HTTP2 = true
	return a
}

func TestRequestOverHTTP2(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	bodies := make(chan string, 1)
	srv := serveBoth(t, 0, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- r
		bodies <- string(body)
		w.Header().Set("X-Answer", "yes")
		w.Header().Set("Retry-After", "7")
		status, _ := strconv.Atoi(r.Header.Get("X-Status"))
		w.WriteHeader(status)
		io.WriteString(w, "kept in part")
	})
	s := newSender(t, trust(srv.Server))
	a := over2(srv.URL + "/v1")
	a.Contract.Target.Headers = []destination.Header{{Name: "Authorization", Value: "Bearer s3cret"}, {Name: "Host", Value: "virtual.example"}}
	a.Contract.Target.Keep = destination.KeepResponse{Body: 4, Headers: []string{"X-Answer"}}
	for _, c := range []struct {
		method, body, length string
		status               int
		outcome              job.Outcome
	}{
		{"POST", `{"a":1}`, "7", 200, job.OutcomeDelivered},
		{"POST", "", "0", 204, job.OutcomeDelivered},
		{"PUT", "", "0", 429, job.OutcomeThrottled},
		{"GET", "", "", 302, job.OutcomeRedirect},
		{"DELETE", "x", "1", 503, job.OutcomeThrottled},
		{"HEAD", "", "", 404, job.OutcomeRejected},
		{"POST", strings.Repeat("x", 1<<20), "1048576", 500, job.OutcomeServerError},
	} {
		a.Job.Request = job.Request{Method: c.method, Path: "/payouts/a%2Fb;v=1?mode=fast&q=%zz+[x]", Body: []byte(c.body),
			Headers: []job.Header{{Name: "X-A", Value: "1"}, {Name: "x-a", Value: "2"}, {Name: "X-Space", Value: " \ta b\t "}, {Name: "X-Status", Value: strconv.Itoa(c.status)}}}
		res := s.Send(background, a)
		wantOutcome(t, res, c.outcome, true)
		r := <-seen
		if r.ProtoMajor != 2 || r.Method != c.method || r.RequestURI != "/v1/payouts/a%2Fb;v=1?mode=fast&q=%zz+[x]" || r.Host != "virtual.example" {
			t.Errorf("came as %s %s to %s in HTTP/%d", r.Method, r.RequestURI, r.Host, r.ProtoMajor)
		}
		for name, want := range map[string]string{"Content-Length": c.length, "X-A": "1 2", "X-Space": "a b", "Authorization": "Bearer s3cret", "Idempotency-Key": "shop:order-77",
			"Tundish-Attempt": "1", "User-Agent": "tundish", "Accept-Encoding": "", "Te": "", "Transfer-Encoding": "", "Connection": ""} {
			if got := strings.Join(r.Header.Values(name), " "); got != want {
				t.Errorf("%s %d: %s is %q, want %q", c.method, c.status, name, got, want)
			}
		}
		if body := <-bodies; body != c.body {
			t.Errorf("a body of %d bytes, want %d", len(body), len(c.body))
		}
		want := &job.Response{HTTPStatus: c.status, Headers: []job.Header{{Name: "X-Answer", Value: "yes"}}, Body: []byte("kept"), Truncated: true}
		if c.method == "HEAD" || c.status == 204 {
			want.Body, want.Truncated = nil, false
		}
		if k := res.Response; k == nil || k.HTTPStatus != want.HTTPStatus || len(k.Headers) != 1 || k.Headers[0] != want.Headers[0] || !bytes.Equal(k.Body, want.Body) || k.Truncated != want.Truncated {
			t.Errorf("kept %+v, want %+v", res.Response, want)
		}
		if (res.RetryAfter == 7*time.Second) == (c.outcome == job.OutcomeDelivered) {
			t.Errorf("%s: Retry-After %v", c.outcome, res.RetryAfter)
		}
	}
	if n := srv.made.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// One connection carries what the other side allows, more are made beyond it,
// and those for a rush end after it.
func TestStreamsShareConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ streams, senders, conns int }{{0, 60, 1}, {100, 60, 1}, {5, 20, 4}, {1, 6, 6}} {
		t.Run(strconv.Itoa(c.streams), func(t *testing.T) {
			t.Parallel()
			arrived, all := make(chan struct{}, c.senders), make(chan struct{})
			srv := serveBoth(t, c.streams, func(_ http.ResponseWriter, r *http.Request) {
				if r.Method == "POST" {
					arrived <- struct{}{}
					<-all
				}
			})
			s := newSender(t, trust(srv.Server), func(c *Config) { c.IdleTimeout = 300 * time.Millisecond })
			var wg sync.WaitGroup
			for range c.senders {
				wg.Go(func() { wantOutcome(t, s.Send(background, over2(srv.URL)), job.OutcomeDelivered, true) })
			}
			for range c.senders {
				<-arrived
			}
			if n := srv.made.Load(); n != int64(c.conns) {
				t.Errorf("%d connections for %d at once, want %d", n, c.senders, c.conns)
			}
			close(all)
			wg.Wait()
			// One after the other they need one, whose streams they take again at once.
			for i := range 30 {
				a := over2(srv.URL)
				a.Job.Request.Method = []string{"PUT", "GET"}[i%2]
				wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
			}
			if n := srv.made.Load(); n != int64(c.conns) {
				t.Errorf("%d connections after more, one by one, want %d", n, c.conns)
			}
			waitFor(t, "unused connections to end", func() bool { return srv.open.Load() == 0 && len(s.pools.Unused()) == 0 })
		})
	}
}

func TestGateOverHTTP2(t *testing.T) {
	t.Parallel()
	srv := serveBoth(t, 2, nil)
	s := newSender(t, trust(srv.Server))
	wantOutcome(t, s.Send(background, over2(srv.URL)), job.OutcomeDelivered, true)
	for i := range 50 {
		a := over2(srv.URL)
		asked := 0
		a.Gate = func() error { asked++; return errors.New("too late") }
		a.Writing = func() { t.Error("it says that it writes") }
		a.At = time.Now().Add(time.Duration(i%3-1) * time.Millisecond)
		wantOutcome(t, s.Send(background, a), job.OutcomeNotSent, false)
		if asked != 1 {
			t.Fatalf("the gate was asked %d times", asked)
		}
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			a := over2(srv.URL)
			a.At = time.Now().Add(time.Duration(i) * 2 * time.Millisecond)
			var asked time.Time
			writes := 0
			a.Gate = func() error { asked = time.Now(); return nil }
			a.Writing = func() { writes++ }
			r := s.Send(background, a)
			wantOutcome(t, r, job.OutcomeDelivered, true)
			if asked.Before(a.At) || r.StartedAt.Before(asked) || writes != 1 {
				t.Errorf("slot %v, gate %v, write %v, %d writes", a.At, asked, r.StartedAt, writes)
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithCancelCause(background)
	a := over2(srv.URL)
	a.At = time.Now().Add(time.Hour)
	time.AfterFunc(5*time.Millisecond, func() { cancel(ErrStopped) })
	wantOutcome(t, s.Send(ctx, a), job.OutcomeNotSent, false)
	if n := srv.requests.Load(); n != 41 {
		t.Errorf("%d requests, want 41", n)
	}
}

// Who does not speak HTTP/2 is sent to over HTTP/1.1, on the same connection.
func TestHTTP2IsNotForced(t *testing.T) {
	t.Parallel()
	srv := serveBoth(t, -1, func(_ http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 {
			t.Errorf("HTTP/%d", r.ProtoMajor)
		}
	})
	s := newSender(t, trust(srv.Server))
	for range 5 {
		a := over2(srv.URL)
		a.At = time.Now().Add(10 * time.Millisecond)
		r := s.Send(background, a)
		wantOutcome(t, r, job.OutcomeDelivered, true)
		if r.StartedAt.Before(a.At) {
			t.Error("written before its slot")
		}
	}
	if n := srv.made.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { wantOutcome(t, s.Send(background, over2(srv.URL)), job.OutcomeDelivered, true) })
	}
	wg.Wait()
	if n := srv.requests.Load(); n != 13 {
		t.Errorf("%d requests", n)
	}
}

// Who did not ask for HTTP/2 shares no connection with who did.
func TestHTTP2IsOptIn(t *testing.T) {
	t.Parallel()
	protos := make(chan int, 1)
	srv := serveBoth(t, 0, func(_ http.ResponseWriter, r *http.Request) { protos <- r.ProtoMajor })
	s := newSender(t, trust(srv.Server))
	for _, want := range []int{2, 1, 2, 1} {
		a := attemptTo(srv.URL)
		a.Contract.Target.HTTP2 = want == 2
		wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
		if got := <-protos; got != want {
			t.Errorf("HTTP/%d, want HTTP/%d", got, want)
		}
	}
	if n := srv.made.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

func TestTimeoutAndStopOverHTTP2(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	srv := serveBoth(t, 0, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}
	})
	defer close(hang)
	s := newSender(t, trust(srv.Server))
	get := over2(srv.URL)
	get.Job.Request.Method = "GET"
	wantOutcome(t, s.Send(background, get), job.OutcomeDelivered, true)

	stopped, cancel := context.WithCancelCause(background)
	other := make(chan Result)
	go func() { other <- s.Send(stopped, over2(srv.URL)) }()
	waitFor(t, "the request to arrive", func() bool { return srv.requests.Load() == 2 })
	a := over2(srv.URL)
	a.Timeout = 50 * time.Millisecond
	r := s.Send(background, a)
	wantOutcome(t, r, job.OutcomeTimeout, true)
	if r.Error != "no answer within 50ms" {
		t.Error(r.Error)
	}
	// A connection that kept an answer back is used no more; who is on it stays.
	wantOutcome(t, s.Send(background, get), job.OutcomeDelivered, true)
	if n := srv.made.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	cancel(ErrStopped)
	wantOutcome(t, <-other, job.OutcomeInterrupted, true)
	waitFor(t, "the first connection to end", func() bool { return srv.open.Load() == 1 })
	ctx, end := context.WithTimeout(background, 50*time.Millisecond)
	defer end()
	wantOutcome(t, s.Send(ctx, over2(srv.URL)), job.OutcomeTimeout, true)
}

// Answers without end cost neither memory nor time, and count by their status.
func TestAnswersWithoutEndOverHTTP2(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	srv := serveBoth(t, 0, func(w http.ResponseWriter, r *http.Request) {
		for range r.ContentLength {
			w.Header().Add("X-Long", strings.Repeat("x", maxHeaderBytes*3/4))
		}
		if r.Method == "PUT" {
			return
		}
		for chunk := make([]byte, 16<<10); r.Context().Err() == nil; {
			n, err := w.Write(chunk)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	})
	s := newSender(t, trust(srv.Server))
	begin := time.Now()
	a := over2(srv.URL)
	a.Job.Request.Body = nil
	wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
	if n, took := sent.Load(), time.Since(begin); n > 4*streamBuffer || took > drainTime+time.Second {
		t.Errorf("%d bytes in %v", n, took)
	}
	a.Job.Request.Method = "PUT"
	for size, want := range map[int]string{2: "the answer's headers exceed 65536 bytes", 5: "the answer is not HTTP/2"} {
		a.Job.Request.Body = make([]byte, size)
		r := s.Send(background, a)
		wantOutcome(t, r, job.OutcomeInvalidReply, true)
		if r.Error != want {
			t.Error(r.Error)
		}
	}
	a.Job.Request.Body = make([]byte, 1)
	wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
}

// An answer whose body does not end costs its stream after a while, and neither
// the connection nor the outcome.
func TestDrippingAnswerOverHTTP2(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	srv := serveBoth(t, 1, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(ended)
		}
	})
	s := newSender(t, trust(srv.Server))
	begin := time.Now()
	wantOutcome(t, s.Send(background, over2(srv.URL)), job.OutcomeDelivered, true)
	if took := time.Since(begin); took > drainTime+2*time.Second {
		t.Errorf("it took %v", took)
	}
	<-ended
	a := over2(srv.URL)
	a.Job.Request.Method = "GET"
	wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
}
