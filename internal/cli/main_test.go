package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock stands still, but for the sleeps of the command line.
type clock struct {
	mu     sync.Mutex
	at     time.Time
	sleeps []time.Duration
	onNth  func(n int) // called with each sleep
}

func newClock() *clock { return &clock{at: time.Unix(1_800_000_000, 0)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	c.at = c.at.Add(d)
	c.sleeps = append(c.sleeps, d)
	n := len(c.sleeps)
	c.mu.Unlock()
	if c.onNth != nil {
		c.onNth(n)
	}
	return ctx.Err()
}

func (c *clock) slept() (total time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.sleeps {
		total += d
	}
	return total
}

// world is what one command line meets.
type world struct {
	programs Programs
	env      map[string]string
	stdin    io.Reader
	clock    *clock
	linger   time.Duration
}

type ending struct {
	code           int
	stdout, stderr string
}

// run runs a command line in w.
func (w world) run(ctx context.Context, args ...string) ending {
	var out, errs bytes.Buffer
	if w.stdin == nil {
		w.stdin = strings.NewReader("")
	}
	if w.clock == nil {
		w.clock = newClock()
	}
	if w.linger == 0 {
		w.linger = time.Minute // batches are full or the last
	}
	code := run(ctx, args, &session{
		programs: w.programs, stdin: w.stdin, stdout: &out, stderr: &errs,
		getenv: func(name string) string { return w.env[name] },
		now:    w.clock.now, sleep: w.clock.sleep, linger: w.linger,
	})
	return ending{code, out.String(), errs.String()}
}

// want fails the test unless the command ended with code, and stdout and
// stderr hold what is given.
func (e ending) want(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if e.code != code || !strings.Contains(e.stdout, stdout) || !strings.Contains(e.stderr, stderr) {
		t.Errorf("exit %d, want %d\nstdout %q, want %q in it\nstderr %q, want %q in it", e.code, code, e.stdout, stdout, e.stderr, stderr)
	}
}

// fakeAPI answers by route, as http.ServeMux knows them.
type fakeAPI struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string // method, path and body
}

func newFakeAPI(t *testing.T, routes map[string]http.HandlerFunc) *fakeAPI {
	t.Helper()
	f := &fakeAPI{}
	mux := http.NewServeMux()
	for pattern, handle := range routes {
		mux.HandleFunc(pattern, handle)
	}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		f.mu.Lock()
		f.calls = append(f.calls, r.Method+" "+r.URL.RequestURI()+" "+string(body))
		f.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// seen lists the calls so far.
func (f *fakeAPI) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

// says answers with a status and a body.
func says(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func problemBody(code, detail string) string {
	return `{"type":"urn:tundish:problem:` + code + `","title":"T","status":0,"detail":"` + detail + `","code":"` + code + `","request_id":"r-1"}`
}

func tempFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
