package queue

import (
	"testing"
	"time"
)

// A worker short of senders keeps the lane while what was granted reaches beyond
// half of the horizon, and leaves it to others when it does not.
func TestShortOfSenders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, want int // jobs granted before, and asked for
		why          string
		entry        time.Duration // of the lane, from now: at least, and less than 60 ms more
	}{
		"a few, nothing ahead":    {0, 3, "senders", 0},
		"none, nothing ahead":     {0, 0, "senders", 0},
		"a few, enough ahead":     {60, 3, "slot", 50 * time.Millisecond},
		"none, enough ahead":      {60, 0, "slot", 50 * time.Millisecond},
		"a few, not enough ahead": {30, 3, "senders", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, "miniredis")
			now := time.UnixMicro(1_790_000_000_000_000)
			b.mini.SetTime(now)
			b.apply(perSecond(1000), `"max_in_flight":1000`)
			b.accept(newJobs(200, "")...)
			turn := func(want int, short bool) TurnReply {
				return b.turnAs("w1", Turn{Want: want, Short: short, Keep: true, Ahead: 100 * time.Millisecond})
			}
			if c.before > 0 {
				if r := turn(c.before, false); len(r.Leases) != c.before {
					t.Fatalf("%d leases before, want %d: %s", len(r.Leases), c.before, r.Why)
				}
			}
			r := turn(c.want, true)
			if r.Why != c.why || len(r.Leases) != c.want {
				t.Errorf("%d leases, %s; want %d, %s", len(r.Leases), r.Why, c.want, c.why)
			}
			due, err := b.db.Client().ZScore(t.Context(), b.keys.Due(), b.lane).Result()
			if ahead := time.Duration(due-float64(now.UnixMicro())) * time.Microsecond; err != nil || ahead < c.entry || ahead > c.entry+60*time.Millisecond {
				t.Errorf("the entry lies %s ahead, want about %s: %v", ahead, c.entry, err)
			}
		})
	}
}
