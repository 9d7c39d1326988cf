package sharedbucket

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// asker asks for one slot at a time, at once or not at all, with no tolerance.
type asker struct {
	b     *bench
	t     *testing.T
	limit TwinLimit
}

func newAsker(t *testing.T, b *bench, algorithm string, rate, window, burst int64) *asker {
	return &asker{b: b, t: t, limit: TwinLimit{"a", algorithm, rate, window, burst}}
}

// ask says whether a slot was given, µs after start, and else how long to wait.
func (a *asker) ask(at int64) (ok bool, wait int64) {
	a.t.Helper()
	r := a.b.run(a.t, step{Op: "grant", Limits: []TwinLimit{a.limit}, Now: start + at, Width: -minTolerance, N: 1})
	return len(r.Slots) == 1, r.Earliest - (start + at)
}

// asks makes n asks at one time: A is allowed, r refused.
func (a *asker) asks(at int64, n int) (answers string, wait int64) {
	a.t.Helper()
	for range n {
		ok, w := a.ask(at)
		answers, wait = answers+map[bool]string{true: "A", false: "r"}[ok], w
	}
	return answers, wait
}

// tokens is what a bucket holds now.
func (a *asker) tokens(at int64) float64 {
	a.t.Helper()
	r := a.b.run(a.t, step{Op: "look", Limits: []TwinLimit{a.limit}, Now: start + at, Width: -minTolerance})
	var last, have, n int64
	if _, err := fmt.Sscanf(strings.ReplaceAll(r.States[0], ":", " "), "%d %d %d", &last, &have, &n); err != nil {
		a.t.Fatal(err)
	}
	return float64(have) / float64(n)
}

// onBoth runs a test on each backend.
func onBoth(t *testing.T, run func(t *testing.T, b *bench)) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			run(t, openBench(t, backend))
		})
	}
}

func TestTokenBucketVectors(t *testing.T) {
	type round struct {
		at      int64
		n       int
		answers string
		wait    int64
	}
	onBoth(t, func(t *testing.T, b *bench) {
		for i, tt := range []struct {
			burst, rate int64
			rounds      []round
		}{
			{5, 2, []round{{0, 7, "AAAAArr", sec / 2}, {sec, 3, "AAr", sec / 2}, {10 * sec, 6, "AAAAAr", sec / 2}}},
			{60, 1, []round{{0, 61, strings.Repeat("A", 60) + "r", sec}, {70 * sec, 61, strings.Repeat("A", 60) + "r", sec}}},
			{5, 1, []round{{0, 6, "AAAAAr", sec}, {20 * sec, 6, "AAAAAr", sec}}},
			{5, 1, []round{{0, 4, "AAAA", 0}, {2 * sec, 1, "A", 0}, {2 * sec, 3, "AAr", sec}}},
		} {
			b.fresh(fmt.Sprintf("vector-%d", i))
			a := newAsker(t, b, "token_bucket", tt.rate, sec, tt.burst)
			for _, r := range tt.rounds {
				if answers, wait := a.asks(r.at, r.n); answers != r.answers || wait != r.wait {
					t.Errorf("%d asks at %d: %s, wait %d; want %s, %d", r.n, r.at, answers, wait, r.answers, r.wait)
				}
			}
		}
	})
}

func TestLeakyBucketSpacesEvenly(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		for i, rate := range [][2]int64{{2, sec}, {50, sec}, {1, 10 * sec}, {1, 3600 * sec}, {1, day}, {1, 90 * sec}, {6, 60 * sec}} {
			b.fresh(fmt.Sprintf("even-%d", i))
			a, gap := newAsker(t, b, "leaky_bucket", rate[0], rate[1], 1), rate[1]/rate[0]
			for k := range int64(3) {
				if ok, _ := a.ask(k*gap - min(k, 1)); ok != (k == 0) {
					t.Errorf("%v: slot %d a µs early: %v", rate, k, ok)
				}
				if ok, wait := a.ask(k * gap); ok != (k > 0) || k > 0 && wait != gap {
					t.Errorf("%v: slot %d: %v, next in %d", rate, k, ok, wait)
				}
			}
		}
	})
}

// TestWaitIsExact: who waits as long as told gets a slot, who comes 2 ms early does not.
func TestWaitIsExact(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	for i := range 60 {
		b.fresh(fmt.Sprintf("wait-%d", i))
		a, at := newAsker(t, b, "token_bucket", 10, sec, 5), int64(0)
		for range rand.IntN(30) {
			at += rand.Int64N(200_000)
			a.ask(at)
		}
		ok, wait := true, int64(0)
		for ok {
			ok, wait = a.ask(at)
		}
		if wait > sec/10 || wait <= 0 {
			t.Errorf("wait %d", wait)
		}
		if wait > 2000 {
			if ok, _ := a.ask(at + wait - 2000); ok {
				t.Errorf("a slot 2 ms before the end of the wait of %d", wait)
			}
		}
		if ok, _ := a.ask(at + wait); !ok {
			t.Errorf("no slot after the wait of %d", wait)
		}
	}
}

