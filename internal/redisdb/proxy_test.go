package redisdb

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter is a TCP proxy that cuts the connection when a command it watches
// for has been executed, and keeps the answer to itself.
type cutter struct {
	target string
	l      net.Listener
	word   []byte
	cuts   atomic.Int64 // how many more to make; below zero: all
	made   atomic.Int64
	wg     sync.WaitGroup
}

func newCutter(t *testing.T, target, word string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{target: target, l: l, word: []byte(word)}
	c.wg.Go(c.accept)
	t.Cleanup(func() {
		_ = l.Close()
		c.wg.Wait()
	})
	return c
}

// dial stands in for the client's dialler: whatever node it wants, it gets the proxy.
func (c *cutter) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", c.l.Addr().String())
}

func (c *cutter) accept() {
	for {
		in, err := c.l.Accept()
		if err != nil {
			return
		}
		c.wg.Go(func() { c.serve(in) })
	}
}

func (c *cutter) serve(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer out.Close()
	var armed atomic.Bool
	c.wg.Go(func() {
		defer in.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := out.Read(buf)
			if err != nil || armed.Load() {
				return // an answer means that the command was executed
			}
			if _, err := in.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := in.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], c.word) && c.cuts.Add(-1) >= 0 {
			c.made.Add(1)
			armed.Store(true)
		}
		if _, err := out.Write(buf[:n]); err != nil {
			return
		}
	}
}
