package drain

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestLateRepliesAreForgotten: late replies put slots off only for as long as the link was
// so lately. A lane with few jobs would not see the end of it for minutes by its own turns.
func TestLateRepliesAreForgotten(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const late = 150 * time.Millisecond
		lane := w.lane("idle", 0)
		write := func() time.Duration {
			pushed, before := time.Now(), len(w.writes())
			w.push(lane, 1)
			w.run(time.Second)
			ws := w.writes()[before:]
			if len(ws) == 0 {
				return time.Second
			}
			return ws[0].at.Sub(pushed)
		}
		w.start()
		for range 20 {
			write()
		}
		w.change(func() { w.store.back = late })
		for range 4 {
			write()
		}
		w.run(5 * time.Second)
		w.change(func() { w.store.back = 0 })
		if took := write(); took < late {
			t.Errorf("a job was written %v after its push, while replies were known to take %v", took, late)
		}
		w.run(15 * time.Second)
		for range 3 {
			if took := write(); took > 30*time.Millisecond {
				t.Errorf("a job was written %v after its push, long after the late replies", took)
			}
		}
	})
}

// TestFullWorkerLooks: a worker that has no room for more turns looks for due lanes all the same.
func TestFullWorkerLooks(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const lanes = 1000
		w.cfg.Concurrency = 4 * lanes
		w.store.each = time.Millisecond
		for i := range lanes {
			w.lane(fmt.Sprintf("lane-%d", i), 30, func(l *fakeLane) { l.interval = 500_000 })
		}
		w.start()
		w.run(5 * time.Second)
		since := time.Now()
		w.run(5 * time.Second)
		if room := w.metric("tundish_turns_room"); room >= mostTurns/2 {
			t.Errorf("turns_room is %v while Redis is full", room)
		}
		claims := w.seen("claim", since)
		at := []time.Time{since, since.Add(5 * time.Second)}
		for _, c := range claims {
			at = append(at, c.at)
		}
		slices.SortFunc(at, time.Time.Compare)
		for i := range at[1:] {
			if gap := at[i+1].Sub(at[i]); gap > lookEvery+100*time.Millisecond {
				t.Errorf("it did not look for %v", gap)
			}
		}
		if len(claims) > 5*200 {
			t.Errorf("%d claims in 5 s", len(claims))
		}
	})
}
