package deliver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tundish/internal/deliver/kept"
)

var (
	errStale   = errors.New("the connection ended before the request was written")
	errStalled = errors.New("the connection is busy")
	errRefused = errors.New("the slot was over before the first byte")
)

// gateConn is the connection below net/http and TLS. While a pass is set, the
// first Write is the first of a request and has to get through it.
type gateConn struct {
	net.Conn
	raw    syscall.RawConn // nil when the platform has none
	pass   atomic.Pointer[pass]
	reused atomic.Bool  // carried a request before
	ended  atomic.Bool  // nothing more can be read
	used   atomic.Int64 // when the last answer was read, ns since processStart
	framed bool         // HTTP/2: what comes in unasked is no end. Set before the first use
	writes atomic.Int64 // HTTP/2: since when a Write is under way, ns since processStart; 0: none is
	age    kept.Age
	closed chan struct{}
	once   sync.Once
}

// peekAfter is how long a connection must have been unused for a look at what its
// reader may not have seen: while it is busy the reader is awake, and the look
// is a system call for each request.
const peekAfter = time.Second

var processStart = time.Now().Add(-peekAfter)

func newGateConn(c net.Conn) *gateConn {
	g := &gateConn{Conn: c, closed: make(chan struct{})}
	if sc, ok := c.(syscall.Conn); ok {
		g.raw, _ = sc.SyscallConn()
	}
	return g
}

func (c *gateConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// dead says whether the other side has ended the connection, or sent something
// nobody asked for. It sees what the reading goroutine may not have seen yet.
func (c *gateConn) dead() bool {
	select {
	case <-c.closed:
		return true
	default:
	}
	if time.Since(processStart)-time.Duration(c.used.Load()) < peekAfter {
		return c.ended.Load()
	}
	return c.raw != nil && peerEnded(c.raw, c.reused.Load() && !c.framed)
}

func (c *gateConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.ended.Store(true)
	}
	return n, err
}

func (c *gateConn) Write(b []byte) (int, error) {
	p := c.pass.Load()
	if p == nil {
		if c.framed {
			c.writes.Store(int64(time.Since(processStart)))
			defer c.writes.Store(0)
		}
		return c.Conn.Write(b) // TLS handshake, closing alert, HTTP/2
	}
	first, err := p.enter(c)
	if err != nil {
		c.Conn.Close()
		return 0, err
	}
	n, err := c.Conn.Write(b)
	if first && n == 0 && err != nil {
		p.mu.Lock()
		p.nothingLeft()
		p.mu.Unlock()
	}
	return n, err
}

// stallAfter is how long a Write takes when the other side does not keep up.
const stallAfter = 20 * time.Millisecond

// stalled says that a Write waits for the other side: what is given to the
// connection now would wait behind it.
func (c *gateConn) stalled() bool {
	since := c.writes.Load()
	return since != 0 && time.Since(processStart)-time.Duration(since) > stallAfter
}

type passState int

const (
	passWaiting passState = iota
	passOpen
	passShut
)

// pass is the leave of one request to be written.
type pass struct {
	at      time.Time
	gate    func() error
	writing func()
	timeout time.Duration
	framed  bool                    // HTTP/2: the write comes when the request leaves
	ctx     context.Context         // of the attempt
	cancel  context.CancelCauseFunc // ends the attempt

	answered atomic.Bool // a first byte of the answer came
	left     atomic.Bool // HTTP/2: the headers are or were given to the connection; set with mu

	mu      sync.Mutex
	state   passState
	err     error // why it is shut
	asked   bool  // the gate was asked inside the write
	wrote   bool
	started time.Time
	timer   *time.Timer
	watcher *time.Timer // HTTP/2: see watch
}

// enter waits for the slot and asks the gate. first is true for the call whose
// write is the first of the request; later writes pass freely.
func (p *pass) enter(c *gateConn) (first bool, err error) {
	p.mu.Lock()
	state, err := p.state, p.err
	p.mu.Unlock()
	if state != passWaiting {
		return false, err
	}
	// Writes of one connection come one at a time, so nobody else is in here.
	if err := p.wait(c); err != nil {
		p.shut(err, false)
		return false, err
	}
	if err := ask(p.gate); err != nil {
		p.shut(err, true)
		return false, err
	}
	if !p.open() {
		return false, errStale
	}
	return true, nil
}

func (p *pass) wait(c *gateConn) error {
	if err := waitUntil(p.ctx, p.at, c.closed); err != nil {
		return err
	}
	if c.dead() {
		return errStale
	}
	return nil
}

func (p *pass) shut(err error, asked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.err, p.asked = passShut, err, asked
}

// unasked shuts the pass of a request that is not written yet, and says whether
// it did: what the other side says before that is no answer to it.
func (p *pass) unasked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != passWaiting {
		return false
	}
	p.state, p.err = passShut, errStale
	return true
}

// open says that the first byte leaves now, unless the pass was shut meanwhile.
func (p *pass) open() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != passWaiting {
		return false
	}
	if !p.framed {
		p.writes()
	}
	p.state, p.asked, p.wrote = passOpen, true, true
	p.timer = time.AfterFunc(p.timeout, func() { p.cancel(errNoAnswer) })
	p.started = time.Now()
	return true
}

// writes tells that the first byte leaves now, with p.mu.
func (p *pass) writes() {
	if p.writing != nil {
		p.writing()
	}
}

// nothingLeft takes back what open said: no byte left. With p.mu.
func (p *pass) nothingLeft() {
	p.wrote, p.started = false, time.Time{}
	p.err = errStale
}

// written says when the first byte left, and whether it may have.
func (p *pass) written() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started, p.wrote
}

// refusal says why nothing was written, and whether the gate was asked.
func (p *pass) refusal() (err error, asked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err, p.asked
}

// end stops the clocks of the attempt.
func (p *pass) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.watcher != nil {
		p.watcher.Stop()
		p.watcher = nil
	}
}

// ask calls the gate; one that panics does not open.
func ask(gate func() error) (err error) {
	if gate == nil {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = errRefused
		}
	}()
	if err := gate(); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return nil
}

// waitUntil waits for a moment; it ends early with errStale when the
// connection is closed and with the cause when ctx ends. A context that has
// ended counts even when the moment has come.
func waitUntil(ctx context.Context, at time.Time, closed <-chan struct{}) error {
	if d := time.Until(at); !at.IsZero() && d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-closed:
			return errStale
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