// TestFrequentAsksGetTheRate: refused asks cost nothing, and nothing snaps back to full.
func TestFrequentAsksGetTheRate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		algorithm         string
		rate, burst, each int64
		seconds           int
		inSecond, inTen   int
		least, most       int
	}{
		{"token_bucket", 3, 3, 100_000, 60, 6, 33, 180, 183},
		{"leaky_bucket", 1, 1, 20_000, 30, 1, 10, 29, 31},
		{"token_bucket", 1, 1, 20_000, 30, 1, 10, 29, 31},
	} {
		t.Run(fmt.Sprintf("%s %d", tt.algorithm, tt.rate), func(t *testing.T) {
			t.Parallel()
			a := newAsker(t, openBench(t, "redis"), tt.algorithm, tt.rate, sec, tt.burst)
			var slots []granted
			for at := int64(0); at < int64(tt.seconds)*sec; at += tt.each {
				if ok, _ := a.ask(at); ok {
					slots = append(slots, granted{slot: at})
				}
			}
			one, _ := most(slots, sec)
			ten, _ := most(slots, 10*sec)
			if n := len(slots); n < tt.least || n > tt.most || one > tt.inSecond || ten > tt.inTen {
				t.Errorf("%d slots, %d in a second, %d in ten", n, one, ten)
			}
		})
	}
}

// TestTimeRunningBack: a clock that steps back takes no tokens and leaves no debt.
func TestTimeRunningBack(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		a := newAsker(t, b, "token_bucket", 1, sec, 5)
		n := 0
		for _, at := range []int64{100 * sec, 100 * sec, 100 * sec, 100 * sec, 100 * sec, 89 * sec, 100*sec + sec/2, 101*sec + sec/2} {
			ok, _ := a.ask(at)
			if ok {
				n++
			}
			if have := a.tokens(at); have < 0 || have > 5 {
				t.Errorf("%v tokens", have)
			}
			if at > 101*sec && !ok {
				t.Error("no slot when the clock is past the last one again")
			}
		}
		if n > 7 {
			t.Errorf("%d slots", n)
		}
	})
}

// TestChangedRateActsAtOnce, both ways, and never leaves more than a bucket holds.
func TestChangedRateActsAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		for i, used := range []int{97, 0} {
			b.fresh(fmt.Sprintf("lower-%d", i))
			a := newAsker(t, b, "token_bucket", 100, sec, 100)
			a.asks(0, max(used, 1))
			a.limit.Rate, a.limit.Burst = 1, 1
			if have := a.tokens(0); have < 0 || have > 1 {
				t.Errorf("after %d of 100, a bucket of 1 holds %v", used, have)
			}
			n := 0
			for at := int64(0); at < 10*sec; at += sec / 10 {
				if ok, _ := a.ask(at); ok {
					n++
				}
			}
			if n < 9 || n > 11 {
				t.Errorf("%d slots in the 10 s after", n)
			}
		}
		for i, algorithm := range []string{"leaky_bucket", "token_bucket"} {
			b.fresh(fmt.Sprintf("longer-%d", i))
			a := newAsker(t, b, algorithm, 6, 60*sec, 1)
			a.ask(0)
			a.limit.Rate, a.limit.Window = 1, day
			for _, at := range []int64{sec, 15 * sec, 11 * 60 * sec, day - 1000*sec} {
				if ok, wait := a.ask(at); ok || wait < 999*sec {
					t.Errorf("%s: slot at %d of a day: %v, wait %d", algorithm, at, ok, wait)
				}
			}
			a.limit.Rate, a.limit.Window = 6, 60*sec
			if ok, _ := a.ask(day - 900*sec); !ok {
				t.Errorf("%s: the shorter window is not in force", algorithm)
			}
		}
	})
}

// TestIdleTimeIsNotSavedUp beyond the burst, and released slots neither.
func TestIdleTimeIsNotSavedUp(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		a := newAsker(t, b, "token_bucket", 10, sec, 5)
		a.asks(0, 5)
		idle := 30 * day
		n := 0
		for at := idle; at < idle+sec; at += 10_000 {
			got, _ := a.asks(at, 3)
			n += strings.Count(got, "A")
		}
		if n != 14 { // 5 saved up and 9 of the 10 of the second: the tenth comes at its end
			t.Errorf("%d slots in the first second", n)
		}
		end := idle + sec
		for i := range int64(200) { // taken and given back at once
			at := end + i*25_000
			r := b.run(t, step{Op: "grant", Limits: []TwinLimit{a.limit}, Now: start + at, Width: -minTolerance, N: 1})
			for _, slot := range r.Slots {
				b.run(t, step{Op: "refund", Limits: []TwinLimit{a.limit}, Now: start + at, Width: -minTolerance, Slot: slot})
			}
			if have := a.tokens(at); have > 5 {
				t.Fatalf("%v tokens", have)
			}
		}
		if got, _ := a.asks(end+200*25_000, 7); got != "AAAAArr" {
			t.Errorf("after giving everything back: %s", got)
		}
	})
}

// TestFastRates: thousands per second are spaced to the microsecond, no more and no fewer.
func TestFastRates(t *testing.T) {
	t.Parallel()
	for _, rate := range []int64{1500, 5000, 8000, 50_000} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			t.Parallel()
			a := newAsker(t, openBench(t, "redis"), "leaky_bucket", rate, sec, 1)
			n := int64(0)
			for at := int64(0); at < sec/5; at += 100_000_000 / rate / 2 {
				r := a.b.run(t, step{Op: "grant", Limits: []TwinLimit{a.limit}, Now: start + at, Width: -minTolerance, N: 100,
					Horizon: min(100_000_000/rate, sec/5-at-1)})
				n += int64(len(r.Slots))
			}
			if want := rate / 5; n > want+1 || n < want-1 {
				t.Errorf("%d slots in 200 ms, want %d", n, want)
			}
		})
	}
}
