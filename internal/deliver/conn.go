package deliver

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"tundish/internal/deliver/kept"
)

const maxHeaderBytes = 64 << 10

// target is what connections are shared by.
type target struct {
	scheme   string
	addr     string // host:port
	identity identity
	// pings is for how long a connection of HTTP/2 may be silent before it is asked
	// whether it still stands, and for how long it may be silent then. Zero: HTTP/1.1.
	pings time.Duration
}

type pool = kept.Pool[target, *conn]

// conn is a connection that belongs to one Send or lies in its pool. Of HTTP/2
// it is a seat in one that others use at the same time.
type conn struct {
	http   *http.ClientConn
	gate   *gateConn
	shared *shared // nil: HTTP/1.1
	left   atomic.Bool
}

// Close ends it. A shared one ends with its last seat.
func (c *conn) Close() {
	if c.shared == nil {
		_ = c.http.Close()
	} else if c.left.CompareAndSwap(false, true) {
		c.shared.leave()
	}
}

// Rest takes the pass of the last request off it.
func (c *conn) Rest() bool {
	c.gate.pass.Store(nil)
	c.gate.used.Store(int64(time.Since(processStart)))
	return !c.Ended() && !c.gate.age.Over()
}

// Stands says whether a request may be given to it, as far as its reader knows.
// The last look, right before the write, sees more.
func (c *conn) Stands(context.Context, time.Duration) bool { return !c.Ended() && !c.gate.stalled() }

// Ended says the same to who does not want to use it.
func (c *conn) Ended() bool {
	if c.shared != nil {
		return c.shared.ended()
	}
	return c.http.Available() == 0 || c.gate.ended.Load()
}

// connector makes the connections to a target.
type connector struct {
	s      *Sender
	target target
	dialer *net.Dialer
	tls    *tls.Config
	http1  *http.Transport // speaks HTTP over what it is handed; dials nothing, keeps no connections
	http2  *sharing        // nil: HTTP/1.1 alone
}

// open gets ready to connect to a target. The error says that its certificates
// cannot be used.
func (s *Sender) open(t target) (kept.Maker[*conn], error) {
	config, err := t.identity.config(s.cfg.RootCAs)
	if err != nil {
		return kept.Maker[*conn]{}, err
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(t.addr)
	}
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	c := &connector{s: s, target: t, dialer: s.dialer(), tls: config, http1: transport(http1)}
	if t.pings > 0 {
		c.http2 = newSharing(c)
		return kept.Maker[*conn]{Dial: c.http2.dial, Spare: c.http2.spare}, nil
	}
	return kept.Maker[*conn]{Dial: func(ctx context.Context) (*conn, error) {
		conn, _, err := c.connect(ctx)
		return conn, err
	}}, nil
}

// handed finds, in the context of NewClientConn, the connection that is to be used.
type handed struct{}

func transport(p *http.Protocols) *http.Transport {
	take := func(ctx context.Context, _, _ string) (net.Conn, error) { return ctx.Value(handed{}).(net.Conn), nil }
	return &http.Transport{
		Proxy:       nil, // the guard must see the destination's address, not a proxy's
		DialContext: take, DialTLSContext: take,
		Protocols:              p,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		WriteBufferSize:        8 << 10,
	}
}

// connect makes a connection: one of HTTP/1.1, or a shared one where both sides
// speak HTTP/2.
func (c *connector) connect(ctx context.Context) (*conn, *shared, error) {
	tcp, err := c.dialer.DialContext(ctx, "tcp", c.target.addr)
	if err != nil {
		return nil, nil, c.failed(err, false)
	}
	g := newGateConn(tcp)
	g.age = kept.NewAge(c.s.cfg.MaxAge)
	secure, err := c.encrypt(ctx, g)
	if err != nil {
		_ = g.Close()
		return nil, nil, c.failed(err, true)
	}
	if t, ok := secure.(*tls.Conn); ok && t.ConnectionState().NegotiatedProtocol == "h2" {
		s, err := c.http2.share(ctx, g, t)
		return nil, s, err
	}
	hc, err := c.http1.NewClientConn(context.WithValue(ctx, handed{}, secure), c.target.scheme, c.target.addr)
	if err != nil {
		_ = g.Close()
		return nil, nil, c.failed(err, true)
	}
	return &conn{http: hc, gate: g}, nil, nil
}

func (c *connector) encrypt(ctx context.Context, below net.Conn) (net.Conn, error) {
	if c.target.scheme != "https" {
		return below, nil
	}
	t := tls.Client(below, c.tls)
	return t, t.HandshakeContext(ctx)
}

func (c *connector) failed(cause error, connected bool) error {
	return &dialError{cause: cause, connected: connected, within: c.s.cfg.DialTimeout}
}
