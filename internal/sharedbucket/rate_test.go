package sharedbucket

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// granted is a slot with the tolerance that came with it.
type granted struct{ slot, tolerance int64 }

// most is how many writes can fall into a half-open window when each comes at
// any time from its slot to slot + tolerance: windows that begin when a write is
// at its latest are the worst.
func most(slots []granted, window int64) (n int, at int64) {
	first := 0
	for i, g := range slots {
		x := g.slot + g.tolerance
		for first < i && slots[first].slot+MaxTolerance < x {
			first++
		}
		in := 0
		for j := first; j < len(slots) && slots[j].slot < x+window; j++ {
			if slots[j].slot+slots[j].tolerance >= x {
				in++
			}
		}
		if in > n {
			n, at = in, x
		}
	}
	return n, at
}

// TestRateHoldsInAnyWindow: through changing tolerances, rates and bursts,
// slots given back, forgotten memory and idle times, no sliding window can see
// more than rate + burst - 1 (of what was in force meanwhile, the largest of
// each), whenever within its tolerance each write comes.
func TestRateHoldsInAnyWindow(t *testing.T) {
	t.Parallel()
	for range 10 { // rare histories break it: many short ones are cheap
		rapid.Check(t, checkRate)
	}
}

func checkRate(t *rapid.T) {
	l := TwinLimit{Name: "a", Algorithm: rapid.SampledFrom([]string{"leaky_bucket", "token_bucket"}).Draw(t, "algorithm"),
		Window: rapid.SampledFrom([]int64{10_000, 500_000, sec, 3 * sec}).Draw(t, "window"), Rate: 1, Burst: 1}
	w, now, rate, burst := NewTwin(), start, int64(0), int64(0)
	var slots []granted
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		if rapid.IntRange(0, 7).Draw(t, "change") == 0 || rate == 0 {
			l.Rate = rapid.Int64Range(1, 40).Draw(t, "rate")
			if l.Algorithm == "token_bucket" {
				l.Burst = rapid.Int64Range(1, 20).Draw(t, "burst")
			}
		}
		rate, burst = max(rate, l.Rate), max(burst, l.Burst)
		now += rapid.Int64Range(0, rapid.SampledFrom([]int64{1000, l.Window / l.Rate, l.Window, 4 * l.Window}).Draw(t, "most")).Draw(t, "pass")
		w.Open([]TwinLimit{l}, now, 5000, rapid.SampledFrom([]int64{0, 0, 0, 90_000, 2 * sec}).Draw(t, "width"))
		horizon := rapid.SampledFrom([]int64{0, 100_000, MaxHorizon}).Draw(t, "horizon")
		switch rapid.IntRange(0, 9).Draw(t, "what") {
		case 0, 1, 2: // some slots come back unused
			for range min(len(slots), rapid.IntRange(1, 5).Draw(t, "back")) {
				i := len(slots) - 1 - rapid.IntRange(0, min(len(slots)-1, 10)).Draw(t, "which")
				w.Refund(slots[i].slot)
				slots = append(slots[:i], slots[i+1:]...)
			}
		case 3:
			if rapid.IntRange(0, 4).Draw(t, "lost") == 0 {
				w.Lost(now)
			}
		}
		for _, s := range w.Grant(now, 0, horizon, rapid.IntRange(0, 60).Draw(t, "n")) {
			slots = append(slots, granted{s, w.Tolerance()})
		}
	}
	if n, at := most(slots, l.Window); int64(n) > rate+burst-1 {
		t.Fatalf("%d writes in a window from %d, at most %d", n, at, rate+burst-1)
	}
}

