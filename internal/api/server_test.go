package api

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tundish/internal/job"
)

// onTheWire sends raw text to a real server: the status of the first answer, and
// whether it is the connection's last.
func onTheWire(t *testing.T, a *API, text string) (status int, closes bool) {
	t.Helper()
	srv := httptest.NewServer(a.Handler())
	t.Cleanup(srv.Close)
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp.StatusCode, resp.Close
}

func TestServer(t *testing.T) {
	t.Parallel()
	head := "POST " + bankJobs + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	tests := []struct {
		name, text string
		status     int
		closes     bool
	}{
		{"a push", head + "Content-Length: 10\r\n\r\n{\"body\":1}", 202, false},
		{"announced too large, and nothing follows", head + "Content-Length: 524288000\r\n\r\n", 413, true},
		{"the same, waiting for 100", head + "Expect: 100-continue\r\nContent-Length: 524288000\r\n\r\n", 413, true},
		{"chunks without end", head + "Transfer-Encoding: chunked\r\n\r\n20000\r\n" + strings.Repeat(" ", 0x20000) + "\r\n", 413, true},
		{"more than announced", head + "Content-Length: 2\r\n\r\n{} and much more", 202, false},
		{"broken chunk", head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			status, closes := onTheWire(t, newTestAPI(t, newFakeStore()), tc.text)
			if status != tc.status || closes != tc.closes {
				t.Errorf("%d, closes %v; want %d, %v", status, closes, tc.status, tc.closes)
			}
		})
	}
}

func TestCallerThatLeavesWhileTheStoreWorks(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	s.hold, s.began = make(chan struct{}), make(chan struct{}, 1)
	a := newTestAPI(t, s)
	srv := httptest.NewServer(a.Handler())
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\n{}", bankJobs)
	<-s.began
	_ = conn.Close()
	close(s.hold)
	// The repeat is answered with the job of the first push.
	resp, err := http.Post(srv.URL+bankJobs+"/batch", typeNDJSON, strings.NewReader(`{"idempotency_key":"k"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if len(s.jobs) != 1 || s.jobs[0].IdempotencyKey != "k" {
		t.Errorf("%d jobs", len(s.jobs))
	}
}

// brokenWriter fails as the connection of a caller that has gone.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) Write([]byte) (int, error) { return 0, net.ErrClosed }

func TestAnswerNobodyReads(t *testing.T) {
	t.Parallel()
	logged := &strings.Builder{}
	a := newTestAPI(t, newFakeStore(), logTo(logged))
	w := brokenWriter{httptest.NewRecorder()}
	a.Handler().ServeHTTP(w, newRequest("GET", "/v1/destinations", nil))
	if w.Code != 200 || logged.Len() != 0 {
		t.Errorf("%d, logged %s", w.Code, logged)
	}
}

func TestInternalErrorsAreLoggedWithTheirID(t *testing.T) {
	t.Parallel()
	logged := &strings.Builder{}
	s := newFakeStore()
	s.err = fmt.Errorf("a bug")
	a := newTestAPI(t, s, logTo(logged))
	do(a, "GET", bank, nil, "X-Request-Id", "id-7").problem(t, job.CodeInternal)
	if got := logged.String(); !strings.Contains(got, "id-7") || !strings.Contains(got, "a bug") {
		t.Errorf("logged %q", got)
	}
}

func BenchmarkPush(b *testing.B) {
	s := newFakeStore()
	s.capacity = 1 << 40
	a, err := New(Config{Store: s})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	body := `{"body":{"amount":"12.30","text":"` + strings.Repeat("x", 200) + `"},"tenant":"t","headers":{"X-A":"b"}}`
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if r := do(a, "POST", bankJobs, strings.NewReader(body)); r.status != 202 {
				b.Fatalf("%d %s", r.status, r.body)
			}
		}
	})
	b.ReportMetric(float64(len(s.jobs))/float64(len(s.calls)), "jobs/call")
}
