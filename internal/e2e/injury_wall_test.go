package e2e

import (
	"testing"
	"time"

	"tundish/internal/bank"
)

// wallOf is how far the wall clock of a worker is off, as it shows by itself.
func (r *rig) wallOf(w *server) time.Duration {
	r.Helper()
	shown := r.metric(w, `tundish_loop_last_turn_timestamp_seconds\{loop="drain"`)
	return time.Duration(shown*1e3-float64(time.Now().UnixMilli())) * time.Millisecond
}

// The wall clock of one worker is wrong, by much and by little, and is set to
// and fro while it sends: it does its part as before, at the rate, and one
// whose clock is right goes on from there. A clock that jumps forward is what a
// machine sees that was asleep, so the slots of that moment die.
func TestInjuryWallClockOfOneWorker(t *testing.T) {
	t.Parallel()
	const rate = 50
	r := newRig(t, false)
	r.startEnqueuer()
	wrong := r.startWorkers(1)[0]
	clock := takeWallClock(t, wrong.process)
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: rate})
	producers := r.startProducers(2, 30*time.Millisecond) // more than the rate: there is a backlog
	r.requests(site, 10)
	for _, off := range []time.Duration{time.Hour, -time.Hour, -time.Second, 2 * time.Second, 26 * time.Hour} {
		dead := r.metric(wrong, "tundish_slots_dead_total")
		forward := off > r.wallOf(wrong)
		clock.set(t, off)
		r.sendsAgain("bank", bank.Monotonic())
		seen, _ := site.Arrivals()
		r.requests(site, len(seen)+rate/2)
		if shown := r.wallOf(wrong); (shown - off).Abs() > 700*time.Millisecond {
			t.Errorf("the worker's clock is off by %s, want %s: the test shows nothing", shown, off)
		}
		if died := r.metric(wrong, "tundish_slots_dead_total") > dead; forward && !died {
			t.Errorf("no slot died when the clock jumped to %s", off)
		}
	}
	r.startWorkers(1)
	wrong.terminate(t)
	r.sendsAgain("bank", bank.Monotonic())
	r.judgeKeyed("bank", site, rate, producers)
}