// TestSlotsOfADayAreExact: with a backlog, the slots of a simulated day differ
// from rate × time by less than 0.01 %, and keep their microseconds.
func TestSlotsOfADayAreExact(t *testing.T) {
	t.Parallel()
	for _, r := range rates {
		for _, algorithm := range []string{"leaky_bucket", "token_bucket"} {
			t.Run(fmt.Sprintf("%s %d per %d", algorithm, r[0], r[1]), func(t *testing.T) {
				t.Parallel()
				l := TwinLimit{Name: "a", Algorithm: algorithm, Rate: r[0], Window: r[1], Burst: 1}
				w := NewTwin()
				w.Open([]TwinLimit{l}, start, 5000, 0)
				n := int(min(30_000, float64(day)*float64(r[0])/float64(r[1])+2))
				slots := w.Grant(start, 0, math.MaxInt64/4, n)
				span, want := float64(slots[n-1]-slots[0]), float64(r[1]+5000)/float64(r[0])*float64(n-1)
				if off := math.Abs(span-want) / want; off > 1e-4 || math.Abs(span-want) > 1+want*1e-9 {
					t.Errorf("%d slots over %.0f µs, want %.0f", n, span, want)
				}
			})
		}
	}
}

// TestSlotsOfADayFromTheScript runs a day of slots through Lua in few calls,
// each beginning where the last ended.
func TestSlotsOfADayFromTheScript(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		for _, r := range [][2]int64{{1, day}, {7, 11 * 60 * sec}, {3, 10 * sec}, {13_001, sec}, {50_000, sec}} {
			t.Run(fmt.Sprintf("%s %d per %d", backend, r[0], r[1]), func(t *testing.T) {
				t.Parallel()
				b := openBench(t, backend)
				s := step{Op: "grant", Limits: []TwinLimit{{"a", "leaky_bucket", r[0], r[1], 1}}, Now: start, Guard: 5000, N: 100}
				var first, last, n int64
				for range 200 {
					reply := b.run(t, s)
					for _, slot := range reply.Slots {
						if n == 0 {
							first = slot
						}
						n, last = n+1, slot
					}
					s.Now = reply.Earliest
					s.Horizon = 100 * r[1] / r[0]
				}
				want := float64(r[1]+5000) / float64(r[0]) * float64(n-1)
				if n < 150 || math.Abs(float64(last-first)-want) > 1 {
					t.Errorf("%d slots over %d µs, want %.3f", n, last-first, want)
				}
			})
		}
	}
}

// TestToleranceIsForgotten: one slow caller widens the spacing for two windows
// and what may still be used of them, not for ever.
func TestToleranceIsForgotten(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, backend)
			s := step{Op: "grant", Limits: []TwinLimit{{"a", "leaky_bucket", 50, sec, 1}}, Now: start, Guard: 5000, Width: 800_000, N: 1}
			if r := b.run(t, s); r.Tolerance != 802_000 {
				t.Fatalf("tolerance %d", r.Tolerance)
			}
			s.Width = 0
			var last int64
			for range 100 { // the lane stays busy
				s.Now += 100_000
				r := b.run(t, s)
				if s.Now-start < sec && r.Tolerance != 802_000 {
					t.Fatalf("after %d µs the tolerance is %d", s.Now-start, r.Tolerance)
				}
				last = r.Tolerance
			}
			r := b.run(t, step{Op: "grant", Limits: s.Limits, Now: s.Now, Guard: 5000, Horizon: MaxHorizon, N: 2})
			if last != 5000 || len(r.Slots) != 2 || r.Slots[1]-r.Slots[0] != (sec+5000)/50 {
				t.Errorf("10 s later the tolerance is %d, slots %v", last, r.Slots)
			}
		})
	}
}

func TestDamagedLimitsAreNotHalfRead(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	good := TwinLimit{"a", "leaky_bucket", 5, sec, 1}
	for _, limits := range [][]TwinLimit{
		{}, {good, {"b", "leaky_bucket", 0, sec, 1}}, {good, {"b", "leaky_bucket", -1, sec, 1}}, {{"b", "nothing", 1, sec, 1}, good},
		{good, {"b", "token_bucket", 1, sec, 0}}, {{"b", "leaky_bucket", 1, 0, 1}}, {good, good, good, good, good, good, good, good, good},
	} {
		if r := b.run(t, step{Op: "grant", Limits: limits, Now: start, N: 1}); r.Status != "damaged" {
			t.Errorf("%s: %+v", limitsText(limits), r)
		}
	}
}
