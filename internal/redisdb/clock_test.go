package redisdb

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const base = int64(1_780_000_000_000_000) // a Redis time, µs

// width is how far the bounds are apart, µs.
func width(c *Clock, now time.Duration) int64 {
	_, w, _ := c.Expect(now)
	return w
}

func TestClockIntersects(t *testing.T) {
	t.Parallel()
	var c Clock
	if _, _, ok := c.Bounds(0); ok {
		t.Fatal("an empty clock has bounds")
	}
	if _, _, ok := c.Window(base, 0, 0); ok {
		t.Fatal("an empty clock has a window")
	}
	ms := time.Millisecond
	// The true offset is -base: logical = base + monotonic µs.
	observe := func(request, at, reply time.Duration) {
		t.Helper()
		if step, stepped := c.Observe(request, reply, base+at.Microseconds()); stepped {
			t.Fatalf("a step of %v", step)
		}
	}
	observe(0, 1*ms, 2*ms)
	wide := width(&c, 2*ms)
	if wide < 2000 || wide > 2010 {
		t.Fatalf("width after 2 ms round trip is %d µs", wide)
	}
	observe(10*ms, 10*ms, 10*ms+200*time.Microsecond)
	narrow := width(&c, 11*ms)
	if narrow < 200 || narrow > 210 {
		t.Fatalf("width after 0.2 ms round trip is %d µs", narrow)
	}
	observe(20*ms, 900*ms, 3*time.Second) // slow: costs nothing
	if w := width(&c, 3*time.Second); w > narrow+320 {
		t.Fatalf("a slow call widened the bounds to %d µs", w)
	}
}

func TestClockWidensWithAge(t *testing.T) {
	t.Parallel()
	var c Clock
	c.Observe(0, 0, base)
	for _, s := range []int64{1, 10, 100} {
		w := width(&c, time.Duration(s)*time.Second)
		if want := 2*50*s + 1; w != want {
			t.Errorf("width after %d s is %d µs, want %d", s, w, want)
		}
	}
}

func TestClockReportsStep(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{30 * time.Second, -30 * time.Second, 60 * time.Millisecond, -60 * time.Millisecond} {
		var c Clock
		c.Observe(0, time.Millisecond, base)
		now := 10 * time.Millisecond
		got, stepped := c.Observe(now, now+time.Millisecond, base+(now+step).Microseconds())
		if !stepped {
			t.Errorf("step of %v was not reported", step)
		}
		if d := (got - step).Abs(); d > 3*time.Millisecond {
			t.Errorf("step of %v is reported as %v", step, got)
		}
		earliest, width, _ := c.Expect(now)
		if at := base + (now + step).Microseconds(); at < earliest || at > earliest+width {
			t.Errorf("after a step of %v: logical time %d is not in [%d, %d]", step, at, earliest, earliest+width)
		}
	}
}

func TestClockIgnoresImpossibleCall(t *testing.T) {
	t.Parallel()
	var c Clock
	c.Observe(time.Second, 0, base)
	if _, _, ok := c.Bounds(0); ok {
		t.Fatal("a reply before its request was taken in")
	}
}

// world is a true relation of the two clocks: logical time runs at 1 + ppm/1e6
// of monotonic time and steps now and then.
type world struct {
	logical float64 // µs beyond base at mono
	mono    time.Duration
	ppm     float64
}

func (w *world) pass(d time.Duration) {
	w.mono += d
	w.logical += float64(d.Nanoseconds()) / 1000 * (1 + w.ppm/1e6)
}

func (w *world) micros() int64 { return base + int64(w.logical) }

// call makes a round trip with the given delays and lets the clock see it.
func (w *world) call(c *Clock, there, back time.Duration) (time.Duration, bool) {
	request := w.mono
	w.pass(there)
	t := w.micros()
	w.pass(back)
	return c.Observe(request, w.mono, t)
}

func delay(t *rapid.T, name string) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(300*time.Millisecond)).Draw(t, name))
}

