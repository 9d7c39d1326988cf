package drain

import (
	"slices"
	"time"

	"tundish/internal/queue"
)

const (
	mostTurns   = 4 * queue.MaxClaim
	fewestTurns = 32
	// queuing is how long calls may wait for others in Redis. Longer, and slots are over
	// when they arrive here, and a late call looks like a step of the clock: both are
	// done again, which makes Redis slower still.
	queuing = 20 * time.Millisecond
)

// flow bounds how many turns of a group are under way. One Redis does one after
// the other: what it cannot do yet waits here, where turns are asked for when they
// are sent, and not there, where they grow old. While most calls wait for long
// fewer and fewer are under way, else more and more. A single late call says
// nothing: a busy machine or a link makes such as well.
type flow struct {
	under  int
	room   float64
	waits  [9]time.Duration // of the last calls
	n      int
	change time.Duration // when the room was made smaller last
}

func (f *flow) free() int { return int(f.room) - f.under }

func (f *flow) begin(turns int) { f.under += turns }

// end takes in how long turns had to wait.
func (f *flow) end(turns int, queued, now time.Duration) {
	full := f.free() <= 0
	f.under -= turns
	f.waits[f.n%len(f.waits)] = queued
	f.n++
	sorted := f.waits
	slices.Sort(sorted[:])
	switch most := sorted[len(sorted)/2]; {
	case most <= queuing/2 && full:
		f.room = min(f.room+float64(turns)/f.room, mostTurns)
	case most > queuing && now-f.change > most: // once for those that were under way together
		f.room, f.change = max(f.room*3/4, fewestTurns), now
	}
}

// queued is how much longer than the best trip a call took.
func (lp *loop) queued(shard int, req, rep time.Duration) time.Duration {
	_, width, ok := lp.clocks[shard].Expect(rep)
	if !ok {
		return 0
	}
	return max(0, rep-req-time.Duration(width)*time.Microsecond)
}
