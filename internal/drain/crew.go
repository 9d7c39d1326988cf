package drain

import (
	"sync"
	"time"
)

// idleFor is how long a goroutine of the crew waits for more work.
const idleFor = 10 * time.Second

// crew runs functions beside the loop, each in a goroutine of its own. One
// that has ended takes the next function: its stack has grown to what a send
// needs, and growing it for each job cost a tenth of the worker's time.
type crew struct {
	wg   sync.WaitGroup
	work chan func()
	end  chan struct{} // closed: nobody waits for more
}

func newCrew() *crew { return &crew{work: make(chan func()), end: make(chan struct{})} }

// run starts f and returns at once.
func (c *crew) run(f func()) {
	select {
	case c.work <- f: // somebody was waiting
	default:
		c.wg.Go(func() { c.serve(f) })
	}
}

func (c *crew) serve(f func()) {
	idle := time.NewTimer(idleFor)
	defer idle.Stop()
	for {
		f()
		idle.Reset(idleFor)
		select {
		case f = <-c.work:
		case <-idle.C:
			return
		case <-c.end:
			return
		}
	}
}

// wait returns when everything that was started has ended. Nothing may be
// started any more.
func (c *crew) wait() {
	close(c.end)
	c.wg.Wait()
}
