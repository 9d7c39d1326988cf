package redisdb

import (
	"sync"
	"time"
)

var processStart = time.Now()

// Monotonic is the time since this process started, by a clock that nobody
// sets. It stands still while the machine sleeps.
func Monotonic() time.Duration { return time.Since(processStart) }

// driftPPM is how far apart two good clocks may run: 50 µs per second.
const driftPPM = 50

// Clock maps the logical time of one shard (Redis TIME + adj, µs) to the
// monotonic time of this process. Each reply shows that the offset, monotonic
// minus logical, lay in [request − t, reply − t]. The clock keeps what all
// replies have in common, so the best round trip counts and a slow one costs
// nothing; with age the bounds widen by what two clocks may drift.
//
// The zero value knows nothing yet. It is safe for concurrent use.
type Clock struct {
	mu           sync.Mutex
	known        bool
	lower, upper int64 // bounds of the offset at ref, ns
	ref          int64 // monotonic ns
}

// Observe takes in one reply: when the request began and the reply was read
// (Monotonic), and the logical time in it. When the reply contradicts all
// earlier ones, it replaces them, and the step is how far logical time jumped:
// forward is positive. A slow call is never a step.
func (c *Clock) Observe(request, reply time.Duration, logicalMicros int64) (step time.Duration, stepped bool) {
	if reply < request {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ref := max(c.ref, int64(reply))
	lower, upper := shown(ref, request, reply, logicalMicros)
	if !c.known {
		c.known, c.lower, c.upper, c.ref = true, lower, upper, ref
		return 0, false
	}
	oldLower, oldUpper := c.at(ref)
	c.ref = ref
	if lower > oldUpper || upper < oldLower {
		c.lower, c.upper = lower, upper
		return time.Duration(middle(oldLower, oldUpper) - middle(lower, upper)), true
	}
	c.lower, c.upper = max(lower, oldLower), min(upper, oldUpper)
	return 0, false
}

// Step says how far a reply contradicts what is known, and takes nothing in:
// 0 when it fits, forward is positive. known is false when nothing is known yet.
func (c *Clock) Step(request, reply time.Duration, logicalMicros int64) (step time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return 0, false
	}
	ref := max(c.ref, int64(reply))
	lower, upper := shown(ref, request, reply, logicalMicros)
	oldLower, oldUpper := c.at(ref)
	if lower > oldUpper || upper < oldLower {
		step = time.Duration(middle(oldLower, oldUpper) - middle(lower, upper))
	}
	return step, true
}

// shown is what one reply shows of the offset at ref, ns.
func shown(ref int64, request, reply time.Duration, logicalMicros int64) (lower, upper int64) {
	widen := drift(ref - int64(request))
	t := logicalMicros * 1000
	// Redis cuts off the part of its time below a microsecond.
	return int64(request) - t - 1000 - widen, int64(reply) - t + widen
}

// Forget makes the clock know nothing, as after a failover.
func (c *Clock) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.lower, c.upper, c.ref = false, 0, 0, 0
}

// Bounds are the bounds of monotonic minus logical time at a moment, µs.
func (c *Clock) Bounds(now time.Duration) (lower, upper int64, ok bool) {
	l, u, ok := c.bounds(now)
	return floorMicros(l), -floorMicros(-u), ok
}

// Expect says where logical time stands at a moment: not before earliest, and
// not after earliest + width, µs.
func (c *Clock) Expect(now time.Duration) (earliest, width int64, ok bool) {
	l, u, ok := c.bounds(now)
	if !ok {
		return 0, 0, false
	}
	earliest = floorMicros(int64(now) - u)
	latest := -floorMicros(-(int64(now) - l))
	return earliest, latest - earliest, true
}

// Window says between which moments a request may be written that has the slot
// and the tolerance: in the shard's logical time it is then in
// [slot, slot + tolerance], whatever the offset is within its bounds. When
// until is before from, the clock does not know enough for this tolerance.
func (c *Clock) Window(slotMicros, tolMicros int64, now time.Duration) (from, until time.Duration, ok bool) {
	_, u, ok := c.bounds(now)
	if !ok {
		return 0, 0, false
	}
	// The bounds must hold when the request is written, not only now.
	last := max(now, time.Duration((slotMicros+tolMicros)*1000+u))
	l, u, _ := c.bounds(last)
	return time.Duration(slotMicros*1000 + u), time.Duration((slotMicros+tolMicros)*1000 + l), true
}

func (c *Clock) bounds(now time.Duration) (lower, upper int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return 0, 0, false
	}
	l, u := c.at(int64(now))
	return l, u, true
}

// at widens the bounds by their age; a moment before ref has the bounds of ref.
func (c *Clock) at(now int64) (lower, upper int64) {
	w := drift(now - c.ref)
	return c.lower - w, c.upper + w
}

// drift is by how much an offset may have changed in age ns, rounded up.
func drift(age int64) int64 {
	if age <= 0 {
		return 0
	}
	return (age*driftPPM + 999_999) / 1_000_000
}

func middle(a, b int64) int64 { return a + (b-a)/2 }

func floorMicros(ns int64) int64 {
	if ns < 0 {
		return -((-ns + 999) / 1000)
	}
	return ns / 1000
}
