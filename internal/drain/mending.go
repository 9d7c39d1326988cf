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
	from, err := strconv.ParseInt(v.Confirmed, 10, 64)
	if err != nil || v.Move == 0 {
		return mending{} // the script mended a step backward by itself
	}
	return mending{from, at}
}

// undone says that somebody moved the clock back to where it was: two workers
// whose clocks disagree would go on moving it for ever.
func (m mending) undone(adj string, now time.Duration) bool {
	if m.at == 0 || now-m.at > fightFor {
		return false
	}
	a, err := strconv.ParseInt(adj, 10, 64)
	return err == nil && max(a-m.from, m.from-a) < stepSize.Microseconds()
}
