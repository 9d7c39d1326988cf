package drain

import (
	"container/heap"
	"time"
)

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
	old[len(old)-1] = nil
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

// hasten plans a turn at a time unless an earlier one is planned. A pause after
// a failure holds: results that come meanwhile must not hurry it.
func (a *agenda) hasten(l *lane, at time.Duration) {
	at = max(at, l.notBefore)
	if l.next == never || at < l.next {
		a.plan(l, at)
	}
}

// pause puts the next turn of a lane off after a failure.
func (a *agenda) pause(l *lane, until time.Duration) {
	l.notBefore = until
	if l.next != never {
		a.plan(l, max(l.next, until))
	}
}
