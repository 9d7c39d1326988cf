package drain

import (
	"testing"
	"time"

	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// spaced checks that writes of a lane keep its rate: no window of a second holds more than limit.
func spaced(t *testing.T, w *world, limit int) {
	t.Helper()
	writes := w.writes()
	for i := range writes {
		if j := i + limit; j < len(writes) && writes[j].at.Sub(writes[i].at) < 975*time.Millisecond {
			t.Fatalf("%d writes within %s", limit+1, writes[j].at.Sub(writes[i].at))
		}
	}
}

// TestClockSteps sets the clock of Redis while jobs are sent: the rate holds,
// work goes on, and the step is mended.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]time.Duration{
		"forward": 10 * time.Second, "far forward": 40 * 24 * time.Hour, "back": -10 * time.Second, "far back": -40 * 24 * time.Hour,
		"just a step": 60 * time.Millisecond, "just a step back": -60 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				l := w.lane("bank", 500)
				w.start()
				w.run(3 * time.Second)
				shard := redisdb.ShardOf("bank")
				w.change(func() { w.store.offset += step.Microseconds() })
				w.run(8 * time.Second)
				w.want(l, "delivered", 500)
				spaced(t, w, 51)
				if off := w.store.offset + w.store.adj[shard]; off < -2000 || off > 2000 {
					t.Errorf("logical time is off by %dµs after a step of %s", off, step)
				}
				if n := w.metric("tundish_clock_steps_total"); step > 0 && n == 0 {
					t.Error("the step is not counted")
				}
			})
		})
	}
}

// TestLateCallIsNotAStep lets calls wait in front of Redis: nobody may move the clock.
func TestLateCallIsNotAStep(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 300)
		w.start()
		w.run(time.Second)
		n := 0
		w.change(func() {
			w.store.stall = func(op, _ string) time.Duration {
				if n++; op == "turn" && n%5 == 0 {
					return 700 * time.Millisecond
				}
				return 0
			}
		})
		w.run(20 * time.Second)
		w.want(l, "delivered", 300)
		spaced(t, w, 51)
		again := 0
		for _, c := range w.seen("turn", time.Time{}) {
			if c.status == queue.TurnClock {
				again++
				if c.turn.Clock.Confirmed != "" {
					t.Error("a step was confirmed that was none")
				}
			}
		}
		if again == 0 {
			t.Error("no call was late: the test tests nothing")
		}
		for shard, adj := range w.store.adj {
			if adj != 0 {
				t.Errorf("the clock of shard %d was moved by %dµs", shard, adj)
			}
		}
	})
}

// TestSlowLinkStillSends: calls that are always later than a step is wide must
// not be asked again for ever.
func TestSlowLinkStillSends(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 100)
		w.start()
		w.run(time.Second)
		w.change(func() { w.store.latency = 120 * time.Millisecond })
		w.run(20 * time.Second)
		if n := w.count(l, "delivered"); n < 100 {
			t.Errorf("%d of 100 delivered over a link that became slow", n)
		}
		if w.store.steps != 0 {
			t.Errorf("the clock was moved %d times", w.store.steps)
		}
	})
}

// TestForwardStepOfAnIdleShardIsMended: claims mend it, for what is pushed there
// counts on the time as it is.
func TestForwardStepOfAnIdleShardIsMended(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 0)
		w.start()
		w.run(3 * time.Second)
		w.change(func() { w.store.offset += 30_000_000 })
		w.run(2 * lookEvery)
		for shard, adj := range w.store.adj {
			if off := w.store.offset + adj; off < -2000 || off > 2000 {
				t.Errorf("logical time of idle shard %d is off by %dµs", shard, off)
			}
		}
		if n := w.metric("tundish_clock_steps_total"); n != redisdb.Shards {
			t.Errorf("%v steps counted, want one for each shard", n)
		}
		w.push(l, 10)
		w.run(2 * time.Second)
		w.want(l, "delivered", 10)
	})
}

// TestClockStepsForthAndBack sets the clock to and fro: a step to where it was
// set before is a step like any other, and nobody's move was undone.
func TestClockStepsForthAndBack(t *testing.T) {
	t.Parallel()
	for name, jobs := range map[string]int{"under load": 500, "idle": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				l := w.lane("bank", jobs)
				w.start()
				w.run(time.Second)
				shard := redisdb.ShardOf("bank")
				for i, step := range []int64{30, -30, 30, -30, 30} {
					w.change(func() { w.store.offset += step * 1_000_000 })
					w.run(2 * lookEvery)
					w.change(func() {
						if off := w.store.offset + w.store.adj[shard]; off < -2000 || off > 2000 {
							t.Errorf("logical time is off by %dµs after step %d", off, i+1)
						}
					})
				}
				w.run(8 * time.Second)
				w.want(l, "delivered", jobs)
				spaced(t, w, 51)
			})
		})
	}
}

// Two workers that do not agree about the time of an idle shard must not move
// its clock to and fro for ever.
func TestClaimsDoNotFightOverAnIdleShard(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.lane("bank", 0)
		w.start()
		w.run(2 * time.Second)
		shard := redisdb.ShardOf("bank")
		// Somebody else undoes each move of this worker, from its own wrong view.
		w.change(func() {
			w.store.offset += 10_000_000
			w.store.after = func(op, _ string) error {
				if op == "claim" {
					w.store.adj[shard] = 0
				}
				return nil
			}
		})
		w.run(10 * time.Second)
		moves := 0
		w.change(func() { moves = w.store.steps })
		w.run(10 * time.Second)
		w.change(func() {
			if more := w.store.steps - moves; more > 1 {
				t.Errorf("the clock was moved %d times more by a worker whose move was undone", more)
			}
		})
	})
}
