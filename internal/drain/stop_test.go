package drain

import (
	"fmt"
	"testing"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/job"
)

// stop stops the worker and says how long that took.
func (w *world) stop() time.Duration {
	begin := time.Now()
	w.d.Stop()
	return time.Since(begin)
}

func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.sender.attempt = func(*deliver.Attempt) (time.Duration, job.Outcome) { return 2 * time.Second, job.OutcomeDelivered }
		l := w.lane("bank", 1000)
		w.start()
		w.run(10*time.Second + 500*time.Millisecond)
		sent, begin := len(w.writes()), time.Now()
		if took := w.stop(); took < time.Second || took > 2200*time.Millisecond {
			t.Errorf("the stop took %s, attempts 2s", took)
		}
		if n := len(w.writes()); n != sent {
			t.Errorf("%d requests written after the stop began", n-sent)
		}
		if n := len(w.seen("claim", begin)); n != 0 {
			t.Errorf("%d claims after the stop began", n)
		}
		for _, c := range w.seen("turn", begin) {
			if c.leases > 0 {
				t.Error("a turn took jobs after the stop began")
			}
		}
		w.want(l, "leased", 0)
		w.want(l, "delivered", sent)
		w.want(l, "ready", 1000-sent)
		now := time.Now().UnixMicro()
		if l.due == 0 || l.due > now {
			t.Errorf("the entry of the lane lies %dµs ahead, want it due for others", l.due-now)
		}
	})
}

func TestStopCutsWhatOutlivesTheGrace(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.hang(func(string) bool { return true })
		w.cfg.StopGrace = time.Second
		l := w.lane("bank", 20)
		w.start()
		w.run(600 * time.Millisecond)
		w.want(l, "leased", 20)
		if took := w.stop(); took < time.Second || took > 1200*time.Millisecond {
			t.Errorf("the stop took %s with a grace of 1s", took)
		}
		w.want(l, "ready", 20)
		for _, j := range l.order {
			if j.used != 0 || j.sent != 1 {
				t.Errorf("interrupted: %d attempts used up, %d sent", j.used, j.sent)
			}
		}
	})
}

func TestStopDuringAClaimGivesTheLanesBack(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.store.latency = 30 * time.Millisecond
		l := w.lane("bank", 10)
		w.start()
		pass(45 * time.Millisecond) // the claim ran and its reply is on the way
		if took := w.stop(); took > 200*time.Millisecond {
			t.Errorf("the stop took %s", took)
		}
		w.want(l, "ready", 10)
		if now := time.Now().UnixMicro(); l.due > now {
			t.Errorf("the claimed lane is due in %dµs, want it due now", l.due-now)
		}
	})
}

func TestStopDuringATurnReleasesWhatItBrings(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.store.latency = 30 * time.Millisecond
		l := w.lane("bank", 10)
		w.start()
		pass(105 * time.Millisecond) // claim 0 to 60, turn 60 to 120
		if w.count(l, "leased") == 0 {
			t.Error("no turn ran: the test tests nothing")
		}
		if took := w.stop(); took > 200*time.Millisecond {
			t.Errorf("the stop took %s", took)
		}
		w.want(l, "ready", 10)
		if n := len(w.writes()); n != 0 {
			t.Errorf("%d writes", n)
		}
	})
}

func TestStopTakesBackLostCalls(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 10)
		lose := true
		w.store.after = func(op, _ string) error {
			if op == "turn" && lose {
				lose = false
				return errNoReply
			}
			return nil
		}
		w.start()
		w.run(100 * time.Millisecond)
		if w.count(l, "leased") == 0 {
			t.Error("nothing was granted by the call that was lost")
		}
		w.stop()
		w.want(l, "ready", 10)
	})
}

func TestStopWithoutRedis(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 100)
		w.start()
		w.run(time.Second)
		w.change(func() { w.store.before = func(string, string) error { return errRefused } })
		w.run(200 * time.Millisecond)
		if took := w.stop(); took > w.cfg.StopGrace+settleFor+2*time.Second {
			t.Errorf("the stop took %s without Redis, the grace is %s", took, w.cfg.StopGrace)
		}
		if w.count(l, "leased") == 0 {
			t.Error("nothing was left to settle: the test tests nothing")
		}
	})
}

func TestStopSettlesWhenRedisComesBackInTime(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 100)
		w.start()
		w.run(time.Second)
		back := time.Now().Add(2500 * time.Millisecond)
		w.change(func() {
			w.store.before = func(string, string) error {
				if time.Now().Before(back) {
					return errRefused
				}
				return nil
			}
		})
		sent := len(w.writes())
		w.stop()
		w.want(l, "leased", 0)
		w.want(l, "delivered", sent)
	})
}

func TestStopOfALaneThatCannotBeRead(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 100)
		w.start()
		w.run(time.Second)
		w.change(func() { l.unreadable = true })
		w.run(200 * time.Millisecond)
		if took := w.stop(); took > time.Second {
			t.Errorf("the stop took %s for results that nobody can take", took)
		}
	})
}

func TestStopOfAnIdleWorkerIsQuick(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		for i := range 100 {
			w.lane(fmt.Sprintf("hook-%d", i), 1)
		}
		w.start()
		w.run(time.Second)
		if took := w.stop(); took > 10*time.Millisecond {
			t.Errorf("the stop took %s", took)
		}
		if took := w.stop(); took != 0 {
			t.Errorf("the second stop took %s", took)
		}
	})
}

func TestStopBeforeStart(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.d = New(w.cfg, w.store, w.store, w.sender)
		w.d.Stop()
		w.d.Start()
		w.run(2 * time.Second)
		if n := len(w.seen("claim", time.Time{})); n != 0 {
			t.Errorf("%d claims of a worker stopped before its start", n)
		}
	})
}
