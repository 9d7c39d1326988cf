package deliver

import (
	"net"
	"time"
)

// closeWithin is how long a connection's end may take to be said.
const closeWithin = 250 * time.Millisecond

// clearConn is the connection between HTTP/2 and TLS.
type clearConn struct {
	net.Conn
	gate    *gateConn
	settled chan struct{} // closed when HTTP/2 has read the first frame, which is that of the settings, or never will
	err     error         // why never

	// of the reader
	done bool
	read int
	head [3]byte // of the first frame: its length
}

func (c *clearConn) Read(b []byte) (int, error) {
	if c.done {
		return c.Conn.Read(b)
	}
	// HTTP/2 asks for more when it has read all it got.
	const frameHead = 9
	if length := int(c.head[0])<<16 | int(c.head[1])<<8 | int(c.head[2]); c.read >= frameHead+length {
		c.settle(nil)
		return c.Conn.Read(b)
	}
	n, err := c.Conn.Read(b)
	if c.read < len(c.head) {
		copy(c.head[c.read:], b[:n])
	}
	if c.read += n; err != nil {
		c.settle(err)
	}
	return n, err
}

func (c *clearConn) settle(err error) {
	c.done, c.err = true, err
	close(c.settled)
}

// Close says the end to the other side, if that listens.
func (c *clearConn) Close() error {
	t := time.AfterFunc(closeWithin, func() { _ = c.gate.Close() })
	defer t.Stop()
	return c.Conn.Close()
}
