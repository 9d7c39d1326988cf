package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
	"tundish/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// fakeStore is a store in memory. Its one destination is "bank"; err, when
// set, answers every call.
type fakeStore struct {
	mu       sync.Mutex
	capacity int
	jobs     []*job.Job
	keys     map[string]*job.Job
	calls    []int // jobs of each push
	looks    int   // calls of Destination
	err      error
	verdict  queue.PushResult // with a verdict: answers every job
	contract *destination.Contract
	paused   string
	applied  queue.ApplyRequest
	deleted  string
	status   *queue.Status
	panics   bool

	acts      []string // what was done with jobs
	query     queue.Query
	operation *queue.Operation

	endLooks  int  // calls of Ended
	forgotten bool // jobs have ended and nothing of them is kept

	onPush func() error
	hold   chan struct{} // when set, a push waits for it
	began  chan struct{} // when set, told of each push
}

// bankContract is what the fake store holds, as an operator writes it.
const bankContract = `{"name":"bank","labels":{"team":"pay"},"target":{"http":{"url":"http://127.0.0.1:9090/v1"}},
	"limits":[{"algorithm":"leaky_bucket","rate":50,"per":"1s"}],"queue":{"capacity":100,"max_job_bytes":"1KiB"}}`

func testContract() *destination.Contract {
	c, _, err := destination.ParseContract("bank", []byte(bankContract))
	if err != nil {
		panic(err)
	}
	return c
}

func newFakeStore() *fakeStore {
	return &fakeStore{capacity: 100, keys: map[string]*job.Job{}, contract: testContract()}
}

func (s *fakeStore) PushDurable(ctx context.Context, _ string, _ destination.Durability, jobs []*job.Job) ([]queue.PushResult, error) {
	if s.began != nil {
		s.began <- struct{}{}
	}
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, len(jobs))
	if s.err != nil {
		return nil, s.err
	}
	if s.onPush != nil {
		if err := s.onPush(); err != nil {
			return nil, err
		}
	}
	results := make([]queue.PushResult, 0, len(jobs))
	for _, j := range jobs {
		results = append(results, s.pushOne(j))
	}
	return results, nil
}

func (s *fakeStore) pushOne(j *job.Job) queue.PushResult {
	r := queue.PushResult{Verdict: queue.Accepted, ID: j.ID, State: job.Ready, Capacity: int64(s.capacity)}
	first := s.keys[j.IdempotencyKey]
	switch {
	case s.verdict.Verdict != "":
		return s.verdict
	case first != nil && bytes.Equal(first.Request.Body, j.Request.Body):
		r.Verdict, r.ID = queue.Replayed, first.ID
	case first != nil:
		r.Verdict, r.ID = queue.Conflict, first.ID
	case len(s.jobs) >= s.capacity:
		r.Verdict, r.ID, r.RetryAfter, r.DrainPerSecond = queue.Full, "", 20*time.Millisecond, 50
	default:
		s.jobs = append(s.jobs, j)
		if j.IdempotencyKey != "" {
			s.keys[j.IdempotencyKey] = j
		}
		r.EstimatedSendAt = time.Date(2026, 12, 1, 9, 0, 0, 5e6, time.UTC)
	}
	r.Depth = int64(len(s.jobs))
	return r
}

func (s *fakeStore) found(name string) error {
	if s.err != nil {
		return s.err
	}
	if name != "bank" {
		return job.Errorf(job.CodeDestinationNotFound, "no %s", name)
	}
	return nil
}

func (s *fakeStore) Destination(_ context.Context, name string) (*queue.Destination, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if err := s.found(name); err != nil {
		return nil, err
	}
	return s.bank(), nil
}

func (s *fakeStore) bank() *queue.Destination {
	d := &queue.Destination{
		Name: "bank", Version: 7, Source: queue.Source{Kind: "api"}, Written: []byte(bankContract), Contract: s.contract,
		Live: queue.Live{State: "running", Depth: 3, OldestAge: 1500 * time.Millisecond, RatePerSecond: 49.75},
	}
	if s.contract == nil {
		d.Faulty, d.Live.State = "damaged", "faulty"
	}
	return d
}

func (s *fakeStore) Job(_ context.Context, name string, id job.ID) (*queue.Status, error) {
	if err := s.found(name); err != nil {
		return nil, err
	}
	if s.status == nil || s.status.ID != id {
		return nil, job.Errorf(job.CodeJobNotFound, "no such job")
	}
	return s.status, nil
}

func (s *fakeStore) Ended(_ context.Context, _ string, id job.ID) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLooks++
	return s.forgotten || s.status != nil && s.status.ID == id && s.status.State.Ended(), s.err
}

