package bank

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// worstByHand tries every window that begins at a stamp: no other holds more.
func worstByHand(stamps []int64, window time.Duration) int {
	worst := 0
	for _, begin := range stamps {
		n := 0
		for _, s := range stamps {
			if s >= begin && s < begin+int64(window) {
				n++
			}
		}
		worst = max(worst, n)
	}
	return worst
}

func TestWorstIsWhatTryingEveryWindowFinds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stamps := rapid.SliceOfN(rapid.Int64Range(0, 60), 0, 40).Draw(t, "stamps")
		window := time.Duration(rapid.Int64Range(1, 70).Draw(t, "window"))
		before := slices.Clone(stamps)
		if got, want := Worst(stamps, window), worstByHand(stamps, window); got != want {
			t.Fatalf("Worst(%v, %d) = %d, want %d", stamps, window, got, want)
		}
		if !slices.Equal(before, stamps) {
			t.Fatal("Worst changed its argument")
		}
	})
}

func TestWorstAtTheEdges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stamps []int64
		window time.Duration
		want   int
	}{
		"none":                  {nil, 10, 0},
		"one":                   {[]int64{5}, 10, 1},
		"exactly a window":      {[]int64{0, 10}, 10, 1},
		"one less than that":    {[]int64{0, 9}, 10, 2},
		"both ends of two":      {[]int64{0, 9, 10, 19, 20}, 10, 2},
		"all at once":           {[]int64{7, 7, 7}, 1, 3},
		"not in order":          {[]int64{30, 0, 31, 1, 32}, 10, 3},
		"below zero":            {[]int64{-5, 4, 5}, 10, 2},
		"a window of nothing":   {[]int64{1, 1}, 0, 0},
		"the end is the busier": {[]int64{0, 100, 101, 102}, 10, 3},
	} {
		if got := Worst(c.stamps, c.window); got != c.want {
			t.Errorf("%s: Worst = %d, want %d", name, got, c.want)
		}
	}
}

func TestAllowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate, burst int64
		per, spread time.Duration
		want        int64
	}{
		{50, 1, time.Second, 0, 50},
		{50, 0, time.Second, 0, 50},
		{50, 5, time.Second, 0, 54},
		{50, 1, time.Second, 1, 51},
		{50, 1, time.Second, 20 * time.Millisecond, 51},
		{50, 1, time.Second, 20*time.Millisecond + 1, 52},
		{50, 1, time.Second, -time.Second, 50},
		{50, 1, time.Second, 3 * time.Second, 200},
		{1_000_000, 1, 720 * time.Hour, 719 * time.Hour, 1_000_000 + 998_612}, // 998,611.1: beyond 64 bits on the way
	} {
		if got := Allowed(c.rate, c.burst, c.per, c.spread); got != c.want {
			t.Errorf("Allowed(%d, %d, %v, %v) = %d, want %d", c.rate, c.burst, c.per, c.spread, got, c.want)
		}
	}
}

func TestUse(t *testing.T) {
	t.Parallel()
	second := int64(time.Second)
	for name, c := range map[string]struct {
		stamps []int64
		want   float64
	}{
		"none":         {nil, 0},
		"one":          {[]int64{1}, 0},
		"at once":      {[]int64{1, 1}, 0},
		"all of it":    {[]int64{0, second / 2, second}, 1},
		"half of it":   {[]int64{second, 0}, 0.5},
		"more than it": {[]int64{0, second / 4}, 2},
	} {
		if got := Use(c.stamps, 2, time.Second); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: Use = %v, want %v", name, got, c.want)
		}
	}
}

func TestGaps(t *testing.T) {
	t.Parallel()
	if p50, p99 := Gaps([]int64{4}); p50 != 0 || p99 != 0 {
		t.Errorf("Gaps of one stamp = %v, %v", p50, p99)
	}
	stamps := []int64{0}
	for gap := int64(100); gap >= 1; gap-- { // 100 gaps: 1 to 100
		stamps = append(stamps, stamps[len(stamps)-1]+gap)
	}
	slices.Reverse(stamps)
	if p50, p99 := Gaps(stamps); p50 != 50 || p99 != 99 {
		t.Errorf("Gaps = %d, %d, want 50, 99", p50, p99)
	}
}

func TestDuplicatesAreSuccessesOfOneKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrivals []Arrival
		want     int
	}{
		"a retry":               {[]Arrival{{Job: "a", Status: 429}, {Job: "a", Status: 500}, {Job: "a", Status: 200}}, 0},
		"hung up, then done":    {[]Arrival{{Job: "a"}, {Job: "a", Status: 200}}, 0},
		"twice":                 {[]Arrival{{Job: "a", Status: 200}, {Job: "b", Status: 200}, {Job: "a", Status: 204}}, 1},
		"three times":           {[]Arrival{{Job: "a", Status: 200}, {Job: "a", Status: 200}, {Job: "a", Status: 200}}, 2},
		"two jobs with one key": {[]Arrival{{Job: "a", Key: "k", Status: 200}, {Job: "b", Key: "k", Status: 200}}, 1},
		"without a name":        {[]Arrival{{Status: 200}, {Status: 200}}, 0},
	} {
		if got := Duplicates(c.arrivals); got != c.want {
			t.Errorf("%s: Duplicates = %d, want %d", name, got, c.want)
		}
	}
}
