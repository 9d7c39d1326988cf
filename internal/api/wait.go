package api

import (
	"context"
	"sync"
	"time"

	"tundish/internal/job"
)

// ending is how the door sees that a job has ended: a look so cheap that it can be repeated.
type ending interface {
	// Ended says whether the job is no longer live.
	Ended(ctx context.Context, destination string, id job.ID) (bool, error)
}

const (
	// maxWaiters bounds the requests that wait for the end of their job. With
	// the longest pause they ask Redis for 4,000 looks a second, of which it
	// answers many times as many.
	maxWaiters = 1000
	// A look follows the one before it after a pause that grows: a job that is
	// sent at once is seen at once, and one that waits costs little.
	firstPause, longestPause = 5 * time.Millisecond, 250 * time.Millisecond
)

// waiters are the requests that wait for the end of their job.
type waiters struct {
	store ending
	seats chan struct{}
	ended chan struct{} // closed: nobody waits any longer
	stop  func()
}

func newWaiters(store ending) *waiters {
	w := &waiters{store: store, seats: make(chan struct{}, maxWaiters), ended: make(chan struct{})}
	w.stop = sync.OnceFunc(func() { close(w.ended) })
	return w
}

// wait returns when the job has ended, the time is over, the caller has left or
// waits end. It says whether the job has ended and whether it waited at all,
// which it does not when too many wait already. old: the job may have ended before.
func (w *waiters) wait(ctx context.Context, destination string, id job.ID, most time.Duration, old bool) (ended, waited bool) {
	select {
	case w.seats <- struct{}{}:
		defer func() { <-w.seats }()
	default:
		return false, false
	}
	deadline := time.Now().Add(most)
	pause := firstPause
	if old {
		pause = 0
	}
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return false, true
		}
		select {
		case <-time.After(min(pause, left)):
		case <-w.ended:
			return false, false
		case <-ctx.Done():
			return false, false
		}
		// An error is no end: Redis may answer again before the time is over.
		if ended, err := w.look(ctx, destination, id, left); err == nil && ended {
			return true, true
		}
		pause = min(max(firstPause, pause*3/2), longestPause)
	}
}

// look asks the store, for no longer than makes sense.
func (w *waiters) look(ctx context.Context, destination string, id job.ID, left time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, max(left, longestPause), errStoreSlow)
	defer cancel()
	return w.store.Ended(ctx, destination, id)
}
