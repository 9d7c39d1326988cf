package drain

import (
	"testing"
	"time"
)

func TestDeliversAtTheRate(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 200)
		w.start()
		w.run(5 * time.Second)
		w.want(l, "delivered", 200)
		writes := w.writes()
		for i := 1; i < len(writes); i++ {
			if gap := writes[i].at.Sub(writes[i-1].at); gap < 14*time.Millisecond {
				t.Fatalf("writes %d and %d are %s apart, slots 20ms with a tolerance of 5ms", i-1, i, gap)
			}
		}
		if took := writes[len(writes)-1].at.Sub(writes[0].at); took > 4200*time.Millisecond {
			t.Errorf("200 jobs at 50/s took %s", took)
		}
	})
}
