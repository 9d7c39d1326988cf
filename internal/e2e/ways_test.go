package e2e

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"tundish/internal/bank"
	"tundish/internal/redistest"
)

// way is one of the two ways of delivery.
type way struct {
	name     string
	more     string // of the contract
	requests int    // that a job is worth of which nobody knows whether it arrived
	state    string // in which it ends then
}

// bothWays runs a test for each way of delivery, on a Redis that can confirm.
func bothWays(t *testing.T, fn func(r *rig, w way)) {
	t.Helper()
	bothWaysOn(t, func(t testing.TB, options ...redistest.Option) *rig { return newRig(t, false, options...) }, fn)
}

// bothWaysOn is bothWays on rigs of a kind.
func bothWaysOn(t *testing.T, made func(testing.TB, ...redistest.Option) *rig, fn func(r *rig, w way)) {
	t.Helper()
	for _, w := range []way{
		{"at_least_once", "", 2, "delivered"},
		{"at_most_once", `, "delivery": "at_most_once", "durability": "aof"`, 1, "unknown"},
	} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			fn(made(t, redistest.WithAOF(), redistest.WithConfig("appendfsync", "always")), w)
		})
	}
}

func (w way) once() bool { return w.requests == 1 }

// mustEnd holds that the jobs have ended, in the state of the way, each after so
// many requests as it concedes. Then mustRepeat and recount hold of the others.
func (r *rig) mustEnd(w way, destination string, s *site, ids []string, within time.Duration) {
	r.Helper()
	r.eventually("the jobs end", within, func() bool { return r.live(destination).Depth == 0 })
	for _, id := range ids {
		if j := r.job(destination, id); j.State != w.state {
			r.Errorf("job %s is %q, want %s", id, j.State, w.state)
		}
	}
	r.mustRepeat(s, ids, w.requests)
}

// keepsRate is mustJudge where not all jobs are to be accepted.
func (r *rig) keepsRate(destination string, s *site, rate int64, mayMiss int) {
	r.Helper()
	if v := r.judge(destination, s, bank.Case{Rate: rate, Per: time.Second, MayMiss: mayMiss}); int64(v.WorstWrite) > rate {
		r.Errorf("%s: %s", destination, v)
	}
}

// sentOnce holds that no job was requested twice, and that none is shown as
// delivered that was not requested, nor lost.
func (r *rig) sentOnce(destination string, s *site, ids []string) (states map[string]int) {
	r.Helper()
	numbers, _ := attemptsOf(s)
	states = map[string]int{}
	for _, id := range ids {
		j := r.job(destination, id)
		states[j.State]++
		if n := len(numbers[id]); n > 1 || n == 0 && j.State != "unknown" || j.State != "unknown" && j.State != "delivered" {
			r.Errorf("job %s, %s: %d requests", id, j.State, n)
		}
	}
	return states
}

// Redis is full for 20 s in which an attempt fails each second, and each result
// needs memory: no job is lost, and each is made again or has ended with a reason.
func TestFaultFullRedisKeepsWhatFails(t *testing.T) {
	t.Parallel()
	bothWaysOn(t, newQuietRig, func(r *rig, w way) {
		const rate, jobs = 50, 20
		r.startEnqueuer()
		r.startWorkers(2)
		fails := make(chan struct{}, jobs)
		var arrived atomic.Int64
		site := r.startBank(bank.Config{Script: func(n int, q *http.Request) *bank.Answer {
			if n > jobs {
				return nil
			}
			arrived.Add(1)
			select {
			case <-fails:
			case <-q.Context().Done():
			}
			return []*bank.Answer{
				{Status: http.StatusInternalServerError}, {HangUp: true}, {Status: http.StatusRequestTimeout},
				{Status: http.StatusTooManyRequests}, {Status: http.StatusForbidden},
			}[n%5]
		}})
		r.put("bank", contract{URL: site.url, Rate: rate, Timeout: "30s", More: w.more + `, "breaker": {"failures": 0}`})
		ids := r.push("bank", jobs)
		r.eventually("all requests under way", patience, func() bool { return arrived.Load() == jobs })
		r.redis.Config(r, "maxmemory", "100kb")
		for failed := range jobs {
			fails <- struct{}{}
			after(time.Second)
			if l := r.live("bank"); l.Depth+l.Dead+l.Unknown > jobs {
				r.Errorf("the lane holds %+v after %d failures while Redis is full", l, failed+1)
			}
		}
		r.settled("bank") // retries need no room either
		r.do(http.MethodPost, r.at("bank")+"/jobs", `{"body":1}`, http.StatusServiceUnavailable)
		r.redis.Config(r, "maxmemory", "0")
		type end struct{ state, outcome string }
		ends := map[end]int{}
		numbers, _ := attemptsOf(site)
		for _, id := range ids {
			j := r.job("bank", id)
			ends[end{j.State, j.Attempts[0].Outcome}]++
			if len(j.Attempts) != len(numbers[id]) {
				r.Errorf("job %s shows %d attempts after %d requests", id, len(j.Attempts), len(numbers[id]))
			}
			if want := map[string]int{"delivered": 2, w.state: w.requests, "dead": 1}[j.State]; len(j.Attempts) != want {
				r.Errorf("job %s is %s after %d attempts, want %d", id, j.State, len(j.Attempts), want)
			}
		}
		for outcome, state := range map[string]string{"server_error": w.state, "connection_lost": w.state, "request_timeout": "delivered",
			"throttled": "delivered", "rejected": "dead"} {
			if n := ends[end{state, outcome}]; n != jobs/5 {
				r.Errorf("%d jobs are %s after %s, want %d: %v", n, state, outcome, jobs/5, ends)
			}
		}
		r.keepsRate("bank", site, rate, 0)
	})
}

