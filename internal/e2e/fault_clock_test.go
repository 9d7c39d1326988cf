package e2e

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"tundish/internal/bank"
	"tundish/internal/redistest"
)

// longestGap is the longest time without a write between the first and the last.
func longestGap(writes []bank.Write) time.Duration {
	stamps := make([]int64, len(writes))
	for i, w := range writes {
		stamps[i] = w.At
	}
	slices.Sort(stamps)
	var longest time.Duration
	for i := 1; i < len(stamps); i++ {
		longest = max(longest, time.Duration(stamps[i]-stamps[i-1]))
	}
	return longest
}

// The clock of Redis is set again and again under load, forward and back, by
// much and by little. Nothing is sent twice, too often, or late.
func TestFaultClockOfRedisSteps(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 300
	clock := redistest.NewClock(t)
	r := newRig(t, false, redistest.WithClock(clock))
	site, ids := r.startDrain(3, rate, jobs)
	steps := []int{30, -30, 30, -30, 1, -1, 30, -30, -30, 30, 30, -30}
	offset := time.Duration(0)
	for i, s := range steps {
		r.requests(site, 20+20*i)
		offset += time.Duration(s) * time.Second
		clock.Set(t, offset)
	}
	r.recount("bank", site, ids)
	v := r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs})
	if gap := longestGap(r.writesAfter("bank", 0)); gap > soon {
		t.Errorf("sending stood still for %s (%s)", gap, v)
	}
	var seen float64
	for _, w := range r.workers {
		seen += r.metric(w, "tundish_clock_steps_total")
	}
	if int(seen) < len(steps)/2 {
		t.Errorf("%v steps were seen of %d", seen, len(steps))
	}
}

// Steps too small to be told from slow calls pass as time: each lets at most
// ceil(rate × step / window) more into one window.
func TestFaultClockOfRedisSlips(t *testing.T) {
	t.Parallel()
	const rate, jobs, slip = 50, 150, 40 * time.Millisecond
	clock := redistest.NewClock(t)
	r := newRig(t, false, redistest.WithClock(clock))
	site, ids := r.startDrain(2, rate, jobs)
	for i := range 2 { // more than a window apart
		r.requests(site, 20+70*i)
		clock.Set(t, time.Duration(i+1)*slip)
	}
	r.recount("bank", site, ids)
	v := r.judge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs})
	const more = 2 // ceil(50 × 0.04)
	if v.WorstWrite > rate+more || v.Duplicates > 0 || v.Lost > 0 {
		t.Errorf("want at most %d: %s", rate+more, v)
	}
}

// Clocks of enqueuers and workers that are wrong by minutes, against that of
// Redis, change nothing: not the rate, and not when a job is due.
func TestFaultWallClocksDisagree(t *testing.T) {
	t.Parallel()
	for name, offset := range map[string]time.Duration{"behind": 2 * time.Minute, "ahead": -2 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const rate, jobs, delay = 50, 100, 1500 * time.Millisecond
			clock := redistest.NewClock(t)
			clock.Set(t, offset)
			r := newRig(t, false, redistest.WithClock(clock))
			r.startEnqueuer()
			r.startWorkers(2)
			site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
			r.put("bank", contract{URL: site.url, Rate: rate})
			pushed := bank.Monotonic()
			a := r.do(http.MethodPost, r.at("bank")+"/jobs", `{"body":1,"delay":"1500ms"}`, http.StatusAccepted)
			late := a.header.Get("Tundish-Job-Id")
			ids := append(r.push("bank", jobs), late)
			r.recount("bank", site, ids)
			for _, w := range r.writesAfter("bank", 0) {
				if took := time.Duration(w.At - pushed); w.Job == late && (took < delay || took > delay+time.Second) {
					t.Errorf("a job with a delay of %s was sent after %s", delay, took)
				}
			}
			r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: len(ids)})
		})
	}
}
