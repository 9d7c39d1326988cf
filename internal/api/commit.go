package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// pusher stores jobs; results go by position.
type pusher interface {
	PushDurable(ctx context.Context, name string, d destination.Durability, jobs []*job.Job) ([]queue.PushResult, error)
}

// The bounds of one call, which are those of the store's script, and of what
// may wait in this process.
const (
	callJobs     = queue.MaxPush
	callBytes    = queue.MaxPushBytes
	waitingJobs  = 10_000
	waitingBytes = 64 << 20
	callTimeout  = 3 * time.Second
)

// committer joins concurrent pushes to one destination: while a call of the
// store is under way the next pushes gather, and go together in the next one.
// There is at most one call per destination. A push that finds none under way
// makes it itself: handing it to a goroutine costs a lone caller two wake-ups.
// There is a goroutine only where pushes have gathered.
//
// Calls run under the server's context: a caller that goes away must not fail
// the others.
type committer struct {
	store   pusher
	base    context.Context //nolint:containedctx // a shared call belongs to no caller
	timeout time.Duration
	onPanic func(reason any)

	mu     sync.Mutex
	lanes  map[string][]*entryGroup // what waits; present while a call is under way
	jobs   int
	bytes  int64
	closed bool
	wait   sync.WaitGroup
}

// entryGroup is what one caller pushes in one call: it is never split.
type entryGroup struct {
	durable destination.Durability
	jobs    []*job.Job
	bytes   int64
	until   time.Time // the caller gives up then
	left    bool      // it has
	begun   bool      // its call is or was under way
	results []queue.PushResult
	err     error
	done    chan struct{} // nil when the caller makes the call
}

// push stores the jobs and gives one result each. At most callJobs jobs and,
// unless it is one job, callBytes may be pushed at once: see split.
func (c *committer) push(ctx context.Context, contract *destination.Contract, jobs []*job.Job) ([]queue.PushResult, error) {
	g := &entryGroup{durable: contract.Durability, jobs: jobs, bytes: bodyBytes(jobs)}
	first, err := c.enter(contract.Name, g)
	if err != nil {
		return nil, err
	}
	if first {
		defer c.wait.Done()
		c.makeCall(contract.Name, []*entryGroup{g}, jobs)
		c.handOver(contract.Name)
		return g.results, g.err
	}
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	select {
	case <-g.done:
		return g.results, g.err
	case <-timer.C:
		return c.leave(ctx, g, errStoreSlow)
	case <-ctx.Done():
		return c.leave(ctx, g, context.Cause(ctx))
	}
}

// enter lets the group wait, or says that too much waits already. The first
// has nothing to wait for and is to make its call.
func (c *committer) enter(destination string, g *entryGroup) (first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false, &job.Error{Code: job.CodeUnavailable, Detail: "the enqueuer stops", Cause: errStopping}
	}
	if c.jobs+len(g.jobs) > waitingJobs || c.bytes+g.bytes > waitingBytes {
		return false, job.Errorf(job.CodeOverloaded, "%d jobs of %d bytes wait for the store already", c.jobs, c.bytes)
	}
	c.jobs += len(g.jobs)
	c.bytes += g.bytes
	queued, running := c.lanes[destination]
	if !running {
		g.begun = true
		c.lanes[destination] = nil
		c.wait.Add(1)
		return true, nil
	}
	g.until, g.done = time.Now().Add(c.timeout), make(chan struct{})
	c.lanes[destination] = append(queued, g)
	return false, nil
}

// handOver lets a goroutine serve what gathered during the first call: its
// caller has its answer and shall not wait for the others'.
func (c *committer) handOver(destination string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lanes[destination]) == 0 {
		delete(c.lanes, destination)
		return
	}
	c.wait.Go(func() { c.serve(destination) })
}

// leave is for a caller that waits no longer. A group whose call has not
// begun is dropped; one under way may have been stored, and holds the bodies.
func (c *committer) leave(ctx context.Context, g *entryGroup, cause error) ([]queue.PushResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-g.done: // the answer came at the same moment
		return g.results, g.err
	default:
		g.left = true
		if g.begun {
			callOf(ctx).keepUntil(g.done)
		} else {
			c.release(g)
		}
		return nil, unconfirmed(cause)
	}
}

