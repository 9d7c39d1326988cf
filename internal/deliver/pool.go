package deliver

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxHeaderBytes = 64 << 10
	// maxOrphans is how many dials to one target go on after their Send has
	// left; each may bring a connection for a later slot.
	maxOrphans = 8
	// aheadMin is how long before its slot a Send takes its connection at least,
	// beside the time that it takes to make one.
	aheadMin = 10 * time.Millisecond
)

// target is what connections are shared by.
type target struct {
	scheme   string
	addr     string // host:port
	identity identity
}

// conn is a connection that belongs to one Send or lies in its pool.
type conn struct {
	pool      *pool
	http      *http.ClientConn
	gate      *gateConn
	idleSince time.Time
}

func (c *conn) close() { _ = c.http.Close() }

// usable says whether a request may be given to the connection, as far as its
// reader knows. The last look, right before the write, sees more.
func (c *conn) usable() bool { return c.http.Available() > 0 && !c.gate.ended.Load() }

// pool keeps the unused connections to one target, the latest used last.
type pool struct {
	s       *Sender
	target  target
	dialer  *http.Transport // dials and speaks HTTP; keeps no connections
	orphans atomic.Int64
	ahead   atomic.Int64 // ns before its slot at which a Send takes its connection; 0: at once

	users   int       // guarded by Sender.mu
	lastUse time.Time // guarded by Sender.mu

	mu     sync.Mutex
	closed bool
	idle   []*conn
}

func newPool(s *Sender, t target) (*pool, error) {
	config, err := t.identity.config(s.cfg.RootCAs)
	if err != nil {
		return nil, err
	}
	d := s.dialer()
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	return &pool{s: s, target: t, lastUse: time.Now(), dialer: &http.Transport{
		Proxy: nil, // the guard must see the destination's address, not a proxy's
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := d.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			g := newGateConn(c)
			*ctx.Value(gateKey{}).(**gateConn) = g
			return g, nil
		},
		TLSClientConfig:        config,
		Protocols:              http1,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		WriteBufferSize:        8 << 10,
	}}, nil
}

// gateKey finds, in the context of a dial, where to leave the gateConn: net/http
// does not tell which connection it made.
type gateKey struct{}

// acquire takes an unused connection or makes one, not long before the slot:
// connections that only wait would be as many as prefetched jobs.
func (p *pool) acquire(ctx context.Context, at time.Time) (*conn, error) {
	if ahead := time.Duration(p.ahead.Load()); ahead > 0 && !at.IsZero() {
		if waitUntil(ctx, at.Add(-ahead), nil) != nil {
			return nil, errLeft
		}
	}
	if ctx.Err() != nil {
		return nil, errLeft
	}
	for c := p.pop(); c != nil; c = p.pop() {
		if c.usable() {
			return c, nil
		}
		c.close()
	}
	return p.dial(ctx)
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

// put gives a connection back for the next Send, or closes it.
func (p *pool) put(c *conn) {
	c.gate.pass.Store(nil)
	if c.http.Available() == 0 || !p.push(c) {
		c.close()
	}
}

func (p *pool) push(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= p.s.cfg.MaxIdlePerTarget {
		return false
	}
	c.idleSince = time.Now()
	c.gate.used.Store(int64(c.idleSince.Sub(processStart)))
	p.idle = append(p.idle, c)
	return true
}

type dialled struct {
	conn *conn
	err  error
}

// dial makes a connection. When ctx ends first the dial goes on for a while and
// its connection is kept: a destination whose handshake takes longer than a
// slot can wait would otherwise never be reached.
func (p *pool) dial(ctx context.Context) (*conn, error) {
	dctx, cancel := context.WithTimeout(p.s.base, p.s.cfg.DialTimeout)
	done := make(chan dialled, 1)
	if !p.s.spawn(func() {
		defer cancel()
		c, err := p.connect(dctx)
		done <- dialled{c, err}
	}) {
		cancel()
		return nil, errLeft
	}
	select {
	case d := <-done:
		return d.conn, d.err
	case <-ctx.Done():
		p.leave(done, cancel)
		return nil, errLeft
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

// spawn runs f in a goroutine that Close waits for.
func (s *Sender) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

func (p *pool) connect(ctx context.Context) (*conn, error) {
	var g *gateConn
	begin := time.Now()
	hc, err := p.dialer.NewClientConn(context.WithValue(ctx, gateKey{}, &g), p.target.scheme, p.target.addr)
	if err != nil {
		if g != nil {
			_ = g.Close()
		}
		return nil, &dialError{cause: err, connected: g != nil, within: p.s.cfg.DialTimeout}
	}
	p.ahead.Store(int64(aheadMin + 2*time.Since(begin)))
	return &conn{pool: p, http: hc, gate: g}, nil
}

// prune drops connections that ended or lay unused for too long.
func (p *pool) prune(now time.Time) {
	p.mu.Lock()
	var drop []*conn
	kept := p.idle[:0]
	for _, c := range p.idle {
		if now.Sub(c.idleSince) > p.s.cfg.IdleTimeout || !c.usable() {
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
