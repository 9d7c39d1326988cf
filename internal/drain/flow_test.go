package drain

import (
	"fmt"
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
				if again > able/10 || dead > float64(able/10) {
					t.Errorf("of %d turns %d were asked for again and %v jobs came too late for their slots", len(turns), again, dead)
				}
				if sent < able*3/10 {
					t.Errorf("%d jobs were sent with %d turns", sent, len(turns))
				}
			})
		})
	}
}

// TestFlow: the room follows how long turns wait, within its bounds, and is cut once for those that waited together.
func TestFlow(t *testing.T) {
	t.Parallel()
	f := flow{room: mostTurns}
	at := time.Duration(0)
	turns := func(n int, queued time.Duration) int {
		f.begin(n)
		at += time.Millisecond
		f.end(n, queued, at)
		return int(f.room)
	}
	at = time.Hour
	for range 4 {
		if got := turns(20, 3*queuing); got != mostTurns {
			t.Fatalf("room is %d after a few long waits", got)
		}
	}
	if got := turns(20, 3*queuing); got != mostTurns*3/4 {
		t.Errorf("room is %d while most wait long", got)
	}
	if got := turns(20, 3*queuing); got != mostTurns*3/4 {
		t.Errorf("room is %d after another that was under way at the same time", got)
	}
	at += time.Hour
	for range len(f.waits) {
		if got := turns(20, queuing); got < mostTurns/2 {
			t.Errorf("room is %d after waits that are as long as they may be", got)
		}
	}
	at += time.Hour
	for range 100 {
		at += time.Second
		turns(1, time.Second)
	}
	if f.room != fewestTurns {
		t.Errorf("room is %.1f while all wait", f.room)
	}
	for range 1000 {
		turns(1, 0)
	}
	if f.room != fewestTurns {
		t.Errorf("room is %.1f, and was never used up", f.room)
	}
	for range mostTurns {
		turns(f.free(), 0)
	}
	if f.room != mostTurns || f.under != 0 || f.free() != mostTurns {
		t.Errorf("%+v when nothing waits", f)
	}
}