// serve makes calls for one destination until nothing waits.
func (c *committer) serve(destination string) {
	for {
		groups, jobs := c.take(destination)
		if groups == nil {
			return
		}
		c.makeCall(destination, groups, jobs)
	}
}

// makeCall asks the store and gives the answers.
func (c *committer) makeCall(destination string, groups []*entryGroup, jobs []*job.Job) {
	results, err := c.call(destination, groups[len(groups)-1].durable, jobs) // the latest is in force
	c.answer(groups, results, err)
}

// take picks the groups of the next call, in order; nil when none is left,
// and then the destination is served no more.
func (c *committer) take(destination string) ([]*entryGroup, []*job.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var groups []*entryGroup
	var jobs []*job.Job
	var size int64
	queued := c.lanes[destination]
	for ; len(queued) > 0; queued = queued[1:] {
		g := queued[0]
		if c.drop(g) {
			queued[0] = nil // the array may live on; the bodies need not
			continue
		}
		if len(jobs) > 0 && (len(jobs)+len(g.jobs) > callJobs || size+pushBytes(g.jobs) > callBytes) {
			break
		}
		g.begun = true
		groups, jobs, size = append(groups, g), append(jobs, g.jobs...), size+pushBytes(g.jobs)
		queued[0] = nil
	}
	if groups == nil {
		delete(c.lanes, destination)
		return nil, nil
	}
	c.lanes[destination] = queued
	return groups, jobs
}

// drop lets go of a group whose caller has left or is about to: what it was
// told is not to become untrue.
func (c *committer) drop(g *entryGroup) bool {
	if g.left { // and was released then
		return true
	}
	if time.Now().Before(g.until) {
		return false
	}
	c.release(g)
	g.err = unconfirmed(errStoreSlow)
	close(g.done)
	return true
}

// release lets go of the jobs: the group may wait on in the queue for its turn
// to be dropped, and they hold what their callers sent.
func (c *committer) release(g *entryGroup) {
	c.jobs -= len(g.jobs)
	c.bytes -= g.bytes
	g.jobs = nil
}

// call asks the store, for at most the timeout.
func (c *committer) call(name string, d destination.Durability, jobs []*job.Job) (results []queue.PushResult, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			c.onPanic(reason)
			results, err = nil, job.Errorf(job.CodeInternal, "the push failed")
		}
	}()
	ctx, cancel := context.WithTimeoutCause(c.base, c.timeout, errStoreSlow)
	defer cancel()
	results, err = c.store.PushDurable(ctx, name, d, jobs)
	if err != nil {
		return nil, storeError(ctx, err)
	}
	if len(results) != len(jobs) {
		return nil, fmt.Errorf("push: %d results for %d jobs", len(results), len(jobs))
	}
	return results, nil
}

// answer gives each caller its part of the results; an error answers all.
func (c *committer) answer(groups []*entryGroup, results []queue.PushResult, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range groups {
		if err == nil {
			g.results, results = results[:len(g.jobs):len(g.jobs)], results[len(g.jobs):]
		}
		g.err = err
		c.release(g)
		if g.done != nil {
			close(g.done)
		}
	}
}

// close refuses new pushes and waits for the calls under way.
func (c *committer) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.wait.Wait()
}

// split cuts jobs into parts that fit one call each.
func split(jobs []*job.Job) [][]*job.Job {
	var parts [][]*job.Job
	start, size := 0, int64(0)
	for i, j := range jobs {
		n := queue.PushBytes(j)
		if i > start && (i-start == callJobs || size+n > callBytes) {
			parts = append(parts, jobs[start:i])
			start, size = i, 0
		}
		size += n
	}
	if start < len(jobs) {
		parts = append(parts, jobs[start:])
	}
	return parts
}

// pushBytes is what jobs count of callBytes.
func pushBytes(jobs []*job.Job) int64 { return bodyBytes(jobs) + int64(len(jobs))*queue.JobBytes }

func bodyBytes(jobs []*job.Job) int64 {
	var n int64
	for _, j := range jobs {
		n += int64(len(j.Request.Body))
	}
	return n
}
