package drain

import (
	"time"

	"tundish/internal/queue"
)

const (
	// minAsk is how many jobs a lane of which nothing is known asks for; one
	// that gets all it asked for asks for twice as many next time.
	minAsk = 8
	// starvedFor is for how long a worker leaves due lanes to others after it
	// had to give one back for want of senders.
	starvedFor = 50 * time.Millisecond
)

// senders counts the senders of a worker: those in use, and those kept for
// what turns under way have asked for. Together they never exceed total.
type senders struct {
	total, used, asked int
}

// share is how many more a lane may get that has busy of them: with these it
// holds at most as many as remain free. So N lanes that hang come to hold
// 1/(N+1) each, and never all.
func (s *senders) share(busy int) int {
	if s.used+s.asked == 0 {
		return max(s.total/2, 1) // a worker with one sender works too
	}
	return max(0, (s.total-s.used-s.asked-busy)/2)
}

// spoken says that a lane gets nothing only because turns under way have asked:
// most of that comes back with their replies.
func (lp *loop) spoken(l *lane) bool {
	s := &lp.senders
	without := senders{total: s.total, used: s.used}
	return s.asked > 0 && lp.share(l) == 0 && without.share(l.busy) > 0
}

// share is how many more senders the lane may ask for. The turns of a group ask for
// at most as many as remain: those of a node that hangs must not keep all from the others.
func (lp *loop) share(l *lane) int {
	if len(lp.groups) == 1 {
		return lp.senders.share(l.busy)
	}
	return lp.senders.share(max(l.busy, l.group.asked))
}

// ask reserves senders for a turn of the lane. short says that they were fewer
// than it could use.
func (lp *loop) ask(l *lane) (want int, short bool) {
	want = min(lp.share(l), l.appetite)
	lp.senders.asked += want
	l.group.asked += want
	return want, want < l.appetite
}

// got ends the reservation of a turn, which gave n jobs.
func (lp *loop) got(l *lane, want, n int, done bool) {
	lp.senders.asked -= want
	l.group.asked -= want
	switch {
	case want == 0 || !done:
	case n >= want:
		l.appetite = min(2*l.appetite, queue.MaxLease)
	default:
		l.appetite = min(max(2*n, minAsk), queue.MaxLease)
	}
}
