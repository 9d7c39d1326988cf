package drain

import (
	"strconv"
	"time"

	"tundish/internal/queue"
)

// fightFor is for how long a worker remembers that it moved a shard's clock.
const fightFor = 10 * time.Minute

// mending is the last move of a shard's clock that this worker asked for.
type mending struct {
	from int64 // adj before it, µs
	at   time.Duration
}

func mended(v queue.ClockView, at time.Duration) mending {
	if v.Confirmed == "" || v.Move == 0 {
		return mending{} // the script mended a step backward by itself
	}
	return mending{micros(v.Confirmed), at}
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
