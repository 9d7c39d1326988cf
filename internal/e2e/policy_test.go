package e2e

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tundish/internal/bank"
	"tundish/internal/redistest"
)

// stamps are when requests arrived at a bank, in order.
func (s *site) stamps() []time.Duration {
	arrivals, _ := s.Arrivals()
	var at []time.Duration
	for _, a := range arrivals {
		at = append(at, time.Duration(a.At))
	}
	slices.Sort(at)
	return at
}

// longestGap is the longest time between two requests.
func (s *site) longestGap() (gap time.Duration) {
	at := s.stamps()
	for i := 1; i < len(at); i++ {
		gap = max(gap, at[i]-at[i-1])
	}
	return gap
}

// One answer "later" silences the destination for as long as it asks, uses up no
// attempt, and leaves others alone.
func TestThrottledDestinationIsSilent(t *testing.T) {
	t.Parallel()
	const rate, jobs, silence = 50, 200, 4 * time.Second
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(3)
	script := func(n int, _ *http.Request) *bank.Answer {
		if n == 30 {
			return &bank.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"4"}}}
		}
		return nil
	}
	site, other := r.startBank(bank.Config{Latency: 5 * time.Millisecond, Script: script}), r.startBank(bank.Config{Latency: 5 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: rate, More: `, "breaker": {"failures": 1}`})
	r.put("other", contract{URL: other.url, Rate: rate})
	ids, others := r.push("bank", jobs), r.push("other", 2*jobs)
	r.eventually("a destination that cools down", patience, func() bool { return r.live("bank").State == "cooling_down" })
	r.arrived(site, ids, patience)
	r.arrived(other, others, patience)
	// What workers were granted before they heard of it may go on its way.
	if gap := site.longestGap(); gap < silence-500*time.Millisecond || gap > silence+time.Second {
		t.Errorf("the destination was silent for %s, want %s", gap, silence)
	}
	if gap := other.longestGap(); gap > silence/2 {
		t.Errorf("the other destination was silent for %s", gap)
	}
	throttled := 0
	for _, id := range ids {
		if j := r.job("bank", id); len(j.Attempts) > 1 {
			throttled++
			if j.State != "delivered" || j.Attempts[0].Outcome != "throttled" || len(j.Attempts) != 2 {
				t.Errorf("the job shows %+v", j)
			}
		}
	}
	if throttled != 1 {
		t.Errorf("%d jobs have a second attempt, want 1", throttled)
	}
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs})
}

// A destination that always says "later, now" is asked ever more seldom: zero is
// no time to come back at.
func TestRetryAfterZeroIsNotObeyed(t *testing.T) {
	t.Parallel()
	const rate, jobs, most = 1000, 10, 6 // requests of a job in 10 s
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(2)
	site := r.startBank(bank.Config{Script: func(n int, _ *http.Request) *bank.Answer {
		after := []string{"0", time.Now().Add(-10 * time.Second).UTC().Format(http.TimeFormat)}[n%2]
		return &bank.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {after}}}
	}})
	slowly := strings.NewReplacer(`"100ms"`, `"500ms"`, `"max_backoff": "1s"`, `"max_backoff": "1m"`)
	r.do(http.MethodPut, r.at("bank"), slowly.Replace(contract{URL: site.url, Rate: rate}.json()), http.StatusCreated)
	ids := r.push("bank", jobs)
	r.requests(site, 1)
	after(10 * time.Second)
	numbers, _ := attemptsOf(site)
	for _, id := range ids {
		if n := len(numbers[id]); n > most {
			t.Errorf("job %s: %d requests in 10 s, want at most %d", id, n, most)
		}
	}
	if n := len(site.stamps()); n < 3 {
		t.Errorf("%d requests in 10 s: the destination is forgotten", n)
	}
	if l := r.live("bank"); l.Depth != jobs {
		t.Errorf("the destination shows %+v, want all jobs kept", l)
	}
}

