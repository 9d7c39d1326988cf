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
