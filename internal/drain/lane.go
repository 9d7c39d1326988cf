package drain

import (
	"container/heap"
	"sync/atomic"
	"time"

	"tundish/internal/destination"
	"tundish/internal/queue"
)

// never is a look that is not planned.
const never = time.Duration(-1)

// lane is what the worker knows of a lane it holds or owes results to.
// The loop owns it; attempts read only epoch.
type lane struct {
	name  string
	shard int

	holding bool          // it looks by its own timer
	since   time.Duration // when it was claimed
	next    time.Duration // next turn, monotonic; never: none planned
	index   int           // in the heap; -1: not there
	turning bool
	again   bool // a wake came while it was turning

	results []queue.Result
	busy    int // senders that its jobs occupy
	lost    []queue.LostCall
	myLast  int64

	epoch      atomic.Int64
	contract   *destination.Contract
	version    int64
	fetching   bool
	waiting    []granted // leases that wait for the contract
	tolerance  time.Duration
	timeout    time.Duration
	confirmed  string // adj for which a step forward was seen
	move       int64
	clockTries int
}

// granted is a lease with what the turn said about it.
type granted struct {
	queue.Lease
	epoch     int64
	tolerance time.Duration
	timeout   time.Duration
}

// idle says that nothing of the lane is left to do here.
func (l *lane) idle() bool {
	return !l.holding && !l.turning && !l.fetching && l.busy == 0 && len(l.results) == 0 && len(l.lost) == 0
}

// agenda orders lanes by their next turn.
type agenda []*lane

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].next < a[j].next }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

func (a *agenda) Push(x any) {
	l := x.(*lane)
	l.index = len(*a)
	*a = append(*a, l)
}

func (a *agenda) Pop() any {
	old := *a
	l := old[len(old)-1]
	l.index = -1
	*a = old[:len(old)-1]
	return l
}

// plan sets the next turn of a lane.
func (a *agenda) plan(l *lane, at time.Duration) {
	l.next = at
	switch {
	case at == never && l.index >= 0:
		heap.Remove(a, l.index)
	case at == never:
	case l.index >= 0:
		heap.Fix(a, l.index)
	default:
		heap.Push(a, l)
	}
}

// hasten plans a turn at a time unless an earlier one is planned.
func (a *agenda) hasten(l *lane, at time.Duration) {
	if l.next == never || at < l.next {
		a.plan(l, at)
	}
}
