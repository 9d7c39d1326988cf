package drain

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tundish/internal/queue"
)

// TestOverloadWastesNothing: a Redis that is asked for more than it can do goes on
// doing all it can. Turns that waited so long that they have to be made again would take that away.
func TestOverloadWastesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lanes int
		each  time.Duration
	}{{1000, time.Millisecond}, {3000, 200 * time.Microsecond}} {
		t.Run(fmt.Sprintf("%d lanes, %s a turn", c.lanes, c.each), func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.cfg.Concurrency = 4 * c.lanes
				w.store.each = c.each
				for i := range c.lanes {
					w.lane(fmt.Sprintf("lane-%d", i), 20, func(l *fakeLane) { l.interval = 500_000 })
				}
				w.start()
				w.run(5 * time.Second) // it finds out
				since, dead, sent := time.Now(), w.metric("tundish_slots_dead_total"), len(w.writes())
				w.run(5 * time.Second)
				turns, again := w.seen("turn", since), 0
				for _, s := range turns {
					if s.status == queue.TurnClock {
						again++
					}
				}
				able := int(5 * time.Second / c.each)
				dead, sent = w.metric("tundish_slots_dead_total")-dead, len(w.writes())-sent
				if len(turns) < able*9/10 {
					t.Errorf("%d turns in 5 s, Redis could do %d: it is not even busy", len(turns), able)
				}
				if again > able/50 || dead > float64(able/50) {
					t.Errorf("of %d turns %d were asked for again and %v jobs came too late for their slots", len(turns), again, dead)
				}
				if sent < able*3/10 {
					t.Errorf("%d jobs were sent with %d turns", sent, len(turns))
				}
			})
		})
	}
}

// TestSlowLink: the work goes on as before when a link gets slow.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	const far = 60 * time.Millisecond
	rng := rand.New(rand.NewPCG(1, 2))
	for name, slow := range map[string]func(s *fakeStore){
		"longer way": func(s *fakeStore) { s.latency = far / 2 },
		"jitter":     func(s *fakeStore) { s.jitter = func() time.Duration { return time.Duration(rng.Int64N(int64(far))) } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				const lanes, every = 700, 700 * time.Millisecond
				w.cfg.Concurrency = 4 * lanes
				for i := range lanes {
					w.lane(fmt.Sprintf("lane-%d", i), 40, func(l *fakeLane) { l.interval = every.Microseconds() })
				}
				w.start()
				w.run(2 * time.Second)
				w.change(func() { slow(w.store) })
				w.run(15 * time.Second) // it finds out
				sent := len(w.writes())
				w.run(5 * time.Second)
				sent = len(w.writes()) - sent
				if full := int(5 * time.Second / every * lanes); sent < full*9/10 {
					t.Errorf("%d jobs were sent of the %d that the rates let out", sent, full)
				}
			})
		})
	}
}

// TestOverloadByMany: workers that wait for each other's turns do not make them again.
func TestOverloadByMany(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const lanes, each, last = 1000, 500 * time.Microsecond, 3 * time.Second
		w.cfg.Concurrency = 4 * lanes
		w.store.each = each
		for i := range lanes {
			w.lane(fmt.Sprintf("lane-%d", i), 30, func(l *fakeLane) { l.interval = 500_000 })
		}
		w.start()
		for i := range 3 {
			c := w.cfg
			c.Worker, c.Metrics = fmt.Sprintf("more-%d", i), nil
			d := New(c, w.store, w.store, w.sender)
			d.Start()
			defer d.Stop()
		}
		w.run(10 * time.Second)
		since := time.Now()
		w.run(last)
		again, able := 0, int(last/each)
		turns := w.seen("turn", since)
		for _, s := range turns {
			if s.status == queue.TurnClock {
				again++
			}
		}
		if len(turns) < able*9/10 || again > able/50 {
			t.Errorf("%d turns of the %d that Redis could do, %d were asked for again", len(turns), able, again)
		}
	})
}

// TestStopWhileFull: a worker that stops while Redis is full settles what it sent, within the grace.
func TestStopWhileFull(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const lanes = 1000
		w.cfg.Concurrency = 4 * lanes
		w.store.each = time.Millisecond
		var all []*fakeLane
		for i := range lanes {
			all = append(all, w.lane(fmt.Sprintf("lane-%d", i), 20, func(l *fakeLane) { l.interval = 500_000 }))
		}
		w.start()
		w.run(5 * time.Second)
		since := time.Now()
		w.d.Stop()
		if took := time.Since(since); took > w.cfg.StopGrace {
			t.Errorf("it took %v to stop", took)
		}
		leased, delivered := 0, 0
		for _, l := range all {
			leased, delivered = leased+w.count(l, "leased"), delivered+w.count(l, "delivered")
		}
		if sent := len(w.writes()); leased > 0 || delivered != sent {
			t.Errorf("%d jobs are leased, %d were sent and %d settled", leased, sent, delivered)
		}
	})
}

// TestStepAmongLateCalls: by as much as calls are late a step of the clock passes as time, and is not asked
// for over and over; a larger one is mended.
func TestStepAmongLateCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step   time.Duration
		mended bool
	}{{100 * time.Millisecond, false}, {time.Second, true}} {
		t.Run(c.step.String(), func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				const late = 150 * time.Millisecond
				w.lane("busy", 5000, func(l *fakeLane) { l.interval = 10_000 })
				w.start()
				w.run(time.Second)
				calls := 0
				w.change(func() {
					w.store.stall = func(op, _ string) time.Duration {
						if calls++; op == "turn" && calls%3 > 0 {
							return late
						}
						return 0
					}
				})
				w.run(20 * time.Second)
				w.change(func() { w.store.offset += c.step.Microseconds() })
				w.run(5 * time.Second)
				since, sent := time.Now(), len(w.writes())
				w.run(5 * time.Second)
				if n := len(w.seen("claim", since)); n > 50 {
					t.Errorf("%d claims in 5 s", n)
				}
				if got := len(w.writes()) - sent; got < 425 || got > 501 {
					t.Errorf("%d jobs were sent of the 500 that the rate lets out", got)
				}
				if c.mended && w.store.steps == 0 {
					t.Error("it was not mended")
				}
			})
		})
	}
}