// The bytes of a job that goes at most once leave when the replica has heard of
// it, and not before.
func TestAtMostOnceWaitsForTheReplica(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 100
	r := newRig(t, false)
	replica := redistest.Replica(t, r.redis)
	r.redis.AwaitReplicas(t, 1)
	r.startEnqueuer()
	r.startWorkers(2)
	site := r.startBank(bank.Config{Latency: 5 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: rate, More: `, "delivery": "at_most_once", "durability": "replica"`})
	ids := r.push("bank", jobs)
	r.requests(site, 20)
	replica.Stop(t)
	r.sendsNothing("bank", bank.Monotonic(), 3*time.Second)
	a := r.do(http.MethodPost, r.at("bank")+"/jobs", `{"body":1}`, http.StatusServiceUnavailable)
	p := decode[struct{ Code, ID string }](r, a)
	if p.Code != "durability_unconfirmed" || p.ID == "" {
		t.Errorf("a push meanwhile: %s", a.body)
	}
	replica.Cont(t)
	moment := bank.Monotonic()
	r.sendsAgain("bank", moment)
	r.recount("bank", site, append(slices.Clone(ids), p.ID)) // the job of that push is kept
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs + 1})
}

// Replies of Redis are lost, those to start marks too: a job whose mark was not
// confirmed does not leave, and none leaves twice.
func TestAtMostOnceWhenRepliesAreLost(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 150
	r := newRig(t, false, redistest.WithAOF(), redistest.WithConfig("appendfsync", "always"))
	r.startEnqueuer()
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: rate, Timeout: "1s", More: `, "delivery": "at_most_once", "durability": "aof"`})
	links := r.linked(2)
	ids := r.push("bank", jobs)
	for n := range 6 {
		r.requests(site, 10+15*n)
		if l := links[n%2]; n < 4 {
			l.LoseReplies(t, 20*time.Millisecond)
			after(200 * time.Millisecond)
			l.Heal()
		} else {
			l.Cut()
			after(500 * time.Millisecond)
			l.Mend(t)
		}
	}
	r.eventually("no job left", lease(time.Second)+patience, func() bool { return r.live("bank").Depth == 0 })
	states := r.sentOnce("bank", site, ids)
	t.Logf("%v", states)
	if states["delivered"] < jobs*3/4 {
		t.Errorf("states %v of %d jobs: most of them should have arrived", states, jobs)
	}
	r.keepsRate("bank", site, rate, 0)
}

// A worker that is cut off until its leases are over, with answers in hand: its
// jobs are unknown, and what it knows resolves them when it comes back.
func TestLateAnswersResolveUnknownJobs(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 20
	r := newRig(t, false, redistest.WithAOF(), redistest.WithConfig("appendfsync", "always"))
	r.startEnqueuer()
	link := r.linked(1)[0]
	answer := make(chan struct{})
	var arrived atomic.Int64
	site := r.startBank(bank.Config{Script: func(_ int, q *http.Request) *bank.Answer {
		arrived.Add(1)
		select {
		case <-answer:
		case <-q.Context().Done():
		}
		return nil
	}})
	r.put("bank", contract{URL: site.url, Rate: rate, Timeout: "3s", More: `, "delivery": "at_most_once", "durability": "aof"`})
	ids := r.push("bank", jobs)
	r.eventually("all requests under way", patience, func() bool { return arrived.Load() == jobs })
	link.Cut()
	close(answer)
	r.arrived(site, ids, patience)
	r.startWorkers(1)
	r.mustEnd(way{requests: 1, state: "unknown"}, "bank", site, ids, lease(3*time.Second)+patience)
	link.Mend(t)
	r.eventually("what the worker knows is believed", patience, func() bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return r.job("bank", id).State != "delivered" })
	})
	r.mustEnd(way{requests: 1, state: "delivered"}, "bank", site, ids, patience)
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs})
}
