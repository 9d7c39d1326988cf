package deliver

import (
	"context"
	"net"
	"net/http"
	"time"

	"tundish/internal/deliver/kept"
)

const maxHeaderBytes = 64 << 10

// target is what connections are shared by.
type target struct {
	scheme   string
	addr     string // host:port
	identity identity
}

type pool = kept.Pool[target, *conn]

// conn is a connection that belongs to one Send or lies in its pool.
type conn struct {
	http *http.ClientConn
	gate *gateConn
}

// Close ends it.
func (c *conn) Close() { _ = c.http.Close() }

// Rest takes the pass of the last request off it.
func (c *conn) Rest() bool {
	c.gate.pass.Store(nil)
	c.gate.used.Store(int64(time.Since(processStart)))
	return c.http.Available() > 0
}

// Stands says whether a request may be given to it, as far as its reader knows.
// The last look, right before the write, sees more.
func (c *conn) Stands(context.Context, time.Duration) bool { return !c.Ended() }

// Ended says the same to who does not want to use it.
func (c *conn) Ended() bool { return c.http.Available() == 0 || c.gate.ended.Load() }

// connector makes the connections to a target. The error says that its
// certificates cannot be used.
func (s *Sender) connector(t target) (kept.Dial[*conn], error) {
	config, err := t.identity.config(s.cfg.RootCAs)
	if err != nil {
		return nil, err
	}
	d := s.dialer()
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	transport := &http.Transport{ // dials and speaks HTTP; keeps no connections
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
	}
	return func(ctx context.Context) (*conn, error) {
		var g *gateConn
		hc, err := transport.NewClientConn(context.WithValue(ctx, gateKey{}, &g), t.scheme, t.addr)
		if err != nil {
			if g != nil {
				_ = g.Close()
			}
			return nil, &dialError{cause: err, connected: g != nil, within: s.cfg.DialTimeout}
		}
		return &conn{http: hc, gate: g}, nil
	}, nil
}

// gateKey finds, in the context of a dial, where to leave the gateConn: net/http
// does not tell which connection it made.
type gateKey struct{}
