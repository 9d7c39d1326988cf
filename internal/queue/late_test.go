package queue

import (
	"testing"
	"time"
)

// What a worker says of its lateness widens the tolerance of the lane, and
// with it the spacing of slots, by at most a hundredth and a half of the window.
func TestLatenessCountsIntoTheTolerance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ late, want time.Duration }{
		{0, 5 * time.Millisecond},
		{3 * time.Millisecond, 5 * time.Millisecond}, // the guard's tolerance holds it
		{8 * time.Millisecond, 8 * time.Millisecond},
		{time.Second, 15 * time.Millisecond},
	} {
		b := openBench(t, "redis")
		b.apply(perSecond(50), "")
		b.accept(newJobs(5, "")...)
		r := b.s.Turns(t.Context(), "w", []Turn{{Lane: b.lane, Call: 1, Want: 5, Ahead: 100 * time.Millisecond, Late: c.late}})[0]
		if r.Err != nil || r.Tolerance != c.want {
			t.Errorf("late by %v: tolerance %v, %v; want %v", c.late, r.Tolerance, r.Err, c.want)
		}
		if len(r.Leases) < 2 {
			t.Fatalf("late by %v: %d leases", c.late, len(r.Leases))
		}
		gap := time.Duration(r.Leases[1].Slot-r.Leases[0].Slot) * time.Microsecond
		if want := (time.Second + c.want) / 50; gap != want {
			t.Errorf("late by %v: slots %v apart, want %v", c.late, gap, want)
		}
	}
}
