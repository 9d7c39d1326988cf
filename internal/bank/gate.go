package bank

import (
	"slices"
	"sync"
	"time"
)

// gate admits at most allowed requests into any half-open window. What it
// refuses takes no place: a flood does not shut out what is within the rate.
type gate struct {
	window  int64
	allowed int

	mu       sync.Mutex
	admitted []int64 // stamps in order, at least the latest 2 × allowed
}

func newGate(allowed int64, window time.Duration) *gate {
	return &gate{window: int64(window), allowed: int(allowed)}
}

// admit says whether the request stamped at fits, and otherwise how long until
// one would. Handlers run in another order than their requests were read in,
// so at may lie before stamps that were admitted already.
func (g *gate) admit(at int64) (ok bool, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	place := len(g.admitted)
	for place > 0 && g.admitted[place-1] > at {
		place--
	}
	if g.wouldOverflow(at, place) {
		oldest := g.admitted[len(g.admitted)-g.allowed]
		return false, max(0, time.Duration(oldest+g.window-at))
	}
	g.admitted = slices.Insert(g.admitted, place, at)
	g.trim()
	return true, 0
}

// wouldOverflow looks at every run of allowed + 1 stamps that would hold at.
func (g *gate) wouldOverflow(at int64, place int) bool {
	for first := max(0, place-g.allowed); first <= min(place, len(g.admitted)-g.allowed); first++ {
		begin, end := at, at
		if first < place {
			begin = g.admitted[first]
		}
		if last := first + g.allowed; last > place {
			end = g.admitted[last-1]
		}
		if end-begin < g.window {
			return true
		}
	}
	return false
}

// trim forgets what no request that is less than a window late can meet.
func (g *gate) trim() {
	keep := 2*g.allowed + 64
	if len(g.admitted) >= 2*keep {
		g.admitted = slices.Delete(g.admitted, 0, len(g.admitted)-keep)
	}
}

func (g *gate) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admitted = g.admitted[:0]
}
