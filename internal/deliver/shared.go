package deliver

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// What a destination may send of one answer, and of all, before we have read it.
	streamBuffer     = 256 << 10
	connectionBuffer = 2 << 20
	// anyLimit is how many streams are expected of a connection before one was made.
	anyLimit = 100
	// clearWithin is how long a stream that has ended may take to be cleared away.
	clearWithin = 50 * time.Millisecond
)

var errNoStreams = errors.New("it takes no requests over HTTP/2 now")

// pingsOf is how long a connection of HTTP/2 may be silent, twice, so that it is
// known to be dead before the next attempt's time is over.
func pingsOf(timeout time.Duration) time.Duration {
	return min(max(timeout/3, 500*time.Millisecond), 10*time.Second)
}

// sharing has the connections of HTTP/2 to one target. Attempts hold seats in
// them, as many as the other side takes streams; another connection is made when
// all seats are taken.
type sharing struct {
	*connector
	transport *http.Transport

	mu      sync.Mutex
	conns   []*shared
	flights []*flight
	limit   int  // streams of the latest connection
	plain   bool // the other side spoke HTTP/1.1 the last time
}

// flight is a connection that is being made, and how many wait for it.
type flight struct {
	ctx    context.Context
	cancel context.CancelFunc
	wanted int
	done   chan struct{}
	err    error // when done
}

func newSharing(c *connector) *sharing {
	c.tls.NextProtos = []string{"h2", "http/1.1"}
	// TLS is ours: what is handed over is clear text.
	http2 := new(http.Protocols)
	http2.SetUnencryptedHTTP2(true)
	t := transport(http2)
	t.HTTP2 = &http.HTTP2Config{
		SendPingTimeout: c.target.pings, PingTimeout: c.target.pings,
		MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: connectionBuffer,
	}
	return &sharing{connector: c, transport: t, limit: anyLimit}
}

// spare gives a seat in a connection there is, the oldest first, so that those
// made for a rush empty and end.
func (s *sharing) spare() (*conn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seat()
}

// seat is spare with s.mu.
func (s *sharing) seat() (*conn, bool) {
	for _, c := range s.conns {
		if c.room() {
			return c.sit(), true
		}
	}
	return nil, false
}

// dial gives a seat in a new connection, and makes no more of them than those
// who wait for one need.
func (s *sharing) dial(ctx context.Context) (*conn, error) {
	for {
		f, mine, seat := s.join()
		switch {
		case seat != nil:
			return seat, nil
		case mine:
			return s.fly(ctx, f)
		}
		select {
		case <-f.done:
			if f.err != nil {
				return nil, f.err
			}
		case <-ctx.Done():
			s.quit(f)
			return nil, s.failed(ctx.Err(), false)
		}
	}
}

// quit is said by who does not wait any more. The last one ends the flight.
func (s *sharing) quit(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.wanted--; f.wanted == 0 {
		s.land(f)
		f.cancel()
	}
}

// land takes a flight off the list, with s.mu.
func (s *sharing) land(f *flight) {
	s.flights = slices.DeleteFunc(s.flights, func(other *flight) bool { return other == f })
}

// join gives a seat, or a flight to wait for, or one to make. Connections of
// HTTP/1.1 everybody makes alone.
func (s *sharing) join() (f *flight, mine bool, seat *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seat, ok := s.seat(); ok {
		return nil, false, seat
	}
	for _, f := range s.flights {
		if !s.plain && f.wanted < s.limit {
			f.wanted++
			return f, false, nil
		}
	}
	f = &flight{wanted: 1, done: make(chan struct{})}
	f.ctx, f.cancel = context.WithTimeout(s.s.pools.Context(), s.s.cfg.DialTimeout)
	s.flights = append(s.flights, f)
	return f, true, nil
}

