package drain

import (
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
		if took := write(); took < late*9/10 {
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

// TestWaysAreThoseOfACall: slack counts from the decision to call, for a worker may be slow to
// make it, and calls that went together teach once, by the longest ways.
func TestWaysAreThoseOfACall(t *testing.T) {
	t.Parallel()
	lp, g, w := &loop{}, &group{}, ways{}
	const decided, at = 10 * time.Second, 10*time.Second + 80*time.Millisecond
	w.add(lp, 0, at.Microseconds(), decided, at, at)
	if g.learn(w, at); g.theres.n != 0 {
		t.Error("it learned from a clock that it does not know")
	}
	lp.clocks[0].Observe(at, at, at.Microseconds())
	w.add(lp, 0, at.Microseconds(), decided, at, at)
	w.add(lp, 0, at.Microseconds(), decided+40*time.Millisecond, at, at)
	g.learn(w, at)
	if g.theres.n != 1 || g.backs.n != 1 || g.theres.slack().Round(time.Millisecond) != 80*time.Millisecond {
		t.Errorf("%d and %d ways were learned, slack is %v", g.theres.n, g.backs.n, g.theres.slack())
	}
}
