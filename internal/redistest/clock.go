package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Clock is the wall clock of a server, which the test may set. The monotonic
// clock stays true, as when an operator or a time service sets a real one.
type Clock struct {
	file string
	lib  string
}

// fakeTime is where distributions keep libfaketime.
var fakeTime = []string{
	"/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1", "/usr/lib64/faketime/libfaketimeMT.so.1",
}

// NewClock makes a clock that is right so far. Without libfaketime the test is
// skipped.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	c := &Clock{file: filepath.Join(t.TempDir(), "offset")}
	for _, pattern := range fakeTime {
		if found, _ := filepath.Glob(pattern); len(found) > 0 { // the patterns are ours: no error
			c.lib = found[0]
			c.Set(t, 0)
			return c
		}
	}
	t.Skip("libfaketime is not installed; tests that set the clock of Redis need it: sudo apt-get install -y faketime")
	return nil
}

// Set puts the clock off by that much from the true time, from now on.
func (c *Clock) Set(t testing.TB, offset time.Duration) {
	t.Helper()
	next := c.file + ".next" // renamed: the server never reads half of it
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+.6fs\n", offset.Seconds()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, c.file); err != nil {
		t.Fatal(err)
	}
}

// WithClock makes a server go by c.
func WithClock(c *Clock) Option {
	return func(s *Server) {
		s.env = append(s.env,
			// libc goes before jemalloc, which asks for the time before libfaketime can tell it.
			"LD_PRELOAD="+c.lib+":libc.so.6",
			"FAKETIME_TIMESTAMP_FILE="+c.file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1")
	}
}