// fly makes a connection, also when who began has left, as long as others wait for it.
func (s *sharing) fly(ctx context.Context, f *flight) (seat *conn, err error) {
	defer f.cancel()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) { // its time is the flight's, too
			s.quit(f)
		}
	})()
	seat, made, err := s.connect(f.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if made != nil {
		s.conns = append(s.conns, made)
		s.limit, seat = made.limit, made.sit()
	}
	if err == nil {
		s.plain = made == nil
	}
	s.land(f)
	f.err = err
	close(f.done)
	return seat, err
}

// share makes a connection of HTTP/2 out of one that agreed on it, and waits
// until the other side has said how many streams it takes: what is begun before
// and is more than that waits inside net/http, beyond our reach.
func (s *sharing) share(ctx context.Context, g *gateConn, t *tls.Conn) (*shared, error) {
	g.framed = true
	text := &clearConn{Conn: t, gate: g, settled: make(chan struct{})}
	hc, err := s.transport.NewClientConn(context.WithValue(ctx, handed{}, text), s.target.scheme, s.target.addr)
	if err != nil {
		_ = g.Close()
		return nil, s.failed(err, true)
	}
	select {
	case <-text.settled:
		err = text.err
	case <-g.closed:
		err = net.ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		_ = hc.Close()
		return nil, s.failed(err, true)
	}
	c := &shared{of: s, http: hc, gate: g, limit: hc.Available()}
	if c.limit == 0 {
		_ = hc.Close()
		return nil, s.failed(errNoStreams, false)
	}
	return c, nil
}

// shared is a connection of HTTP/2.
type shared struct {
	of      *sharing
	http    *http.ClientConn
	gate    *gateConn
	retired atomic.Bool // takes no more requests

	// guarded by of.mu
	limit int // of streams, as last seen
	seats int
}

// room says whether there is a seat, with of.mu.
func (c *shared) room() bool {
	if c.retired.Load() || c.gate.ended.Load() || c.gate.stalled() || c.gate.age.Over() {
		return false
	}
	free, used, sure := c.streams()
	if sure && free > 0 {
		c.limit = free + used
	}
	return free > 0 && c.seats < c.limit
}

// streams says how many are free and in use. The two are read one after the other:
// it is sure of them when nothing has changed meanwhile, as far as it can see.
func (c *shared) streams() (free, used int, sure bool) {
	free, used = c.http.Available(), c.http.InFlight()
	for range 3 {
		if c.http.Available() != free || c.http.InFlight() != used {
			return free, used, false
		}
	}
	return free, used, true
}

// sit takes a seat, with of.mu.
func (c *shared) sit() *conn {
	c.seats++
	return &conn{http: c.http, gate: c.gate, shared: c}
}

func (c *shared) leave() {
	c.of.mu.Lock()
	c.seats--
	last := c.seats == 0
	if last {
		c.of.conns = slices.DeleteFunc(c.of.conns, func(other *shared) bool { return other == c })
	}
	c.of.mu.Unlock()
	if last {
		_ = c.http.Close()
	}
}

// ended says whether it takes no more requests: by its end, a GOAWAY, or our
// own will. One whose streams are all in use has not ended.
func (c *shared) ended() bool {
	if c.retired.Load() || c.gate.ended.Load() || c.http.Err() != nil {
		return true
	}
	if c.http.Available() > 0 { // as mostly
		return false
	}
	free, used, sure := c.streams()
	if free > 0 || !sure {
		return false
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return used < c.limit
}

// reserve takes a stream for who has a seat. There may be none for the moment
// in which the one before is cleared away. The end of that is looked for: the
// hook of a ClientConn misses what happens while it runs.
func (c *shared) reserve(ctx context.Context) error {
	last := time.Now().Add(clearWithin)
	for {
		switch {
		case c.http.Reserve() == nil:
			return nil
		case c.ended():
			return errStale
		case time.Now().After(last):
			return errStalled
		}
		if err := waitUntil(ctx, time.Now().Add(time.Millisecond), c.gate.closed); err != nil {
			return err
		}
	}
}
