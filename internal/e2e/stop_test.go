package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tundish/internal/bank"
)

// holder is the worker that wrote last: it holds the lane.
func (r *rig) holder() *server {
	r.Helper()
	holds, latest := r.workers[0], int64(0)
	for i, w := range r.workers {
		writes := r.writes(r.logs[i])
		if n := len(writes); n > 0 && writes[n-1].At > latest {
			holds, latest = w, writes[n-1].At
		}
	}
	return holds
}

// requests waits until the bank has seen that many.
func (r *rig) requests(s *site, n int) {
	r.Helper()
	r.eventually(fmt.Sprintf("%d requests at the bank", n), patience, func() bool {
		got, _ := s.Arrivals()
		return len(got) >= n
	})
}

func TestWorkersAreKilledAndStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 250
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(3)
	site := r.startBank(bank.Config{Latency: 200 * time.Millisecond}) // about ten requests are always under way
	r.put("bank", contract{URL: site.url, Rate: rate, Timeout: "1s"})
	ids := r.push("bank", jobs)

	r.requests(site, 60)
	first := r.holder()
	kills := []kill{r.killed("bank", first)}
	r.requests(site, 120)
	other := r.workers[slices.IndexFunc(r.workers, func(w *server) bool { return w != first })]
	other.terminate(t)

	r.arrived(site, ids, patience)
	r.settled("bank")
	inFlight, others := flightsCut(site, kills)
	if others > 0 {
		t.Errorf("%d requests were made again that were not in flight at the kill", others)
	}
	t.Logf("%d requests were in flight at the kill", inFlight)
	// The log of a killed worker lacks its last 100 ms.
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs, MayRepeat: inFlight, MayMiss: rate/10 + 2})
}

func TestWorkerStopsWithRequestsUnderWay(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 60
	r := newRig(t, false)
	r.startEnqueuer()
	first := r.startWorkers(1)[0]
	site := r.startBank(bank.Config{Latency: time.Second})
	r.put("bank", contract{URL: site.url, Rate: rate})
	ids := r.push("bank", jobs)
	r.requests(site, 10)
	first.terminate(t)

	// What had arrived was answered, and that is known.
	arrivals, _ := site.Arrivals()
	if len(arrivals) == jobs {
		t.Fatal("nothing was left to give back: the test shows nothing")
	}
	for _, a := range arrivals {
		if j := r.job("bank", a.Job); j.State != "delivered" {
			t.Errorf("job %s is %q after the stop, want delivered", a.Job, j.State)
		}
	}
	if l := r.live("bank"); l.Depth != jobs-len(arrivals) || l.Ready != l.Depth {
		t.Errorf("the lane holds %+v, want the %d other jobs, ready", l, jobs-len(arrivals))
	}
	r.startWorkers(1)
	r.arrived(site, ids, patience)
	r.settled("bank")
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs})
}

func TestHolderOfTheLaneIsFrozen(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 250
	r := newRig(t, false)
	site, ids := r.startDrain(3, rate, jobs)
	r.requests(site, 50)
	frozen := r.holder()
	frozen.freeze(t)
	before, _ := site.Arrivals()
	after(2 * time.Second)
	if during, _ := site.Arrivals(); len(during)-len(before) < rate {
		t.Errorf("%d requests in 2 s while one of three workers stood still, want at least %d", len(during)-len(before), rate)
	}
	frozen.thaw(t)
	r.arrived(site, ids, patience)
	r.settled("bank")
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs})
}