// For any offset, delays and drift the bounds hold the truth, no step is
// reported, and a write inside the window is inside the slot's tolerance.
func TestClockHoldsTruth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c Clock
		w := world{logical: 1e9, mono: time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "start"))}
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			w.ppm = rapid.Float64Range(-49, 49).Draw(t, "ppm")
			w.pass(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "pause")))
			if step, stepped := w.call(&c, delay(t, "there"), delay(t, "back")); stepped {
				t.Fatalf("a step of %v that was none", step)
			}
			w.pass(delay(t, "later"))
			earliest, width, _ := c.Expect(w.mono)
			if m := w.micros(); m < earliest || m > earliest+width {
				t.Fatalf("logical time %d is not in [%d, %d]", m, earliest, earliest+width)
			}
			lower, upper, _ := c.Bounds(w.mono)
			if off := w.mono.Microseconds() - w.micros(); off < lower-1 || off > upper+1 {
				t.Fatalf("offset %d is not in [%d, %d]", off, lower, upper)
			}
		}
		slot, tol := w.micros()+rapid.Int64Range(0, 200_000).Draw(t, "ahead"), int64(1_000_000)
		from, until, _ := c.Window(slot, tol, w.mono)
		for _, at := range []time.Duration{from, until} {
			end := w
			end.pass(max(0, at-w.mono))
			if m := end.micros(); at >= w.mono && (m < slot-1 || m > slot+tol+1) {
				t.Fatalf("a write at %v is at %d, slot %d, tolerance %d", at, m-slot, slot, tol)
			}
		}
	})
}

// Every step larger than the width of the bounds and the delay is reported,
// with its sign.
func TestClockReportsEveryLargeStep(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c Clock
		w := world{logical: 1e9, ppm: rapid.Float64Range(-49, 49).Draw(t, "ppm")}
		for range rapid.IntRange(1, 5).Draw(t, "calls") {
			w.pass(delay(t, "pause"))
			w.call(&c, delay(t, "there"), delay(t, "back"))
		}
		there, back := delay(t, "there"), delay(t, "back")
		wide := width(&c, w.mono+there+back)
		size := wide + (there + back).Microseconds() + 100 + rapid.Int64Range(0, 1e8).Draw(t, "beyond")
		if rapid.Bool().Draw(t, "backward") {
			size = -size
		}
		w.logical += float64(size)
		step, stepped := w.call(&c, there, back)
		if !stepped || (step > 0) != (size > 0) {
			t.Fatalf("a step of %d µs is reported as %v, %v", size, step, stepped)
		}
		earliest, after, _ := c.Expect(w.mono)
		if m := w.micros(); m < earliest || m > earliest+after {
			t.Fatalf("after the step %d is not in [%d, %d]", m, earliest, earliest+after)
		}
	})
}

// Replies that are taken in out of order narrow the same bounds.
func TestClockTakesRepliesInAnyOrder(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	var c Clock
	c.Observe(50*ms, 60*ms, base+55_000)
	c.Observe(10*ms, 11*ms, base+10_500)
	if w := width(&c, 60*ms); w < 1000 || w > 1010 {
		t.Fatalf("width is %d µs, want that of the older, better call", w)
	}
}

// Step tells what Observe would report, and changes nothing.
func TestClockStepOnlyLooks(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	var c Clock
	if _, known := c.Step(0, ms, base); known {
		t.Fatal("an empty clock knows a step")
	}
	c.Observe(0, ms, base)
	before, _, _ := c.Bounds(20 * ms)
	if step, known := c.Step(10*ms, 11*ms, base+10_000); !known || step != 0 {
		t.Errorf("a fitting reply is a step of %v, %v", step, known)
	}
	jumped := base + 10_000 + 5_000_000
	looked, _ := c.Step(10*ms, 11*ms, jumped)
	if after, _, _ := c.Bounds(20 * ms); after != before {
		t.Errorf("looking moved the lower bound from %d to %d", before, after)
	}
	if seen, stepped := c.Observe(10*ms, 11*ms, jumped); !stepped || seen != looked {
		t.Errorf("Step says %v, Observe %v, %v", looked, seen, stepped)
	}
}
