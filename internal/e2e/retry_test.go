package e2e

import (
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"tundish/internal/bank"
)

// failing answers the first attempts of each job with an error and leaves the
// rest to the bank.
func failing(attempts int) func(int, *http.Request) *bank.Answer {
	var mu sync.Mutex
	made := map[string]int{}
	return func(_ int, q *http.Request) *bank.Answer {
		mu.Lock()
		defer mu.Unlock()
		id := q.Header.Get("Tundish-Job-Id")
		if made[id]++; made[id] > attempts {
			return nil
		}
		if made[id]%2 == 0 {
			return &bank.Answer{HangUp: true}
		}
		return &bank.Answer{Status: http.StatusBadGateway}
	}
}

// Retries take slots as first attempts do, and carry the same key.
func TestRetriesKeepTheRate(t *testing.T) {
	t.Parallel()
	const rate, jobs, failures = 50, 150, 2
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(3)
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond, Script: failing(failures)})
	r.put("bank", contract{URL: site.url, Rate: rate, More: `, "breaker": {"failures": 0}`})
	ids := r.push("bank", jobs)
	r.arrived(site, ids, patience)
	r.settled("bank")
	type series struct {
		keys     map[string]bool
		attempts int
	}
	seen := map[string]*series{}
	arrivals, _ := site.Arrivals()
	for _, a := range arrivals {
		s := seen[a.Job]
		if s == nil {
			s = &series{keys: map[string]bool{}}
			seen[a.Job] = s
		}
		s.keys[a.Key] = true
		if s.attempts++; a.Attempt != s.attempts {
			t.Errorf("job %s: attempt %d came as number %d", a.Job, a.Attempt, s.attempts)
		}
	}
	if len(arrivals) != jobs*(failures+1) || len(seen) != jobs {
		t.Errorf("%d requests of %d jobs, want %d of %d", len(arrivals), len(seen), jobs*(failures+1), jobs)
	}
	keys := map[string]bool{}
	for id, s := range seen {
		maps.Copy(keys, s.keys)
		if len(s.keys) != 1 || s.attempts != failures+1 {
			t.Errorf("job %s: %d attempts with %d keys, want %d with one", id, s.attempts, len(s.keys), failures+1)
		}
	}
	if len(keys) != jobs {
		t.Errorf("%d keys of %d jobs", len(keys), jobs)
	}
	j := r.job("bank", ids[0])
	if j.State != "delivered" || len(j.Attempts) != failures+1 || j.Attempts[0].HTTPStatus != http.StatusBadGateway {
		t.Errorf("the job shows %+v", j)
	}
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs})
}

// What the destination refuses for good ends at once, and can be seen.
func TestPermanentAnswerEndsTheJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(1)
	site := r.startBank(bank.Config{Script: func(int, *http.Request) *bank.Answer { return &bank.Answer{Status: http.StatusUnprocessableEntity} }})
	r.put("bank", contract{URL: site.url, Rate: 50})
	ids := r.push("bank", 3)
	r.settled("bank")
	for _, id := range ids {
		if j := r.job("bank", id); j.State != "dead" || len(j.Attempts) != 1 || j.Attempts[0].HTTPStatus != http.StatusUnprocessableEntity {
			t.Errorf("the job shows %+v, want dead after one attempt", j)
		}
	}
	if l := r.live("bank"); l.Dead != len(ids) {
		t.Errorf("the destination shows %+v, want %d dead", l, len(ids))
	}
}
