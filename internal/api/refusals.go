package api

import (
	"sync"
	"time"
)

const (
	refusalsMax = 10_000    // destinations whose refusals are counted
	longestWait = time.Hour // told to any caller
)

// refusals counts what was refused within the last second, so that callers
// told to wait do not return together: each is sent behind those before it.
type refusals struct {
	now func() time.Time

	mu    sync.Mutex
	lanes map[string]*refusalCount
}

// refusalCount estimates a sliding second from two fixed ones.
type refusalCount struct {
	second       int64
	this, before float64
}

// wait counts one refusal and says when the caller may come back: when the
// next place is free, and the places of those refused before it are gone.
func (r *refusals) wait(destination string, next time.Duration, drainPerSecond float64) time.Duration {
	ahead := r.count(destination)
	wait := max(next, 0)
	if drainPerSecond > 0 {
		// Compared as a float: a huge quotient overflows a Duration.
		spread := ahead / drainPerSecond
		if spread >= longestWait.Seconds() {
			return longestWait
		}
		wait += time.Duration(spread * float64(time.Second))
	}
	return min(wait, longestWait)
}

// count adds a refusal and gives how many came before it in the last second.
func (r *refusals) count(destination string) float64 {
	now := r.now()
	second := now.Unix()
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.lanes[destination]
	if c == nil {
		r.makeRoom(second)
		c = &refusalCount{second: second}
		r.lanes[destination] = c
	}
	switch second {
	case c.second:
	case c.second + 1:
		c.before, c.this, c.second = c.this, 0, second
	default:
		c.before, c.this, c.second = 0, 0, second
	}
	share := 1 - float64(now.Nanosecond())/float64(time.Second)
	ahead := c.this + c.before*share
	c.this++
	return ahead
}

// makeRoom drops counts that have run out, or else any one.
func (r *refusals) makeRoom(second int64) {
	if len(r.lanes) < refusalsMax {
		return
	}
	for name, c := range r.lanes {
		if c.second < second-1 {
			delete(r.lanes, name)
		}
	}
	for name := range r.lanes {
		if len(r.lanes) < refusalsMax {
			return
		}
		delete(r.lanes, name)
	}
}
