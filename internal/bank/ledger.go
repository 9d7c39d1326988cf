package bank

import "sync"

// chunkSize arrivals are allocated at once: appending never copies what is
// there, so no request waits for it.
const chunkSize = 4096

// ledger keeps the latest arrivals. It forgets whole chunks, the oldest first.
type ledger struct {
	keep int

	mu        sync.Mutex
	chunks    [][]Arrival
	forgotten int64
}

func (l *ledger) add(a Arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.chunks) - 1
	if last < 0 || len(l.chunks[last]) == cap(l.chunks[last]) {
		l.grow()
		last = len(l.chunks) - 1
	}
	l.chunks[last] = append(l.chunks[last], a)
}

// grow adds a chunk, in place of the oldest when another would be too many.
func (l *ledger) grow() {
	size := min(chunkSize, max(1, l.keep/8))
	if (len(l.chunks)+1)*size > l.keep {
		l.forgotten += int64(len(l.chunks[0]))
		l.chunks[0] = nil
		l.chunks = l.chunks[1:]
	}
	l.chunks = append(l.chunks, make([]Arrival, 0, size))
}

// all is a copy of the arrivals, in the order in which they were answered, and
// how many older ones are forgotten. The lock is held only to note how far the
// chunks go: an entry never changes once it is there.
func (l *ledger) all() ([]Arrival, int64) {
	l.mu.Lock()
	chunks := append([][]Arrival(nil), l.chunks...)
	forgotten := l.forgotten
	l.mu.Unlock()
	n := 0
	for _, c := range chunks {
		n += len(c)
	}
	arrivals := make([]Arrival, 0, n)
	for _, c := range chunks {
		arrivals = append(arrivals, c...)
	}
	return arrivals, forgotten
}

func (l *ledger) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chunks, l.forgotten = nil, 0
}
