package api

import (
	"strings"
	"sync"
	"testing"
	"time"

	"tundish/internal/job"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
	"tundish/internal/redistest"
)

var _ Store = (*queue.Store)(nil)

// newRedisAPI is the door over the real store.
func newRedisAPI(t *testing.T, srv *redistest.Server) *API {
	t.Helper()
	db, err := redisdb.Open(t.Context(), redisdb.Config{URL: srv.URL(), Namespace: redistest.Namespace(t)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{Store: queue.New(db)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Close()
		_ = db.Close()
	})
	if r := do(a, "PUT", bank, strings.NewReader(bankContract), "If-None-Match", "*"); r.status != 201 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	return a
}

func TestOverRedisTheBoundIsExact(t *testing.T) {
	t.Parallel()
	a := newRedisAPI(t, redistest.Shared(t))
	var mu sync.Mutex
	told := map[int]int{}
	var wg sync.WaitGroup
	for range 400 {
		wg.Go(func() {
			r := do(a, "POST", bankJobs, strings.NewReader(`{"body":{"a": 1}}`))
			if r.status == 429 {
				r.problem(t, job.CodeQueueFull)
			}
			mu.Lock()
			told[r.status]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if told[202] != 100 || told[429] != 300 {
		t.Errorf("answers %v", told)
	}
	var d destinationView
	do(a, "GET", bank, nil).into(t, &d)
	if d.Live.Depth != 100 {
		t.Errorf("depth %d", d.Live.Depth)
	}
}

func TestOverRedisALife(t *testing.T) {
	t.Parallel()
	a := newRedisAPI(t, redistest.Shared(t))
	push := func(body string) answer {
		return do(a, "POST", bankJobs, strings.NewReader(body), "Idempotency-Key", "order-77")
	}
	var first, again accepted
	push(`{"body":{"a": 1},"tenant":"t","metadata":{"order":"77"}}`).into(t, &first)
	push(`{"body":{"a": 1},"tenant":"t"}`).into(t, &again)
	if first.ID == "" || again.ID != first.ID || !again.Replayed || first.EstimatedSendAt == nil {
		t.Fatalf("%+v, then %+v", first, again)
	}
	push(`{"body":{"a":1},"tenant":"t"}`).problem(t, job.CodeIdempotencyKeyReused)
	if r := push(`{"body":{"a": 1},"tenant":"t"}`); r.header.Get("RateLimit-Policy") != `"queue";q=100` || r.header.Get("RateLimit") != `"queue";r=99` {
		t.Errorf("a replay has %v", r.header)
	}

	var j jobView
	do(a, "GET", first.StatusURL, nil).into(t, &j)
	if j.State != job.Ready || j.Tenant != "t" || j.Metadata["order"] != "77" {
		t.Errorf("%+v", j)
	}
	if got := toldBy(t, do(a, "POST", bankBatch, strings.NewReader(`{"jobs":[{"idempotency_key":"order-77","tenant":"t","body":{"a": 1}},{"priority":0},{"priority":99}]}`))); got != "202 202 422-invalid" {
		t.Errorf("batch: %s", got)
	}

	do(a, "PUT", bank, strings.NewReader(bankContract), "If-None-Match", "*").problem(t, job.CodeVersionMismatch)
	do(a, "PUT", bank, strings.NewReader(bankContract), "If-Match", `"99"`).problem(t, job.CodeVersionMismatch)
	if r := do(a, "POST", bank+"/pause", strings.NewReader(`{"reason":"holiday"}`)); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	var d destinationView
	do(a, "GET", bank, nil).into(t, &d)
	if d.Live.State != "paused" || !strings.Contains(strings.Join(d.Live.StateReasons, " "), "holiday") {
		t.Errorf("%+v", d.Live)
	}
	if r := do(a, "POST", bank+"/resume", nil); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	do(a, "DELETE", bank, nil).problem(t, job.CodeDestinationNotEmpty)
	if r := do(a, "DELETE", bank+"?cancel_jobs=true", nil); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	do(a, "POST", bankJobs, strings.NewReader(`{}`)).problem(t, job.CodeDestinationNotFound)
}

func toldBy(t *testing.T, r answer) string {
	t.Helper()
	return told(r.results(t))
}

// A full queue says so in words, and that nobody knows how long while it is paused.
func TestOverRedisFullAndPaused(t *testing.T) {
	t.Parallel()
	a := newRedisAPI(t, redistest.Shared(t))
	jobs := make([]string, 100)
	for i := range jobs {
		jobs[i] = `{}`
	}
	if r := do(a, "POST", bankBatch, strings.NewReader(`{"jobs":[`+strings.Join(jobs, ",")+`]}`)); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if d := do(a, "POST", bankJobs, strings.NewReader(`{}`)).problem(t, job.CodeQueueFull).Detail; d != "the queue holds 100 of 100 jobs" {
		t.Errorf("detail %q", d)
	}
	do(a, "POST", bank+"/pause", nil)
	p := do(a, "POST", bankJobs, strings.NewReader(`{}`)).problem(t, job.CodeQueueFull)
	if !strings.Contains(p.Detail, "paused") || !strings.Contains(p.Detail, "guess") || p.RetryAfterMS < 30_000 {
		t.Errorf("%+v", p)
	}
	var answer struct{ Results []batchResult }
	do(a, "POST", bankBatch, strings.NewReader(`{"jobs":[{}]}`)).into(t, &answer)
	if !strings.Contains(answer.Results[0].Detail, "paused") {
		t.Errorf("%+v", answer.Results)
	}
}

func TestRedisAway(t *testing.T) {
	t.Parallel()
	// Few calls to one server: after many go-redis goes on to look for it by itself.
	for name, calls := range map[string][][3]string{
		"jobs": {{"POST", bankJobs, `{}`}, {"POST", bankBatch, `{"jobs":[{}]}`}, {"GET", bank, ``}, {"GET", "/v1/destinations", ``}, {"POST", bank + "/pause", ``}},
		"many": {{"GET", bankJobs, ``}, {"POST", bank + "/redrive", ``}, {"GET", bankOperations, ``}, {"POST", bankOperations + "/x/cancel", ``},
			{"POST", bankJobs + "/" + string(job.NewID()) + "/cancel", ``}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			a := newRedisAPI(t, srv)
			srv.Kill(t)
			for _, call := range calls {
				started := time.Now()
				do(a, call[0], call[1], strings.NewReader(call[2])).problem(t, job.CodeUnavailable)
				if took := time.Since(started); took > callTimeout+time.Second {
					t.Errorf("%s %s took %s", call[0], call[1], took)
				}
			}
		})
	}
}
