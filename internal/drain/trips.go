package drain

import (
	"slices"
	"time"

	"tundish/internal/redisdb"
)

// trips keeps how long the last trips to Redis took.
type trips struct {
	last [32]time.Duration
	n    int
	p90  time.Duration
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
// job to arrive here in time, of trips from script to reply. Half of the tolerance
// is for those that arrive later, and where slots are short of turns each µs of
// lead is lost; the other half is for the write.
func (t *trips) lead(tolerance time.Duration) time.Duration {
	return min(max(t.p90-tolerance/2, minLead), maxLead)
}

// slack is by how much a call may run later than it could without that being
// taken for a step of the clock, of trips from call to script: where each waits
// for others, each would be refused, and made again.
func (t *trips) slack() time.Duration { return min(t.p90, maxSlack) }

// ways are how long a call was on its way to its script, from when it was decided on, and
// its reply from there to here, until it was dealt with: where a worker lacks processor
// time, calls and replies wait in it. Of calls that go together the longest count.
type ways struct {
	there, back time.Duration
	known       bool
}

// add takes in a reply that came at rep, unless the clock is not known by which it tells anything.
func (w *ways) add(lp *loop, shard int, logical int64, decided, req, rep time.Duration) {
	if step, known := lp.clocks[shard].Step(req, rep, logical); !known || step != 0 {
		return
	}
	at := min(max(lp.moment(shard, logical, rep), req), rep)
	w.there, w.back, w.known = max(w.there, at-decided), max(w.back, redisdb.Monotonic()-at), true
}

// learn keeps the ways of calls that went together.
func (g *group) learn(w ways, now time.Duration) {
	if w.known {
		g.theres.add(w.there)
		g.backs.add(w.back)
		g.learnt = now
	}
}

// horizon is how far ahead slots are asked for.
func (t *trips) horizon() time.Duration {
	return min(max(minHorizon, 4*t.p90), maxHorizon)
}

// lags keeps by how much the last writes were behind the earliest moment of
// their slots, those included that were too late to be made. On a machine that
// is short of processor time this is what a slot must tolerate.
type lags struct {
	last [256]time.Duration
	n    int
	p99  time.Duration
}

func (g *lags) add(d time.Duration) {
	g.last[g.n%len(g.last)] = max(0, d)
	g.n++
	if g.n%32 != 0 {
		return
	}
	sorted := g.last
	n := min(g.n, len(g.last))
	slices.Sort(sorted[:n])
	g.p99 = sorted[n*99/100]
}

// marksFor is how long slots of a lane are granted further ahead after a job
// that crashed before was handed out: its mark needs a round trip before its slot.
const marksFor = 10 * time.Second

// lead is that of the way back, and three of it while jobs of the lane need marks.
func (lp *loop) lead(l *lane, now time.Duration) time.Duration {
	lead := l.group.backs.lead(l.tolerance)
	if l.marks > 0 && now-l.marks < marksFor {
		lead = 3 * l.group.backs.lead(0)
	}
	return min(lead, maxLead)
}

// handOver is how much further ahead slots are asked for when the lane is let
// go: whoever takes it must be found by a claim first, and may look late.
func (t *trips) handOver() time.Duration { return 2*t.p90 + minSpread }

// ahead is how far ahead slots are asked for with a lead. The next look comes
// half of it before the next slot, so it must be twice the lead, or that look
// would come too late for its own first slot.
func (t *trips) ahead(lead time.Duration) time.Duration {
	return max(t.horizon(), 2*lead)
}
