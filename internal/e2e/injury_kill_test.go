package e2e

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tundish/internal/bank"
)

// lease is until when a killed worker holds its jobs: the timeout of the
// attempt and 5 s, and what tolerance and looks add.
func lease(timeout time.Duration) time.Duration { return timeout + 5*time.Second + 2*time.Second }

// attemptsOf are the numbers of the requests that arrived, and the keys they
// carried, by job.
func attemptsOf(s *site) (numbers map[string][]int, keys map[string]map[string]bool) {
	numbers, keys = map[string][]int{}, map[string]map[string]bool{}
	arrivals, _ := s.Arrivals()
	slices.SortFunc(arrivals, func(a, b bank.Arrival) int { return int(a.At - b.At) })
	for _, a := range arrivals {
		if keys[a.Job] == nil {
			keys[a.Job] = map[string]bool{}
		}
		numbers[a.Job] = append(numbers[a.Job], a.Attempt)
		keys[a.Job][a.Key] = true
	}
	return numbers, keys
}

// mustRepeat holds that each of the jobs was requested so often, with one key.
func (r *rig) mustRepeat(s *site, ids []string, requests int) {
	r.Helper()
	numbers, keys := attemptsOf(s)
	for _, id := range ids {
		if len(numbers[id]) != requests || len(keys[id]) != 1 {
			r.Errorf("job %s: requests %v with %d keys, want %d with one", id, numbers[id], len(keys[id]), requests)
		}
	}
}

// A worker that is killed with slots that have not come: nobody saw the jobs,
// so each is sent once, when its lease is over.
func TestInjuryKilledBeforeTheWrite(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 60
	r := newRig(t, false)
	r.startEnqueuer()
	first := r.startWorkers(1)[0]
	site := r.startBank(bank.Config{})
	r.put("bank", contract{URL: site.url, Rate: rate, Timeout: "1s"})
	ids := r.push("bank", jobs)
	r.requests(site, 10)
	first.freeze(t) // between two writes, mostly: it holds some slots ahead
	var held []string
	got := site.accepted()
	for _, id := range ids {
		if !got[id] && r.job("bank", id).State == "leased" {
			held = append(held, id)
		}
	}
	first.kill()
	if len(held) == 0 {
		t.Fatal("the worker held no job: the test shows nothing")
	}
	r.startWorkers(1)
	r.arrived(site, held, lease(time.Second))
	r.recount("bank", site, ids)
	r.mustRepeat(site, held, 1)
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs, MayRepeat: rate / 10, MayMiss: rate/10 + 2})
}

// A worker that is killed while the destination works on its requests: they are
// made again with the same key, at the rate; or they are unknown and never made again.
func TestInjuryKilledBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	bothWays(t, func(r *rig, w way) {
		const rate, jobs = 50, 20
		r.startEnqueuer()
		first := r.startWorkers(1)[0]
		site := r.startBank(bank.Config{Script: func(n int, _ *http.Request) *bank.Answer {
			if n <= jobs {
				return &bank.Answer{Delay: time.Minute, HangUp: true}
			}
			return nil
		}})
		r.put("bank", contract{URL: site.url, Rate: rate, Timeout: "2s", More: w.more})
		ids := r.push("bank", jobs)
		r.requests(site, jobs)
		first.kill()
		r.startWorkers(2)
		r.mustEnd(w, "bank", site, ids, lease(2*time.Second)+patience)
		r.keepsRate("bank", site, rate, rate/10+2)
	})
}

// A worker that is killed with answers that have not reached Redis: that is the
// repeat which at least once concedes, and it can be told by its key; at most once
// concedes none.
func TestInjuryKilledBeforeTheResult(t *testing.T) {
	t.Parallel()
	bothWays(t, func(r *rig, w way) {
		const rate, jobs = 50, 20
		r.startEnqueuer()
		link := r.linked(1)[0]
		first := r.workers[0]
		answer := make(chan struct{})
		open := sync.OnceFunc(func() { close(answer) })
		r.Cleanup(open)
		var arrived atomic.Int64
		site := r.startBank(bank.Config{Script: func(n int, q *http.Request) *bank.Answer {
			arrived.Add(1)
			select {
			case <-answer:
			case <-q.Context().Done():
			}
			return nil
		}})
		r.put("bank", contract{URL: site.url, Rate: rate, Timeout: "5s", More: w.more})
		ids := r.push("bank", jobs)
		r.eventually("all requests under way", patience, func() bool {
			return arrived.Load() == jobs // a slot that was over has been leased again by then
		})
		link.Cut()
		open()
		r.eventually("all requests are answered", patience, func() bool { return r.metric(first, "tundish_senders_busy") == 0 })
		r.arrived(site, ids, patience)
		first.kill()
		r.startWorkers(2)
		r.mustEnd(w, "bank", site, ids, lease(5*time.Second)+patience)
		r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs, MayRepeat: jobs, MayMiss: rate/10 + 2})
	})
}
