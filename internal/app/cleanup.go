package app

import "sync"

// cleanups are named and run last in first out, once, also when a start fails.
type cleanups struct {
	mu   sync.Mutex
	list []cleanup
}

type cleanup struct {
	name string
	run  func()
}

func (c *cleanups) add(name string, run func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, cleanup{name, run})
}

func (c *cleanups) run() {
	c.mu.Lock()
	list := c.list
	c.list = nil
	c.mu.Unlock()
	for i := len(list) - 1; i >= 0; i-- {
		list[i].run()
	}
}
