package bank

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// listener hands out connections that stamp their requests.
type listener struct{ net.Listener }

// Listener wraps l so that each request is stamped when its first byte is
// read. It needs ConnContext on the server that accepts from it.
func (b *Bank) Listener(l net.Listener) net.Listener { return listener{l} }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// conn stamps the requests that are read from it, in their order.
type conn struct {
	net.Conn

	mu     sync.Mutex // the server reads ahead while a handler runs
	framer framer
	stamps []int64 // of requests whose handler has not asked yet
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n <= 0 {
		return n, err
	}
	at := Monotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	for range c.framer.feed(p[:n]) {
		c.stamps = append(c.stamps, at)
	}
	return n, err
}

// next is the stamp of the oldest request that has none yet.
func (c *conn) next() (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.stamps) == 0 {
		return 0, false
	}
	at := c.stamps[0]
	c.stamps = append(c.stamps[:0], c.stamps[1:]...)
	return at, true
}

type connKey struct{}

// ConnContext belongs into http.Server.ConnContext: it lets the handler find
// the connection that stamped its request.
func (b *Bank) ConnContext(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// stampOf is when r was read; now, where nothing stamped it.
func stampOf(r *http.Request) int64 {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		if at, ok := c.next(); ok {
			return at
		}
	}
	return Monotonic()
}
