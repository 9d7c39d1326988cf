package mail

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tundish/internal/deliver"
)

const (
	// maxOrphans is how many dials to one target go on after their Send has
	// left; each may bring a connection for a later slot.
	maxOrphans = 8
	// aheadMin is how long before its slot a Send takes its connection at least,
	// beside the time that it takes to make one.
	aheadMin = 10 * time.Millisecond
	// askAfter is how long a connection lies unused before it is asked whether
	// it still stands: what is on the way may have forgotten it without a word.
	askAfter = 5 * time.Second
	// askWithin bounds the answer to that.
	askWithin = 2 * time.Second
)

// pool keeps the unused connections to one target, the latest used last.
type pool struct {
	s       *Sender
	target  target
	orphans atomic.Int64
	ahead   atomic.Int64 // ns before its slot at which a Send takes its connection; 0: at once

	most atomic.Int64 // that are in flight at once; more are not kept

	users   int       // guarded by Sender.mu
	lastUse time.Time // guarded by Sender.mu

	mu     sync.Mutex
	closed bool
	idle   []*conn
}

// acquire takes an unused connection or makes one, not long before the slot:
// connections that only wait would be as many as prefetched jobs.
func (p *pool) acquire(ctx context.Context, at time.Time) (*conn, error) {
	if !waitUntil(ctx, at.Add(-time.Duration(p.ahead.Load())), p.ahead.Load() == 0 || at.IsZero()) {
		return nil, deliver.ErrNoConnection
	}
	for c := p.pop(); c != nil; c = p.pop() {
		if c.stands(ctx) {
			return c, nil
		}
		c.close()
	}
	return p.dial(ctx)
}

// waitUntil waits for a moment, or looks only whether ctx goes on.
func waitUntil(ctx context.Context, at time.Time, now bool) bool {
	if d := time.Until(at); !now && d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// stands says whether a kept connection can be used.
func (c *conn) stands(ctx context.Context) bool {
	if c.line.Dead() {
		return false
	}
	if time.Since(c.idleSince) < askAfter {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	unhook := context.AfterFunc(ctx, c.close)
	c.replies.left = maxReplyBytes
	err := c.client.Noop()
	return unhook() && err == nil && c.client.Text.R.Buffered() == 0
}

func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	c := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return c
}

// put gives a connection back for the next Send, or closes it. What the server
// said and nobody has read would be taken for the answer to the next command.
func (p *pool) put(c *conn) {
	c.line.Keep()
	if c.client.Text.R.Buffered() > 0 || !p.push(c) {
		c.close()
	}
}

func (p *pool) push(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= min(p.s.cfg.MaxIdlePerTarget, int(p.most.Load())) {
		return false
	}
	c.idleSince = time.Now()
	p.idle = append(p.idle, c)
	return true
}

type dialled struct {
	conn *conn
	err  error
}

// dial makes a connection. When ctx ends first the dial goes on for a while and
// its connection is kept: a server whose log-in takes longer than a slot can
// wait would otherwise never be reached.
func (p *pool) dial(ctx context.Context) (*conn, error) {
	dctx, cancel := context.WithTimeout(p.s.base, p.s.cfg.DialTimeout)
	done := make(chan dialled, 1)
	if !p.s.spawn(func() {
		defer cancel()
		begin := time.Now()
		c, err := p.s.dial(dctx, p.target)
		if err == nil {
			p.ahead.Store(int64(aheadMin + 2*time.Since(begin)))
		}
		done <- dialled{c, err}
	}) {
		cancel()
		return nil, deliver.ErrNoConnection
	}
	select {
	case d := <-done:
		return d.conn, d.err
	case <-ctx.Done():
		p.leave(done, cancel)
		return nil, deliver.ErrNoConnection
	}
}

// leave lets a dial end without the Send that wanted it.
func (p *pool) leave(done <-chan dialled, cancel context.CancelFunc) {
	if p.orphans.Add(1) > maxOrphans {
		cancel()
	}
	keep := func() {
		if d := <-done; d.conn != nil {
			p.put(d.conn)
		}
		p.orphans.Add(-1)
	}
	if !p.s.spawn(keep) {
		cancel()
		keep()
	}
}

// prune drops connections that ended or lay unused for too long.
func (p *pool) prune(now time.Time) {
	p.mu.Lock()
	var drop []*conn
	kept := p.idle[:0]
	for _, c := range p.idle {
		if now.Sub(c.idleSince) > p.s.cfg.IdleTimeout || c.line.Dead() {
			drop = append(drop, c)
		} else {
			kept = append(kept, c)
		}
	}
	clear(p.idle[len(kept):])
	p.idle = kept
	p.mu.Unlock()
	for _, c := range drop {
		c.close()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	drop := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range drop {
		c.close()
	}
}
