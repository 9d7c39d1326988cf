package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tundish/internal/bank"
	queues "tundish/internal/queue" // queue is a name of the rig
	"tundish/internal/redisdb"
	"tundish/internal/redistest"
)

// BenchmarkRateOfScripts asks the scripts for slots of slow limits, with a
// Redis in memory whose clock is set to each moment at which they want a look.
func BenchmarkRateOfScripts(b *testing.B) {
	s := &section{file: "14-rate-scripts", title: "Slow rates, by the scripts",
		about: "The scripts of the lane on a Redis in memory whose clock is set from look to look: what the spacing itself uses of a rate. " +
			"The guard is 0.5 % of the window, at most a second. *Worst* is the most slots in one window and its tolerance.",
		head: []string{"rate", "slots", "use", "worst window", "looks/slot", "bar"}}
	for _, c := range []struct {
		rate int64
		per  time.Duration
	}{{1, time.Minute}, {7, 11 * time.Minute}, {1, 24 * time.Hour}, {100, 24 * time.Hour}} {
		b.Run(fmt.Sprintf("%d-per-%s", c.rate, c.per), func(b *testing.B) {
			n := either(20, 300)
			var slots []int64
			looks := 0
			for b.Loop() {
				slots, looks = slotsOf(b, c.rate, c.per, n)
			}
			tolerance := min(c.per/200, time.Second)
			use, worst := bank.Use(slots, c.rate, c.per), bank.Worst(slots, c.per+tolerance)
			s.row(fmt.Sprintf("%s per %s", count(c.rate), short(c.per)), count(len(slots)), fmt.Sprintf("%.4f %%", 100*use),
				fmt.Sprintf("%s / %s", count(worst), count(c.rate)), fmt.Sprintf("%.2f", float64(looks)/float64(len(slots))),
				bar(use >= leastRateUse && int64(worst) <= c.rate, "≥ %.0f %%, never above", 100*leastRateUse))
		})
	}
	s.publish(b)
}

// slotsOf takes n slots of a limit and answers them, ns, and how many looks that took.
func slotsOf(b *testing.B, rate int64, per time.Duration, n int) (slots []int64, looks int) {
	b.Helper()
	mini := redistest.Mini(b)
	db, err := redisdb.Open(context.Background(), redisdb.Config{URL: redistest.MiniURL(mini), CallTimeout: 20 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	l := &lanes{TB: b, db: db, store: queues.New(db)}
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	mini.SetTime(now)
	l.apply("bank", "https://bank.example/", rate, per, roomy)
	l.push("bank", newJobs(n, bodyOf(smallBody), nil))
	var results []queues.Result
	for len(slots) < n && looks < 10*n {
		looks++
		r := l.store.Turns(context.Background(), "w1", []queues.Turn{{Lane: "bank", Call: uint64(looks), Want: 10, Ahead: 100 * time.Millisecond, Result: results}})[0]
		if r.Err != nil {
			b.Fatal(r.Err)
		}
		for _, lease := range r.Leases {
			slots = append(slots, lease.Slot*int64(time.Microsecond))
		}
		results = delivered(r.Leases)
		now = time.UnixMicro(max(r.Look, now.UnixMicro()))
		mini.SetTime(now)
	}
	if len(slots) < n {
		b.Errorf("%d slots of %d after %d looks", len(slots), n, looks)
	}
	return slots, looks
}
