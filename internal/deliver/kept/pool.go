package kept

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxOrphans is how many dials to one target go on after their Take has
	// left; each may bring a connection for a later slot.
	maxOrphans = 8
	// AheadMin is how long before its slot a connection is taken at least, beside
	// the time that it takes to make one.
	AheadMin = 10 * time.Millisecond
)

// ErrLeft is the error of a Take that ended while it waited for a connection.
var ErrLeft = errors.New("gave up waiting for a connection")

// Conn is a connection that can be kept.
type Conn interface {
	// Rest says that it lies unused from now on, and answers whether it can.
	Rest() bool
	// Stands says whether it can be used after having been unused for so long.
	Stands(ctx context.Context, unused time.Duration) bool
	// Ended says whether it is known to be of no use any more.
	Ended() bool
	Close()
}

// Maker makes the connections to a target.
type Maker[C Conn] struct {
	Dial func(ctx context.Context) (C, error)
	// Spare gives one that needs no dial, when there is such a one. Nil: never.
	Spare func() (c C, ok bool)
}

// Pool keeps the unused connections to one target, the latest used last.
type Pool[T comparable, C Conn] struct {
	all     *Pools[T, C]
	maker   Maker[C]
	most    atomic.Int64
	orphans atomic.Int64
	ahead   atomic.Int64 // ns before its slot at which a connection is taken; 0: at once

	// guarded by Pools.mu
	users    int
	lastUse  time.Time
	mostSaid time.Time // when a user said most the last time

	mu     sync.Mutex
	closed bool
	unused []unused[C]
}

type unused[C Conn] struct {
	conn  C
	since time.Time
}

// Take gives an unused connection or makes one, not long before the slot:
// connections that only wait would be as many as prefetched jobs. Without a slot
// it does so at once. The caller owns it until Put or its Close.
func (p *Pool[T, C]) Take(ctx context.Context, slot time.Time) (C, error) {
	var none C
	if ahead := time.Duration(p.ahead.Load()); ahead > 0 && !slot.IsZero() {
		near, cancel := context.WithDeadline(ctx, slot.Add(-ahead))
		<-near.Done()
		cancel()
	}
	if ctx.Err() != nil {
		return none, ErrLeft
	}
	for u, ok := p.pop(); ok; u, ok = p.pop() {
		if u.conn.Stands(ctx, time.Since(u.since)) {
			return u.conn, nil
		}
		u.conn.Close()
	}
	if p.maker.Spare != nil {
		if c, ok := p.maker.Spare(); ok {
			return c, nil
		}
	}
	return p.dial(ctx)
}

func (p *Pool[T, C]) pop() (u unused[C], ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.unused)
	if n == 0 {
		return u, false
	}
	u = p.unused[n-1]
	clear(p.unused[n-1:])
	p.unused = p.unused[:n-1]
	return u, true
}

// Put gives a connection back for the next use, or closes it.
func (p *Pool[T, C]) Put(c C) {
	if !c.Rest() || !p.push(c) {
		c.Close()
	}
}

func (p *Pool[T, C]) push(c C) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.unused) >= int(p.most.Load()) {
		return false
	}
	p.unused = append(p.unused, unused[C]{c, time.Now()})
	return true
}

type dialled[C Conn] struct {
	conn C
	err  error
}

// dial makes a connection. When ctx ends first the dial goes on for a while and
// its connection is kept: a target whose handshake takes longer than a slot can
// wait would otherwise never be reached.
func (p *Pool[T, C]) dial(ctx context.Context) (none C, _ error) {
	dctx, cancel := context.WithTimeout(p.all.base, p.all.cfg.DialTimeout)
	done := make(chan dialled[C], 1)
	if !p.all.Go(func() {
		defer cancel()
		begin := time.Now()
		c, err := p.maker.Dial(dctx)
		if err == nil {
			p.ahead.Store(int64(AheadMin + 2*time.Since(begin)))
		}
		done <- dialled[C]{c, err}
	}) {
		cancel()
		return none, ErrLeft
	}
	select {
	case d := <-done:
		return d.conn, d.err
	case <-ctx.Done():
		p.leave(done, cancel)
		return none, ErrLeft
	}
}

// leave lets a dial end without the Take that wanted it.
func (p *Pool[T, C]) leave(done <-chan dialled[C], cancel context.CancelFunc) {
	if p.orphans.Add(1) > maxOrphans {
		cancel()
	}
	keep := func() {
		if d := <-done; d.err == nil {
			p.Put(d.conn)
		}
		p.orphans.Add(-1)
	}
	if !p.all.Go(keep) {
		cancel()
		keep()
	}
}

// Done says that the user of the pool needs it no more.
func (p *Pool[T, C]) Done() {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.users--
	p.lastUse = time.Now()
}

// prune drops connections that ended or lay unused for too long.
func (p *Pool[T, C]) prune(now time.Time) {
	p.mu.Lock()
	var drop []C
	left := p.unused[:0]
	for _, u := range p.unused {
		if now.Sub(u.since) > p.all.cfg.IdleTimeout || u.conn.Ended() {
			drop = append(drop, u.conn)
		} else {
			left = append(left, u)
		}
	}
	clear(p.unused[len(left):])
	p.unused = left
	p.mu.Unlock()
	for _, c := range drop {
		c.Close()
	}
}

func (p *Pool[T, C]) close() {
	p.mu.Lock()
	p.closed = true
	drop := p.unused
	p.unused = nil
	p.mu.Unlock()
	for _, u := range drop {
		u.conn.Close()
	}
}
