package e2e

import (
	"fmt"
	"testing"
	"time"

	"tundish/internal/bank"
)

func TestRateIsUsedAndNeverExceeded(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			t.Parallel()
			const rate, jobs = 50, 250
			r := newRig(t, true)
			r.startEnqueuer()
			site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
			r.put("bank", contract{URL: site.url, Rate: rate})
			r.pause("bank")
			ids := r.push("bank", jobs)
			r.startWorkers(workers)
			r.resume("bank")
			r.arrived(site, ids, patience)
			r.settled("bank")
			v := r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs})
			if v.Use < 0.97 {
				t.Errorf("use %.1f %%, want at least 97 %%: %s", 100*v.Use, v)
			}
		})
	}
}
