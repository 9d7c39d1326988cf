package drain

import (
	"testing"
	"time"
)

// TestSlowLinkUsesTheRate: how far away Redis is must not cost much of the rate,
// neither while a lane is kept nor when it is handed over.
func TestSlowLinkUsesTheRate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		latency time.Duration // each way
		often   time.Duration // more in front of nine calls of ten
		want    float64
	}{
		"2ms":             {latency: time.Millisecond, want: 0.99},
		"6ms":             {latency: 3 * time.Millisecond, want: 0.99},
		"30ms":            {latency: 15 * time.Millisecond, want: 0.985},
		"60ms":            {latency: 30 * time.Millisecond, want: 0.97},
		"often 70ms late": {latency: 100 * time.Microsecond, often: 70 * time.Millisecond, want: 0.95},
	} {
		for _, rate := range []int64{50, 500} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				inWorld(t, func(w *world) {
					w.cfg.Concurrency = 1000
					w.lane("bank", int(rate*12), func(l *fakeLane) { l.interval = 1_000_000 / rate })
					w.store.latency = c.latency
					calls := 0
					w.store.stall = func(string, string) time.Duration {
						if calls++; calls%10 == 0 {
							return 0
						}
						return c.often
					}
					w.start()
					w.run(10 * time.Second)
					if use := float64(len(w.writes())) / float64(10*rate); use < c.want || use > 1.002 {
						t.Errorf("%.1f %% of %d/s were used, want %.1f %%", 100*use, rate, 100*c.want)
					}
				})
			})
		}
	}
}
