package drain

import (
	"slices"
	"time"
)

// trips keeps the last round trips to Redis.
type trips struct {
	last [64]time.Duration
	n    int
	p90  time.Duration // nine of ten stay below it
}

func (t *trips) add(d time.Duration) {
	t.last[t.n%len(t.last)] = d
	t.n++
	sorted := t.last
	n := min(t.n, len(t.last))
	slices.Sort(sorted[:n])
	t.p90 = sorted[n*9/10]
}

// lead is how far ahead of the script's time the first slot must be for its
// job to arrive here in time. A later arrival still has the tolerance.
func (t *trips) lead() time.Duration {
	return min(max(t.p90, minLead), minHorizon/2)
}

// horizon is how far ahead slots are asked for.
func (t *trips) horizon() time.Duration {
	return min(max(minHorizon, 4*t.p90), maxHorizon)
}
