package e2e

import (
	"fmt"
	"os/exec"
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
		clock.set(t, off)
		r.sendsAgain("bank", bank.Monotonic())
		seen, _ := site.Arrivals()
		r.requests(site, len(seen)+rate/2)
		r.eventually("the worker shows that its clock is off by "+off.String(), patience, func() bool {
			return (r.wallOf(wrong) - off).Abs() < 700*time.Millisecond
		})
	}
	if r.metric(wrong, "tundish_slots_dead_total") == 0 {
		t.Error("no slot died when the clock jumped forward")
	}
	r.startWorkers(1)
	wrong.terminate(t)
	r.sendsAgain("bank", bank.Monotonic())
	r.judgeKeyed("bank", site, rate, producers)
}

// startAhead starts a worker whose monotonic clock is ahead of all others' by
// whole seconds: it lives in a time namespace of its own. Where the kernel gives
// none, the test is skipped.
func (r *rig) startAhead(by time.Duration) *server {
	r.Helper()
	seconds := fmt.Sprint(int64(by / time.Second))
	enter := []string{"unshare", "--time", "--monotonic", seconds, "--boottime", seconds}
	if exec.Command(enter[0], append(enter[1:], "true")...).Run() != nil {
		enter = append([]string{"unshare", "--user", "--map-root-user"}, enter[1:]...)
		if out, err := exec.Command(enter[0], append(enter[1:], "true")...).CombinedOutput(); err != nil {
			r.Skipf("no time namespace to be had: %v: %s", err, out)
		}
	}
	s := r.spawnWorkerBy(enter)
	r.ahead[r.logs[len(r.logs)-1]] = by
	return s.awaitWorker(r)
}

// The monotonic clocks of workers are days apart, as on machines that were
// started days apart, and the lane goes from one to the other.
func TestInjuryMonotonicClocksAreDaysApart(t *testing.T) {
	t.Parallel()
	const rate, day = 50, 24 * time.Hour
	r := newRig(t, false)
	r.startEnqueuer()
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: rate})
	last := r.startAhead(3 * day)
	producers := r.startProducers(2, 30*time.Millisecond)
	r.requests(site, rate)
	for _, start := range []func() *server{
		func() *server { return r.startWorkers(1)[0] },
		func() *server { return r.startAhead(1000 * day) },
	} {
		next := start()
		last.terminate(t)
		r.sendsAgain("bank", bank.Monotonic())
		seen, _ := site.Arrivals()
		r.requests(site, len(seen)+rate)
		last = next
	}
	r.judgeKeyed("bank", site, rate, producers)
	for i, w := range r.workers {
		if len(r.writes(r.logs[i])) == 0 {
			t.Errorf("%s wrote nothing: the test shows nothing", w.name)
		}
	}
}
