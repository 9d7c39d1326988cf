package e2e

import (
	"fmt"
	"testing"
	"time"

	"tundish/internal/bank"
)

// leastUse is what a test asks for; the benchmarks print what is reached.
const leastUse = 0.97

func TestRateIsUsedAndNeverExceeded(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, true)
			r.startEnqueuer()
			site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
			r.put("bank", contract{URL: site.url, Rate: 50})
			r.startWorkers(workers)
			// A machine with other work can take slots away, but give none: each
			// run must keep the rate and lose nothing, one must use it.
			var use float64
			for run := 0; run < 3 && use < leastUse; run++ {
				use = max(use, r.drainBacklog("bank", site, 50, 250))
			}
			if use < leastUse {
				t.Errorf("at most %.1f %% of the rate was used, want %.0f %%", 100*use, 100*leastUse)
			}
		})
	}
}

// drainBacklog pushes jobs to a paused destination, lets them go, holds them
// against the rate and answers the share of it that was used.
func (r *rig) drainBacklog(destination string, s *site, rate int64, jobs int) float64 {
	r.Helper()
	after(r.pause(destination))
	s.Reset()
	ids := r.push(destination, jobs)
	from := bank.Monotonic()
	r.resume(destination)
	r.arrived(s, ids, patience)
	r.settled(destination)
	c := bank.Case{Rate: rate, Per: time.Second, Jobs: jobs}
	c.Arrivals, c.Forgotten = s.Arrivals()
	r.eventually("a line in the write logs for each arrival", patience, func() bool {
		c.Writes = r.writesAfter(destination, from)
		return len(c.Writes) >= len(c.Arrivals)
	})
	v := bank.Judge(c)
	if !v.OK {
		r.Errorf("%s: %s", destination, v)
	}
	return v.Use
}
