package e2e

import (
	"testing"
	"time"

	"tundish/internal/bank"
	"tundish/internal/redistest"
)

// stills are the ways in which a Redis that lives answers nothing for a while.
var stills = map[string]func(*rig, time.Duration){
	"frozen": func(r *rig, d time.Duration) {
		r.redis.Stop(r)
		after(d)
		r.redis.Cont(r)
	},
	"busy": func(r *rig, d time.Duration) { r.redis.Sleep(r, d) },
}

// Redis stands still for moments, some longer than a slot is good for.
func TestFaultRedisStumbles(t *testing.T) {
	t.Parallel()
	for name, still := range stills {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const rate, jobs = 50, 250
			r := newRig(t, false, redistest.WithDebug())
			r.startEnqueuer()
			r.startWorkers(3)
			site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
			r.put("bank", contract{URL: site.url, Rate: rate})
			ids := r.push("bank", jobs)
			for i, d := range []int{5, 20, 60, 150, 400, 10, 100, 800} {
				r.requests(site, 20+20*i)
				still(r, time.Duration(d)*time.Millisecond)
			}
			r.recount("bank", site, ids)
			r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs})
		})
	}
}

// A Redis that answers nothing for a while leaves every call open: nobody knows
// whether it ran. Longer than a lease, what was being sent ends meanwhile, and
// is still not sent again.
func TestRedisStandsStill(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	for name, long := range map[string]time.Duration{"frozen": 3 * time.Second, "busy": lease(timeout) + time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const rate, jobs = 50, 120
			r := newRig(t, false, redistest.WithDebug())
			r.startEnqueuer()
			r.startWorkers(2)
			site := r.startBank(bank.Config{Latency: 200 * time.Millisecond}) // some are under way when it begins
			r.put("bank", contract{URL: site.url, Rate: rate, Timeout: timeout.String()})
			ids := r.push("bank", jobs)
			pushes := r.startStream("bank", 20*time.Millisecond)
			r.requests(site, 50)
			stills[name](r, long)
			r.sendsAgain("bank", bank.Monotonic())
			r.takenNow(pushes, soon)
			r.judgeStream("bank", site, rate, pushes, ids)
		})
	}
}
