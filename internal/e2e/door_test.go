package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"tundish/internal/bank"
)

// pushMany pushes n jobs over that many connections, in turn to each enqueuer.
func (r *rig) pushMany(destination string, n, connections int, headers ...string) []answer {
	r.Helper()
	answers := make([]answer, n)
	errs := make([]error, n)
	next := make(chan int)
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for i := range next {
				url := r.enqueuers[i%len(r.enqueuers)].url + "/v1/destinations/" + destination + "/jobs"
				answers[i], errs[i] = r.try(http.MethodPost, url, `{"body":{"amount":"12.30"}}`, headers...)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	for _, err := range errs {
		if err != nil {
			r.Fatal(err)
		}
	}
	return answers
}

// mustRetryLater checks what every 429 and 503 carries.
func (r *rig) mustRetryLater(a answer, code string) {
	r.Helper()
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	p := decode[problem](r, a)
	if err != nil || seconds < 1 || p.RetryAfterMS < 1 || p.Code != code {
		r.Errorf("%d: Retry-After %q, %s; want whole seconds and code %s", a.status, a.header.Get("Retry-After"), a.body, code)
	}
}

func TestCapacityHoldsOverTwoEnqueuers(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.startEnqueuer()
	r.startEnqueuer()
	r.put("bank", contract{URL: "https://bank.example/", Rate: 50, Capacity: 100})
	count := map[int]int{}
	for _, a := range r.pushMany("bank", 400, 64) {
		count[a.status]++
		if a.status != http.StatusAccepted {
			r.mustRetryLater(a, "queue_full")
		}
	}
	if count[http.StatusAccepted] != 100 || count[http.StatusTooManyRequests] != 300 {
		t.Errorf("answers %v, want 100 × 202 and 300 × 429", count)
	}
	if l := r.live("bank"); l.Depth != 100 || l.Ready != 100 {
		t.Errorf("the lane holds %+v, want 100 ready", l)
	}
}

func TestOneKeyMakesOneJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.startEnqueuer()
	r.startEnqueuer()
	r.startWorkers(2)
	site := r.startBank(bank.Config{})
	r.put("bank", contract{URL: site.url, Rate: 50})
	replayed, ids := 0, map[string]bool{}
	for _, a := range r.pushMany("bank", 50, 50, "Idempotency-Key", "order-77") {
		if a.status != http.StatusAccepted {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
		ids[a.header.Get("Tundish-Job-Id")] = true
		if a.header.Get("Idempotent-Replayed") == "true" {
			replayed++
		}
	}
	if len(ids) != 1 || replayed != 49 {
		t.Errorf("%d jobs and %d replays, want 1 and 49", len(ids), replayed)
	}
	r.settled("bank")
	if got, _ := site.Arrivals(); len(got) != 1 {
		t.Errorf("%d calls to the bank, want 1", len(got))
	}
	// The job has ended; its key lives on.
	for body, want := range map[string]int{`{"body":{"amount":"12.30"}}`: http.StatusAccepted, `{"body":{"amount":"99"}}`: http.StatusUnprocessableEntity} {
		a, err := r.try(http.MethodPost, r.at("bank")+"/jobs", body, "Idempotency-Key", "order-77")
		if err != nil || a.status != want {
			t.Errorf("%s: %v, status %d, want %d: %s", body, err, a.status, want, a.body)
		}
		if want == http.StatusUnprocessableEntity && decode[problem](r, a).Code != "idempotency_key_reused" {
			t.Errorf("code in %s", a.body)
		}
	}
	if got, _ := site.Arrivals(); len(got) != 1 {
		t.Errorf("%d calls to the bank after the replay, want 1", len(got))
	}
}

// Every 202 of an enqueuer that is stopped under load is a job that is there.
func TestEnqueuerStopsUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	first := r.startEnqueuer()
	r.put("bank", contract{URL: "https://bank.example/", Rate: 50})
	taken := make(chan string, 10_000)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for { // until it no longer answers
				a, err := r.try(http.MethodPost, first.url+"/v1/destinations/bank/jobs", `{"body":1}`)
				if err != nil {
					return
				}
				if a.status != http.StatusAccepted {
					t.Errorf("status %d: %s", a.status, a.body)
					return
				}
				taken <- a.header.Get("Tundish-Job-Id")
			}
		})
	}
	r.eventually("200 jobs taken", patience, func() bool { return len(taken) >= 200 || t.Failed() })
	first.terminate(t)
	all.Wait()
	close(taken)

	r.enqueuers = nil
	r.startEnqueuer()
	n := 0
	for id := range taken {
		n++
		if j := r.job("bank", id); j.State != "ready" {
			t.Errorf("job %s is %q, want ready", id, j.State)
		}
	}
	if depth := r.live("bank").Depth; depth < n {
		t.Errorf("%d jobs are there, %d were answered with 202", depth, n)
	}
}

func TestBatchTakesWhatFits(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.startEnqueuer()
	r.put("bank", contract{URL: "https://bank.example/", Rate: 50, Capacity: 3})
	var lines string
	for i := range 5 {
		lines += fmt.Sprintf(`{"body":%d}`+"\n", i)
	}
	a, err := r.try(http.MethodPost, r.at("bank")+"/jobs/batch", lines, "Content-Type", "application/x-ndjson")
	if err != nil || a.status != http.StatusOK {
		t.Fatalf("%v, %d: %s", err, a.status, a.body)
	}
	for i, b := range decode[struct{ Results []batchResult }](r, a).Results {
		want := batchResult{Status: http.StatusAccepted, ID: b.ID}
		if i >= 3 {
			want = batchResult{Status: http.StatusTooManyRequests, Code: "queue_full"}
		}
		if b != want || (b.ID == "") == (i < 3) {
			t.Errorf("job %d: %+v, want %+v", i, b, want)
		}
	}
}
