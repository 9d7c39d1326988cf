package api

import (
	"io"
	"sync"

	"tundish/internal/job"
)

const (
	// bodiesBytes bounds the bodies that the process reads and holds at once. It
	// is several times what the largest request may have, so a request that is
	// alone always fits.
	bodiesBytes = 32 << 20
	// firstRead is what a body is given room for before any of it has come: a
	// caller that announces much and sends nothing must not hold much.
	firstRead = 64 << 10
	growth    = 4
)

// bodies is the budget of all requests for what they sent.
type bodies struct {
	limit int64

	mu   sync.Mutex
	used int64
}

func (b *bodies) take(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.limit {
		return job.Errorf(job.CodeOverloaded, "requests under way hold %d bytes of bodies, and at most %d are held at once; nothing of this one was done", b.used, b.limit)
	}
	b.used += n
	return nil
}

func (b *bodies) give(n int64) {
	b.mu.Lock()
	b.used -= n
	b.mu.Unlock()
}

// hold counts n more bytes for the request.
func (c *call) hold(n int64) error {
	if c.bodies == nil { // a request that entry did not make
		return nil
	}
	if err := c.bodies.take(n); err != nil {
		return err
	}
	c.held += n
	return nil
}

// keepUntil puts off the release: what the request sent is still in use.
func (c *call) keepUntil(done <-chan struct{}) { c.until = append(c.until, done) }

// release gives back what the request held, once.
func (c *call) release() {
	held := c.held
	c.held = 0
	if held == 0 {
		return
	}
	if len(c.until) == 0 {
		c.bodies.give(held)
		return
	}
	go func() {
		for _, done := range c.until {
			<-done
		}
		c.bodies.give(held)
	}()
}

// readAll reads a body of at most limit bytes, as io.ReadAll does, but counts
// the room that it takes and takes no more than is announced (-1: nothing is).
func (c *call) readAll(r io.Reader, announced, limit int64) ([]byte, error) {
	end := limit + 1 // so that the end of a body of limit bytes is seen
	if announced >= 0 {
		end = announced
	}
	var data []byte
	for {
		if len(data) == cap(data) {
			if int64(len(data)) >= end {
				return data, nil
			}
			size := min(end, max(firstRead, growth*int64(cap(data))))
			if err := c.hold(size - int64(cap(data))); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, size), data...)
		}
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
