package drain

import (
	"slices"
	"time"

	"tundish/internal/queue"
)

const (
	mostTurns   = 4 * queue.MaxClaim
	fewestTurns = 16
	// queuing is how long calls may wait for others in Redis. Longer, and slots are over
	// when they arrive here, and a late call looks like a step of the clock: both are
	// done again, which makes Redis slower still.
	queuing = 20 * time.Millisecond
	// settled is how many calls show what the last change of the room did.
	settled = 32

	// Calls that take long wait for others, or the way has become longer. What they
	// take with next to nothing under way tells, if all workers that wonder try it at
	// the same time, by the clock of Redis: each alone would take the turns of the
	// others for the way, and all would ask for more and more.
	tryEvery = 5 * time.Second
	tryFor   = 300 * time.Millisecond
	tryTurns = fewestTurns / 2
)

// flow bounds how many turns of a group are under way. One Redis does one after
// the other: what it cannot do yet waits here, where turns are asked for when they
// are sent, and not there, where they grow old. While most calls wait for long
// fewer and fewer are under way, else more and more. A few late calls say nothing:
// a busy machine or a link makes such as well.
type flow struct {
	under    int
	room     float64
	last     [33]time.Duration // trips since the room was made smaller
	n        int
	trip     time.Duration // their median
	base     time.Duration // what calls take that wait for nothing
	strained bool          // calls took unusually long, or short, since the last try
	trying   bool
	tried    time.Duration // when the try began
}

func (f *flow) free() int {
	if f.trying {
		return tryTurns - f.under
	}
	return int(f.room) - f.under
}

func (f *flow) begin(turns int) { f.under += turns }

// first takes the trip of a call for a usual one before there were turns.
func (f *flow) first(trip time.Duration) {
	if f.base == 0 {
		f.base = trip
	}
}

// fail ends turns that nothing is learned from.
func (f *flow) fail(turns int) { f.under -= turns }

// end takes in how long turns were under way; phase is how long ago all workers
// could begin to try.
func (f *flow) end(turns int, trip, now, phase time.Duration) {
	full := f.free() <= 0
	f.under -= turns
	switch {
	case f.trying:
		f.try(trip, now, phase)
		return
	case f.strained && phase < tryFor/3:
		f.trying, f.tried, f.n = true, now-phase, 0
		return
	}
	f.took(trip)
	queued, most := f.trip-f.base, queuing+f.base/4 // a long way also differs by more
	f.strained = f.strained || queued.Abs() > most/2
	switch {
	case f.n < settled:
	case full && queued <= most/2:
		f.room = min(f.room+float64(turns)/16, mostTurns)
	case queued > most:
		f.room, f.n = max(f.room*3/4, fewestTurns), 0
	}
}

// try takes what calls take that were made when those before them were through.
func (f *flow) try(trip, now, phase time.Duration) {
	if now-trip >= f.tried+tryFor/3 {
		f.took(trip)
	}
	if phase < tryFor {
		return
	}
	if f.n >= 2 {
		f.base, f.strained = f.trip, false
	}
	f.trying, f.n = false, 0
}

// took follows the median of the last trips.
func (f *flow) took(trip time.Duration) {
	f.last[f.n%len(f.last)] = trip
	f.n++
	sorted, n := f.last, min(f.n, len(f.last))
	slices.Sort(sorted[:n])
	f.trip = sorted[n/2]
}

// phase is how long ago by the clock of Redis workers could begin to try how long calls take.
func (lp *loop) phase(shard int, now time.Duration) time.Duration {
	logical, _, ok := lp.clocks[shard].Expect(now)
	if !ok {
		return tryFor
	}
	return time.Duration(logical) * time.Microsecond % tryEvery
}

// showRoom tells of the group with the least room.
func (lp *loop) showRoom() {
	least := float64(mostTurns)
	for _, g := range lp.groups {
		least = min(least, g.flow.room)
	}
	lp.d.cfg.Metrics.room.Set(float64(int(least)))
}
