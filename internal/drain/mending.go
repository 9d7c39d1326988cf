package drain

import (
	"strconv"
	"time"
)

// fightFor is for how long a worker remembers that it moved a shard's clock.
const fightFor = 10 * time.Minute

// mending is the last move of a shard's clock that this worker asked for, and
// between which bounds the time of Redis, without adj, was then behind ours.
type mending struct {
	from         int64 // adj before it, µs
	at           time.Duration
	lower, upper int64 // monotonic − TIME, µs
}

// mended is a move of which the reply tells that came at rep.
func mended(from int64, req, rep time.Duration, raw int64) mending {
	return mending{from: from, at: rep, lower: req.Microseconds() - raw, upper: rep.Microseconds() - raw}
}

// outdated says that the clock of Redis was set again since the move: whoever
// then finds adj back where it was meets another step, and nobody undid anything.
func (m mending) outdated(req, rep time.Duration, raw int64) bool {
	lower, upper := req.Microseconds()-raw, rep.Microseconds()-raw
	return max(lower-m.upper, m.lower-upper) > stepSize.Microseconds()
}

// heard looks at each reply of a shard before anything is concluded from it.
func (lp *loop) heard(shard int, req, rep time.Duration, logical int64, adj string) {
	if lp.mended[shard].outdated(req, rep, logical-micros(adj)) {
		lp.mended[shard] = mending{}
	}
}

// micros reads adj as a script wrote it.
func micros(adj string) int64 {
	n, _ := strconv.ParseInt(adj, 10, 64) // a script writes nothing else
	return n
}

// stepped tells of a step that was mended.
func (lp *loop) stepped(shard int, move int64) {
	lp.d.cfg.Metrics.clockSteps.Inc()
	lp.d.log.Warn("the clock of Redis stepped and was mended", "shard", shard, "move_us", move)
}

// undone says that somebody moved the clock back to where it was: two workers
// whose clocks disagree would go on moving it for ever.
func (m mending) undone(adj string, now time.Duration) bool {
	if m.at == 0 || now-m.at > fightFor {
		return false
	}
	a := micros(adj)
	return max(a-m.from, m.from-a) < stepSize.Microseconds()
}
