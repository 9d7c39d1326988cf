package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/destination"
	"tundish/internal/job"
)

const largeJobs = 4 << 20

// largeStore takes jobs of 4 MiB and answers when hold is closed.
func largeStore(t *testing.T) *fakeStore {
	t.Helper()
	c, _, err := destination.ParseContract("bank", []byte(strings.Replace(bankContract, "1KiB", "4MiB", 1)))
	if err != nil {
		t.Fatal(err)
	}
	s := newFakeStore()
	s.contract = c
	return s
}

// onlyReader hides how long a body is: it goes in chunks.
type onlyReader struct{ io.Reader }

// heap is what lives on it.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// However many large pushes come at once, memory is bounded; those beyond are
// told to come back, and can when the others are done. Not in parallel: it
// looks at the memory of the process.
//
//nolint:paralleltest // see above
func TestLargePushesAtOnceAreBounded(t *testing.T) {
	const callers = 40
	s, reg := largeStore(t), prometheus.NewRegistry()
	s.hold, s.began = make(chan struct{}), make(chan struct{}, callers)
	a := newTestAPI(t, s, func(c *Config) { c.Registerer = reg })
	srv := httptest.NewServer(a.Handler())
	defer srv.Close()
	body := []byte(`{"body_text":"` + strings.Repeat("x", largeJobs) + `"}`)
	push := func(chunked bool) int {
		var r io.Reader = bytes.NewReader(body)
		if chunked {
			r = onlyReader{r}
		}
		resp, err := srv.Client().Post(srv.URL+bankJobs, typeJSON, r)
		if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
			return http.StatusServiceUnavailable // refused before it had sent the whole body, and too busy to hear it
		}
		if err != nil {
			t.Error(err)
			return 0
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		return resp.StatusCode
	}
	before := heap()
	told := make(chan int, callers)
	for i := range callers {
		go func() { told <- push(i%2 == 0) }()
	}
	most := bodiesBytes / largeJobs
	refused := 0
	for ; refused < callers-most; refused++ {
		if status := <-told; status != http.StatusServiceUnavailable {
			t.Fatalf("answered with %d while the store works", status)
		}
	}
	// What is held twice is the text inside the JSON; the rest is slack for 40 connections.
	if grown := heap() - before; grown > 2*bodiesBytes+(24<<20) {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	close(s.hold)
	for range callers - refused {
		if status := <-told; status != http.StatusAccepted && status != http.StatusServiceUnavailable {
			t.Errorf("answered with %d", status)
		}
	}
	if status := push(true); status != http.StatusAccepted {
		t.Errorf("alone: %d", status)
	}
	if v := values(t, reg)["tundish_jobs_rejected_total code=overloaded destination=bank"]; v < float64(callers-most) {
		t.Errorf("%v refused by the metric", v)
	}
	e, _ := a.handler.(*entry)
	srv.Close() // waits for the requests
	if used := e.bodies.used; used != 0 {
		t.Errorf("%d bytes are still counted", used)
	}
}

// The largest requests of all kinds fit when they are alone.
func TestLargestRequestsFitAlone(t *testing.T) {
	t.Parallel()
	s := largeStore(t)
	a := newTestAPI(t, s)
	text := strings.Repeat("\\n", largeJobs/2)
	for path, body := range map[string]string{bankJobs: `{"body_text":"` + text + text[:1<<20] + `"}`, bankBatch: `{"jobs":[{"body_text":"` + text[:4<<20] + `"}]}` + strings.Repeat(" ", 4<<20-64)} {
		for _, r := range []io.Reader{strings.NewReader(body), onlyReader{strings.NewReader(body)}} {
			if got := do(a, "POST", path, r); got.status/100 != 2 {
				t.Errorf("%s with %d bytes: %d %s", path, len(body), got.status, got.body)
			}
		}
	}
}

func TestReadAll(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		size, announced, limit int64
	}{
		{0, -1, 10}, {0, 0, 10}, {10, -1, 10}, {10, 10, 10}, {firstRead, -1, 1 << 20}, {firstRead + 1, firstRead + 1, 1 << 20}, {1 << 20, -1, 1 << 20}, {1 << 20, 1 << 20, 1 << 20},
	} {
		b := &bodies{limit: 2 << 20}
		c := &call{bodies: b}
		want := bytes.Repeat([]byte("abc"), int(tc.size))[:tc.size]
		got, err := c.readAll(iotest.HalfReader(bytes.NewReader(want)), tc.announced, tc.limit)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%+v: %d bytes, %v", tc, len(got), err)
		}
		if b.used < tc.size || b.used > tc.limit+1 || b.used != int64(cap(got)) {
			t.Errorf("%+v: %d bytes counted for %d in %d", tc, b.used, len(got), cap(got))
		}
		c.release()
		if b.used != 0 {
			t.Errorf("%+v: %d bytes left", tc, b.used)
		}
	}
	c := &call{}
	if _, err := c.readAll(iotest.ErrReader(io.ErrUnexpectedEOF), -1, 10); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a failed read gives %v", err)
	}
}

// Bodies are counted as they come, and one that is announced and does not come is not.
func TestBodiesAreCountedAsTheyCome(t *testing.T) {
	t.Parallel()
	b := &bodies{limit: 2 * firstRead}
	slow := &call{bodies: b}
	_, err := slow.readAll(iotest.ErrReader(errors.New("nothing comes")), 1<<20, 1<<20)
	if err == nil || b.used != firstRead {
		t.Errorf("%d bytes counted of one that does not come, %v", b.used, err)
	}
	next := &call{bodies: b}
	_, err = next.readAll(bytes.NewReader(make([]byte, 1<<20)), -1, 1<<20)
	if job.CodeOf(err) != job.CodeOverloaded || b.used != 2*firstRead {
		t.Errorf("%d bytes counted, %v", b.used, err)
	}
	next.release()
	slow.release()
	if b.used != 0 {
		t.Errorf("%d bytes left", b.used)
	}
}

// What a call of the store still uses is counted until it ends.
func TestBodiesAreHeldWhileTheyAreInUse(t *testing.T) {
	t.Parallel()
	b := &bodies{limit: 10}
	c := &call{bodies: b}
	if err := c.hold(10); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	c.keepUntil(done)
	c.release()
	if err := (&call{bodies: b}).hold(1); job.CodeOf(err) != job.CodeOverloaded {
		t.Errorf("given away while in use: %v", err)
	}
	close(done)
	var wg sync.WaitGroup
	wg.Go(func() {
		for (&call{bodies: b}).hold(10) != nil {
			runtime.Gosched()
		}
	})
	wg.Wait()
}