// A destination that fails is left alone but for single probes, while its queue
// fills; when it is well again everything goes out at its rate.
func TestBreakerSparesASickDestination(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 100
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(2)
	var well atomic.Bool
	site := r.startBank(bank.Config{Latency: 5 * time.Millisecond, Script: func(int, *http.Request) *bank.Answer {
		if well.Load() {
			return nil
		}
		return &bank.Answer{Status: http.StatusInternalServerError}
	}})
	r.put("bank", contract{URL: site.url, Rate: rate, More: `, "breaker": {"failures": 5, "open_for": "1s", "max_open_for": "2s"}`})
	ids := r.push("bank", jobs/2)
	r.eventually("an open breaker", patience, func() bool { return r.live("bank").State == "breaker_open" })
	ids = append(ids, r.push("bank", jobs/2)...)
	opened := len(site.stamps())
	after(5 * time.Second) // probes after 1, 2 and 2 seconds
	if probes := len(site.stamps()) - opened; probes < 1 || probes > 4 {
		t.Errorf("%d requests in 5 s to a destination that fails, want 2 or 3", probes)
	}
	if l := r.live("bank"); l.Depth != jobs {
		t.Errorf("the destination shows %+v, want all jobs kept", l)
	}
	well.Store(true)
	r.arrived(site, ids, patience)
	r.eventually("a closed breaker", patience, func() bool { return r.live("bank").State == "running" })
	r.settled("bank")
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs})
}

// At most once: what may have arrived is never sent again, whoever is to blame.
func TestAtMostOnceSendsOnce(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 40
	r := newRig(t, false, redistest.WithAOF(), redistest.WithConfig("appendfsync", "always"))
	r.startEnqueuer()
	r.startWorkers(2)
	held := make(chan struct{}, jobs)
	site := r.startBank(bank.Config{Latency: 5 * time.Millisecond, Script: func(n int, _ *http.Request) *bank.Answer {
		switch {
		case n%4 == 1:
			return &bank.Answer{HangUp: true}
		case n%4 == 2:
			return &bank.Answer{Status: http.StatusInternalServerError}
		case n > 30:
			held <- struct{}{}
			return &bank.Answer{Delay: 900 * time.Millisecond}
		}
		return nil
	}})
	r.put("bank", contract{URL: site.url, Rate: rate, Timeout: "1s", More: `, "delivery": "at_most_once", "durability": "aof"`})
	ids := r.push("bank", jobs)
	<-held
	for _, w := range r.workers {
		w.kill() // between the write and the result
	}
	r.startWorkers(1)
	r.eventually("no job left", lease(time.Second)+patience, func() bool { return r.live("bank").Depth == 0 })
	states := r.sentOnce("bank", site, ids)
	if states["delivered"]+states["unknown"] != jobs || states["unknown"] < jobs/2-2 {
		t.Errorf("states %v of %d jobs", states, jobs)
	}
	r.keepsRate("bank", site, rate, 2*(rate/10+2))
}

// In doubt the destination is asked, with a slot, and only what it has not is sent again.
func TestAtMostOnceAsksBeforeItSendsAgain(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 40
	r := newRig(t, false, redistest.WithAOF(), redistest.WithConfig("appendfsync", "always"))
	r.startEnqueuer()
	r.startWorkers(2)
	var mu sync.Mutex
	has, paid := map[string]bool{}, map[string]int{} // by key
	site := r.startBank(bank.Config{Latency: 5 * time.Millisecond, Script: func(n int, q *http.Request) *bank.Answer {
		mu.Lock()
		defer mu.Unlock()
		key := q.Header.Get("Idempotency-Key")
		if q.Method == http.MethodGet {
			if q.URL.Path != "/payouts/"+key || q.ContentLength > 0 {
				t.Errorf("asked for %s of %s", q.URL, key)
			}
			return &bank.Answer{Status: map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[has[key]]}
		}
		switch n % 3 {
		case 0: // done, and the answer is lost
			has[key] = true
			paid[key]++
			return &bank.Answer{HangUp: true}
		case 1: // not done
			return &bank.Answer{Status: http.StatusBadGateway}
		}
		has[key] = true
		paid[key]++
		return nil
	}})
	r.put("bank", contract{URL: site.url, Rate: rate, More: `, "delivery": "at_most_once", "durability": "aof", "verify": {"path": "/payouts/{key}"}, "breaker": {"failures": 0}`})
	ids := r.push("bank", jobs)
	r.eventually("no job left", patience, func() bool { return r.live("bank").Depth == 0 })
	verified := 0
	for _, id := range ids {
		j := r.job("bank", id)
		if j.State == "delivered" && j.Outcome == "verified" {
			verified++
		}
		if n := paid[id]; n > 1 || j.State == "delivered" && n != 1 || j.State != "delivered" && j.State != "dead" && j.State != "unknown" {
			t.Errorf("job %s is %s, %s, and was paid %d times", id, j.State, j.Outcome, n)
		}
	}
	if verified == 0 {
		t.Error("no job was verified")
	}
	if v := r.judge("bank", site, bank.Case{Rate: rate, Per: time.Second}); v.WorstWrite > rate {
		t.Errorf("%s", v)
	}
}
