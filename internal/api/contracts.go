package api

import (
	"context"
	"sync"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// reader finds one destination.
type reader interface {
	Destination(ctx context.Context, name string) (*queue.Destination, error)
}

const (
	contractsAge = time.Second // for how long a contract is believed
	contractsMax = 10_000
)

// contracts remembers contracts for a moment, so that a push costs one call
// of the store. Errors are not remembered: a destination made a moment ago is
// there. Callers that miss together share one call.
type contracts struct {
	store   reader
	base    context.Context //nolint:containedctx // a shared call belongs to no caller
	timeout time.Duration
	now     func() time.Time
	onPanic func(reason any)

	mu   sync.Mutex
	held map[string]*heldContract
	wait sync.WaitGroup
}

type heldContract struct {
	done     chan struct{} // closed when the fields below are set
	contract *destination.Contract
	err      error
	at       time.Time
}

func (c *contracts) get(ctx context.Context, name string) (*destination.Contract, error) {
	c.mu.Lock()
	h := c.held[name]
	if h == nil || h.outlived(c.now()) {
		h = &heldContract{done: make(chan struct{})}
		c.makeRoom()
		c.held[name] = h
		c.wait.Go(func() { c.fetch(name, h) })
	}
	c.mu.Unlock()
	select {
	case <-h.done:
		return h.contract, h.err
	case <-ctx.Done():
		return nil, errGone(ctx)
	}
}

// outlived is false for a call that is still under way.
func (h *heldContract) outlived(now time.Time) bool {
	select {
	case <-h.done:
		return h.err != nil || now.Sub(h.at) >= contractsAge
	default:
		return false
	}
}

// makeRoom drops any entry when there are too many: it costs one more call.
func (c *contracts) makeRoom() {
	if len(c.held) < contractsMax {
		return
	}
	for name := range c.held {
		delete(c.held, name)
		return
	}
}

func (c *contracts) fetch(name string, h *heldContract) {
	h.err = job.Errorf(job.CodeInternal, "the contract could not be read")
	defer func() {
		if reason := recover(); reason != nil {
			c.onPanic(reason) // h.err stands
		}
		c.mu.Lock()
		if h.err != nil && c.held[name] == h {
			delete(c.held, name)
		}
		c.mu.Unlock()
		close(h.done)
	}()
	ctx, cancel := context.WithTimeoutCause(c.base, c.timeout, errStoreSlow)
	defer cancel()
	h.at = c.now()
	d, err := c.store.Destination(ctx, name)
	switch {
	case err != nil:
		h.err = storeError(ctx, err)
	case d.Contract == nil:
		h.err = job.Errorf(job.CodeDestinationFaulty, "the stored contract of %q cannot be used", name)
	default:
		h.contract, h.err = d.Contract, nil
	}
}

// forget drops what this process has just changed.
func (c *contracts) forget(name string) {
	c.mu.Lock()
	delete(c.held, name)
	c.mu.Unlock()
}
