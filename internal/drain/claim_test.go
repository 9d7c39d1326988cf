package drain

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

func TestIdleClaimsTwiceASecond(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.lane("bank", 0)
		w.start()
		begin := time.Now()
		w.run(60 * time.Second)
		claims := w.seen("claim", begin)
		if n := len(claims); n < 120 || n > 122 {
			t.Errorf("%d claims in an idle minute, want one each 500ms", n)
		}
		if n := len(w.seen("turn", begin)); n != 0 {
			t.Errorf("%d turns with nothing to do", n)
		}
	})
}

func TestSleepsUntilTheToldEntry(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		w.run(time.Second)
		due := time.Now().Add(230 * time.Millisecond)
		w.lane("bank", 0, func(l *fakeLane) { l.due = due.UnixMicro() })
		w.run(time.Second) // the claim before tells of it
		for _, c := range w.seen("claim", due.Add(-time.Minute)) {
			if c.leases == 0 {
				continue
			}
			if late := c.at.Sub(due); late < 0 || late > minSpread+time.Millisecond {
				t.Errorf("claimed %s after the entry, want at most %s", late, minSpread)
			}
			return
		}
		t.Error("never claimed")
	})
}

func TestHeldLaneIsTurnedWithoutClaims(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.cfg.Wake = nil
		w.lane("bank", 1000)
		w.start()
		w.run(5 * time.Second)
		var taken []time.Time
		for _, c := range w.seen("claim", time.Time{}) {
			if c.leases > 0 {
				taken = append(taken, c.at)
			}
		}
		// Kept for a second from each claim, then let go at the next look.
		if n := len(taken); n < 4 || n > 6 {
			t.Errorf("claimed %d times in 5s, want once a second", n)
		}
		turns := w.seen("turn", time.Time{})
		if n := len(turns); n < 60 || n > 140 {
			t.Errorf("%d turns in 5s, want about one per 50ms", n)
		}
		kept := 0
		for _, c := range turns {
			if c.turn.Keep {
				kept++
			}
		}
		if kept == len(turns) || kept < len(turns)/2 {
			t.Errorf("%d of %d turns kept the lane", kept, len(turns))
		}
	})
}

func TestWakeOfHeldLaneTurnsItOfAnotherClaims(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		held, other := w.lane("held", 1), w.lane("other", 0)
		w.sender.attempt = nil
		w.start()
		w.run(10 * time.Millisecond) // the job is under way, and the lane held until its deadline
		begin := time.Now()
		w.push(held, 1)
		w.run(5 * time.Millisecond)
		if n := len(w.seen("turn", begin)); n != 1 {
			t.Errorf("%d turns after a wake of the held lane, want 1", n)
		}
		if n := len(w.seen("claim", begin)); n != 0 {
			t.Errorf("%d claims after a wake of the held lane", n)
		}
		w.push(other, 1)
		w.run(5 * time.Millisecond)
		if n := len(w.seen("claim", begin)); n != 1 {
			t.Errorf("%d claims after a wake of another lane, want 1", n)
		}
		w.run(200 * time.Millisecond)
		w.want(held, "delivered", 2)
		w.want(other, "delivered", 1)
	})
}

func TestWakeDuringAClaimIsNotLost(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.store.latency = 50 * time.Millisecond
		l := w.lane("bank", 0)
		w.start()
		pass(70 * time.Millisecond) // the first claim ran and its reply is on the way
		w.push(l, 1)
		w.run(300 * time.Millisecond)
		if n := len(w.writes()); n != 1 {
			t.Errorf("%d writes 300ms after the push: the wake was lost", n)
		}
	})
}

func TestWakesOfLanesThatOthersTakeComeLater(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.start()
		begin := time.Now()
		for range 2000 { // another worker takes each before we look
			w.store.tell("elsewhere")
			pass(5 * time.Millisecond)
		}
		if n := len(w.seen("claim", begin)); n > 150 {
			t.Errorf("%d claims in 10s for 2000 wakes of lanes that others took", n)
		}
		l := w.lane("bank", 0)
		for range 20 {
			w.push(l, 1)
			w.run(2 * time.Second)
		}
		began := time.Now()
		w.push(l, 1)
		w.run(time.Second)
		writes := w.writes()
		if late := writes[len(writes)-1].at.Sub(began); late > 5*time.Millisecond {
			t.Errorf("written %s after the push by the worker that wrote the last ones", late)
		}
	})
}

func TestClosedWakeDoesNotSpin(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		wake := make(chan string)
		w.cfg.Wake = wake
		l := w.lane("bank", 10)
		w.start()
		close(wake)
		w.run(time.Second)
		w.want(l, "delivered", 10)
	})
}

func TestMoreLanesThanOneClaimTakes(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.cfg.Concurrency = 1000
		for i := range 5 * queue.MaxClaim {
			w.lane(fmt.Sprintf("hook-%d", i), 1)
		}
		w.start()
		w.run(time.Second)
		if n := len(w.writes()); n != 5*queue.MaxClaim {
			t.Errorf("%d writes in the first second, want %d", n, 5*queue.MaxClaim)
		}
	})
}

// A server of a Cluster that does not answer holds up its own lanes only.
func TestDeadNodeDelaysOnlyItsLanes(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		for shard := range redisdb.Shards {
			w.store.groups = append(w.store.groups, []int{shard})
		}
		dead := func(name string) bool { return redisdb.ShardOf(name) < 4 }
		var good, bad []*fakeLane
		for i := range 40 {
			name := fmt.Sprintf("lane-%d", i)
			l := w.lane(name, 150)
			if dead(name) {
				bad = append(bad, l)
			} else {
				good = append(good, l)
			}
		}
		w.cfg.Concurrency = 1000
		w.start()
		w.run(time.Second)
		w.change(func() {
			w.store.stall = func(op, lane string) time.Duration {
				if shard, err := strconv.Atoi(lane); err == nil && shard < 4 || err != nil && dead(lane) {
					return 2 * time.Second
				}
				return 0
			}
			w.store.before = func(op, lane string) error {
				if shard, err := strconv.Atoi(lane); err == nil && shard < 4 || err != nil && dead(lane) {
					return errors.New("no answer")
				}
				return nil
			}
		})
		w.run(2200 * time.Millisecond)
		if len(good) < 10 || len(bad) < 3 {
			t.Fatalf("%d lanes on good servers, %d on the dead one", len(good), len(bad))
		}
		for _, l := range good {
			w.want(l, "delivered", 150)
		}
		w.change(func() { w.store.stall, w.store.before = nil, nil })
		w.run(20 * time.Second)
		for _, l := range bad {
			w.want(l, "delivered", 150)
		}
	})
}

// Lanes that become due one after the other are found together: a claim for
// each would be most of what Redis does for many quiet destinations.
func TestWakesOneAfterTheOtherShareClaims(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.cfg.Concurrency = 1000
		var lanes []*fakeLane
		for i := range 200 {
			lanes = append(lanes, w.lane(fmt.Sprintf("lane-%d", i), 0))
		}
		w.start()
		w.run(time.Second)
		begin := time.Now()
		for _, l := range lanes {
			w.push(l, 1)
			w.run(500 * time.Microsecond)
		}
		if n := len(w.seen("claim", begin)); n > 30 {
			t.Errorf("%d claims for 200 lanes that became due within 100ms", n)
		}
		w.run(2 * time.Second)
		for _, l := range lanes {
			w.want(l, "delivered", 1)
		}
	})
}
