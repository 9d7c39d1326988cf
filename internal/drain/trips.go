package drain

import (
	"slices"
	"time"

	"tundish/internal/redisdb"
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

// lagFor is how long slots are granted further ahead after one died.
const lagFor = 10 * time.Second

// lead is that of the round trip, and more for a lane of which a slot died just
// now: what made it late may be there each time, as the mark that a job which
// crashed once needs before its slot.
func (lp *loop) lead(l *lane, now time.Duration) time.Duration {
	l.late = false
	if now-l.lagged > lagFor {
		l.lag = 0
	}
	return min(lp.trips.lead()+l.lag, maxLead)
}

// ahead is how far ahead slots are asked for with a lead. The next look comes
// half of it before the next slot, so it must be twice the lead, or that look
// would come too late for its own first slot.
func (t *trips) ahead(lead time.Duration) time.Duration {
	return max(t.horizon(), 2*lead)
}

// lagBehind raises the lead of a lane, once for all slots that died since a turn.
func (lp *loop) lagBehind(l *lane) {
	if !l.late {
		l.late, l.lagged = true, redisdb.Monotonic()
		l.lag = min(max(2*l.lag, lp.trips.lead()), maxLead)
	}
}