func (s *fakeStore) Destinations(_ context.Context, prefix, after string, limit int) ([]*queue.Destination, string, error) {
	if s.err != nil {
		return nil, "", s.err
	}
	const only = "bank"
	if !strings.HasPrefix(only, prefix) || after >= only {
		return nil, "", nil
	}
	next := ""
	if limit == 1 {
		next = only
	}
	return []*queue.Destination{s.bank()}, next, nil
}

func (s *fakeStore) Apply(_ context.Context, req queue.ApplyRequest) (*queue.Destination, bool, error) {
	s.applied = req
	if s.panics {
		panic("S3CR3T")
	}
	if s.err != nil {
		return nil, false, s.err
	}
	d := s.bank()
	d.EffectiveIn, d.Warnings = 120*time.Millisecond+1, []string{"durability: late here"}
	return d, req.IfNone, nil
}

func (s *fakeStore) DeleteOf(_ context.Context, set, name string, ifVersion int64, cancelJobs bool) (time.Duration, error) {
	s.deleted = set + " " + name + " " + strconv.FormatInt(ifVersion, 10) + " " + strconv.FormatBool(cancelJobs)
	return 0, s.found(name)
}

func (s *fakeStore) Pause(_ context.Context, name, reason string) (time.Duration, error) {
	s.paused = "paused: " + reason
	return 120*time.Millisecond + 1, s.found(name)
}

func (s *fakeStore) Resume(_ context.Context, name string) (time.Duration, error) {
	s.paused = "resumed"
	return 0, s.found(name)
}

func newTestAPI(t *testing.T, s *fakeStore, change ...func(*Config)) *API {
	t.Helper()
	cfg := Config{Store: s}
	for _, f := range change {
		f(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends one request; headers are name, value pairs.
func do(a *API, method, path string, body io.Reader, headers ...string) answer {
	r := httptest.NewRequest(method, path, body)
	if body != nil {
		r.Header.Set("Content-Type", typeJSON)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.Bytes()}
}

func (r answer) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
}

// problem checks the form that every error has and gives its content.
func (r answer) problem(t *testing.T, code job.Code) problem {
	t.Helper()
	var p problem
	r.into(t, &p)
	if p.Code != code {
		t.Fatalf("code %q, want %q: %d %s", p.Code, code, r.status, r.body)
	}
	if r.status != code.Status() || p.Status != r.status {
		t.Errorf("status %d and %d in the body, want %d", r.status, p.Status, code.Status())
	}
	if got := r.header.Get("Content-Type"); got != problemType {
		t.Errorf("content type %q", got)
	}
	if p.Type != "urn:tundish:problem:"+string(code) || p.Title != code.Title() || p.Retryable != code.Retryable() {
		t.Errorf("type %q, title %q, retryable %v", p.Type, p.Title, p.Retryable)
	}
	if p.RequestID == "" || p.RequestID != r.header.Get("X-Request-Id") {
		t.Errorf("request id %q, header %q", p.RequestID, r.header.Get("X-Request-Id"))
	}
	for name, values := range r.header {
		if len(values) != 1 {
			t.Errorf("%s stands there %d times: %q", name, len(values), values)
		}
	}
	if r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("cache control %q", r.header.Get("Cache-Control"))
	}
	if r.status == 429 || r.status == 503 {
		s, err := strconv.Atoi(r.header.Get("Retry-After"))
		if err != nil || s < 1 || p.RetryAfterMS < 1 || int64(s) != (p.RetryAfterMS+999)/1000 {
			t.Errorf("Retry-After %q with %d ms", r.header.Get("Retry-After"), p.RetryAfterMS)
		}
	}
	return p
}

// pointers joins the pointers of a problem.
func (p problem) pointers() string {
	var list []string
	for _, e := range p.Errors {
		list = append(list, e.Pointer)
	}
	return strings.Join(list, " ")
}

func newRequest(method, path string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, path, body)
	r.Header.Set("Content-Type", typeJSON)
	return r
}

func send(a *API, r *http.Request) answer {
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.Bytes()}
}

// deadlineWriter records the read deadlines that are set.
type deadlineWriter struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (w *deadlineWriter) SetReadDeadline(t time.Time) error {
	w.deadlines = append(w.deadlines, t)
	return nil
}

// timeoutReader is a body that does not come in time.
type timeoutReader struct{}

func (timeoutReader) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func logTo(w io.Writer) func(*Config) {
	return func(c *Config) { c.Log = slog.New(slog.NewTextHandler(w, nil)) }
}
