package e2e

import (
	"net/http"
	"testing"
	"time"

	"tundish/internal/bank"
)

// writesAfter are the writes of a lane after a moment.
func (r *rig) writesAfter(lane string, moment int64) []bank.Write {
	r.Helper()
	var late []bank.Write
	for _, w := range bank.OfLane(r.writes(r.logs...), lane) {
		if w.At > moment {
			late = append(late, w)
		}
	}
	return late
}

func TestPauseAndResumeUnderLoad(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 150
	r := newRig(t, false)
	site, ids := r.startDrain(2, rate, jobs)
	r.requests(site, 50)

	effective := r.pause("bank")
	ends := bank.Monotonic() + effective.Nanoseconds()
	if effective > time.Second {
		t.Errorf("the pause takes effect in %s, want at most a second", effective)
	}
	after(effective + time.Second)
	if late := r.writesAfter("bank", ends); len(late) > 0 {
		t.Errorf("%d requests were written after the pause had taken effect", len(late))
	}
	if l := r.live("bank"); l.State != "paused" || l.Leased != 0 || l.Ready == 0 {
		t.Errorf("the paused destination shows %+v", l)
	}
	r.resume("bank")
	r.arrived(site, ids, patience)
	r.settled("bank")
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs})
}

func TestDeleteAndMakeAgainUnderLoad(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 100
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(2)
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	c := contract{URL: site.url, Rate: rate}
	r.put("bank", c)
	old := map[string]bool{}
	for _, id := range r.push("bank", jobs) {
		old[id] = true
	}
	r.requests(site, 50)

	effective := r.effective(http.MethodDelete, r.at("bank")+"?cancel_jobs=true")
	ends := bank.Monotonic() + effective.Nanoseconds()
	r.put("bank", c)
	ids := r.push("bank", jobs)
	r.arrived(site, ids, patience)
	r.settled("bank")
	for _, w := range r.writesAfter("bank", ends) {
		if old[w.Job] {
			t.Errorf("job %s of the deleted destination was sent after that took effect", w.Job)
		}
	}
	// Both lives together: a new name is no fresh allowance.
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second})
}

// settling is how long slots live that were granted before a change.
const settling = 500 * time.Millisecond

func TestRateIsLowered(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(3)
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: 50})
	r.push("bank", 400)
	r.requests(site, 50)
	r.put("bank", contract{URL: site.url, Rate: 2})
	ends := bank.Monotonic() + settling.Nanoseconds()
	after(settling + 4*time.Second)
	late := r.writesAfter("bank", ends)
	stamps := make([]int64, len(late))
	for i, w := range late {
		stamps[i] = w.At
	}
	if worst := bank.Worst(stamps, time.Second); worst > 2 {
		t.Errorf("%d requests in a second after the rate was lowered to 2", worst)
	}
	if len(late) < 7 {
		t.Errorf("%d requests in 4 s at 2 per second", len(late))
	}
	r.mustJudgeWrites("bank", site, 50)
}

func TestRateIsRaisedWhileWorkersSleep(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(2)
	site := r.startBank(bank.Config{})
	r.put("bank", contract{URL: site.url, Rate: 1, Per: "1h"})
	ids := r.push("bank", 20)
	r.requests(site, 1)
	r.put("bank", contract{URL: site.url, Rate: 10})
	moment := bank.Monotonic()
	r.requests(site, 2)
	if waited := time.Duration(bank.Monotonic() - moment); waited > 1500*time.Millisecond {
		t.Errorf("the first request at the new rate came after %s", waited)
	}
	r.arrived(site, ids, 4*time.Second)
	r.settled("bank")
	r.mustJudge("bank", site, bank.Case{Rate: 10, Per: time.Second, Jobs: 20})
}

// mustJudgeWrites holds only the rate against the run: the queue is not empty.
func (r *rig) mustJudgeWrites(destination string, s *site, rate int64) {
	r.Helper()
	if v := r.judge(destination, s, bank.Case{Rate: rate, Per: time.Second}); int64(v.WorstWrite) > v.BoundWrite {
		r.Errorf("%s: %s", destination, v)
	}
}
