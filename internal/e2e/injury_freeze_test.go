package e2e

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"tundish/internal/bank"
)

// Workers stand still for less and for more than their tolerance, again and
// again: a slot that is over is given back, never used.
func TestInjuryWorkersAreFrozenShortly(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 250
	r := newRig(t, false)
	site, ids := r.startDrain(2, rate, jobs)
	for i, d := range []int{2, 10, 40, 120, 3, 15, 60, 300, 4, 30, 90, 600} {
		r.requests(site, 20+15*i)
		w := r.workers[i%2]
		w.freeze(t)
		after(time.Duration(d) * time.Millisecond)
		w.thaw(t)
	}
	r.recount("bank", site, ids)
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs})
}

// A worker stands still for longer than its leases last, with requests under
// way: others make them again, and what it then says changes nothing.
func TestInjuryWorkerIsFrozenBeyondItsLease(t *testing.T) {
	t.Parallel()
	const rate, jobs, under = 50, 60, 10
	r := newRig(t, false)
	r.startEnqueuer()
	first := r.startWorkers(1)[0]
	site := r.startBank(bank.Config{Script: func(n int, _ *http.Request) *bank.Answer {
		if n <= under {
			return &bank.Answer{Status: http.StatusOK, Delay: 500 * time.Millisecond}
		}
		return nil
	}})
	r.put("bank", contract{URL: site.url, Rate: rate, Timeout: "1s"})
	ids := r.push("bank", jobs)
	r.requests(site, under)
	first.freeze(t)
	r.startWorkers(1)
	r.arrived(site, ids, lease(time.Second))
	r.settled("bank")
	before, _ := site.Arrivals()
	first.thaw(t)
	first.terminate(t) // by then it has said all that it knew
	r.recount("bank", site, ids)
	if now, _ := site.Arrivals(); len(now) != len(before) {
		t.Errorf("the worker made %d requests after it had lost its leases", len(now)-len(before))
	}
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs, MayRepeat: under + rate/10})
}

// Requests that outlive the grace are cut. That is no attempt of the job: one
// that has a single attempt is still delivered; one that goes at most once is unknown
// at once. A second signal does not make the stop any shorter.
func TestInjuryStopCutsLongRequests(t *testing.T) {
	t.Parallel()
	bothWays(t, func(r *rig, w way) {
		const rate, jobs = 50, 10
		r.startEnqueuer()
		first := r.startWorkers(1, "--stop-grace", "1s")[0]
		site := r.startBank(bank.Config{Script: func(n int, _ *http.Request) *bank.Answer {
			if n <= jobs {
				return &bank.Answer{Delay: 10 * time.Second, HangUp: true}
			}
			return nil
		}})
		r.put("bank", contract{URL: site.url, Rate: rate, Timeout: "15s", More: w.more})
		var ids []string
		for range jobs {
			a := r.do(http.MethodPost, r.at("bank")+"/jobs", `{"body":1,"max_attempts":1}`, http.StatusAccepted)
			ids = append(ids, a.header.Get("Tundish-Job-Id"))
		}
		r.requests(site, jobs)
		begin := time.Now()
		first.signal(r, syscall.SIGTERM)
		after(300 * time.Millisecond)
		first.terminate(r)
		took := time.Since(begin)
		if took < time.Second || took > 4*time.Second {
			r.Errorf("the stop took %s with a grace of 1s", took)
		}
		ready := jobs
		if w.once() {
			ready = 0
		}
		if l := r.live("bank"); l.Ready != ready || l.Depth != ready || l.Unknown != jobs-ready {
			r.Errorf("the lane holds %+v after the stop, want %d ready", l, ready)
		}
		r.startWorkers(1)
		r.mustEnd(w, "bank", site, ids, patience)
		r.keepsRate("bank", site, rate, 0)
	})
}
