package sharedbucket

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	sec = int64(time.Second / time.Microsecond)
	day = 24 * 3600 * sec
	// start is a time of these years: doubles hold it in whole µs, and no finer.
	start = int64(1_790_000_000_123_456)
)

var rates = [][2]int64{ // rate, window µs
	{1, day}, {1, 366 * day}, {10_000, day}, {7, 11 * 60 * sec}, {1, 90 * sec}, {1, 2 * sec}, {3, sec}, {50, sec}, {115, sec}, {1, 10_000},
	{1500, sec}, {8000, sec}, {13_001, sec}, {50_000, sec}, {500, 10_000}, {3_000_000, 60 * sec}, {1_000_000_007, 366 * day},
}

func anyLimit(name string) *rapid.Generator[TwinLimit] {
	return rapid.Custom(func(t *rapid.T) TwinLimit {
		r := rapid.SampledFrom(rates).Draw(t, "rate")
		l := TwinLimit{Name: name, Algorithm: "leaky_bucket", Rate: r[0], Window: r[1], Burst: 1}
		if rapid.Bool().Draw(t, "token") {
			l.Algorithm = "token_bucket"
			most := min(1_000_000, 4_000_000_000_000_000/l.Window)
			l.Burst = min(most, rapid.SampledFrom([]int64{1, 2, 5, 60, 1000, 1_000_000}).Draw(t, "burst"))
		}
		return l
	})
}

func anyLimits(t *rapid.T, label string) []TwinLimit {
	list := []TwinLimit{anyLimit("a").Draw(t, label)}
	if rapid.IntRange(0, 3).Draw(t, "two") == 0 {
		list = append(list, anyLimit("b").Draw(t, label))
	}
	return list
}

// machine drives the script and the twin with the same steps.
type machine struct {
	b       *bench
	twin    *Twin
	limits  []TwinLimit
	now     int64
	width   int64
	guard   int64
	granted []int64 // slots that may be given back
	scaled  bool    // tokens may have been rescaled by a large window
}

// pass moves time by steps around what matters: a few µs, the slots' distance, the window.
func (m *machine) pass(t *rapid.T) {
	l := m.limits[0]
	gap := max(1, l.Window/l.Rate)
	most := rapid.SampledFrom([]int64{1, 3, 1000, gap, 4 * gap, 500_000, l.Window, 3 * l.Window}).Draw(t, "most")
	m.now += rapid.Int64Range(0, most).Draw(t, "pass")
}

func (m *machine) step(t *rapid.T) step {
	s := step{Limits: m.limits, Now: m.now, Guard: m.guard, Width: m.width, N: rapid.Int64Range(1, 60).Draw(t, "n"),
		Lead:    rapid.SampledFrom([]int64{0, 300, 1000, 20_000}).Draw(t, "lead"),
		Horizon: rapid.SampledFrom([]int64{0, 100_000, MaxHorizon}).Draw(t, "horizon"), K: rapid.Int64Range(0, 10_000).Draw(t, "k")}
	s.Op = rapid.SampledFrom([]string{"grant", "grant", "grant", "grant", "regrant", "refund", "refund", "lost"}).Draw(t, "op")
	switch {
	case s.Op == "regrant":
		s.K = rapid.Int64Range(0, s.N).Draw(t, "keep")
	case s.Op == "refund" && len(m.granted) > 0:
		i := rapid.IntRange(max(0, len(m.granted)-20), len(m.granted)-1).Draw(t, "slot")
		s.Slot = m.granted[i]
		m.granted = slices.Delete(m.granted, i, i+1)
	case s.Op == "refund":
		s.Op = "look"
	case s.Op == "lost" && rapid.IntRange(0, 5).Draw(t, "really") > 0:
		s.Op = "look"
	}
	return s
}

func (m *machine) follow(s step) []int64 {
	m.twin.Open(s.Limits, s.Now, s.Guard, s.Width)
	switch s.Op {
	case "grant":
		return m.twin.Grant(s.Now, s.Lead, s.Horizon, int(s.N))
	case "regrant":
		return m.twin.Regrant(s.Now, s.Lead, s.Horizon, int(s.N), int(s.K))
	case "refund":
		m.twin.Refund(s.Slot)
	case "lost":
		m.twin.Lost(s.Now)
	}
	return nil
}

func (m *machine) check(t *rapid.T, s step) {
	got, slots := m.b.run(t, s), m.follow(s)
	for _, l := range s.Limits {
		m.scaled = m.scaled || l.Window > 60*sec
	}
	m.granted = append(m.granted, slots...)
	want := stepReply{"ok", m.twin.Tolerance(), slots, m.twin.Earliest(s.Now + s.Lead), m.twin.After(s.Now+s.Lead, s.K), nil}
	for i, l := range s.Limits {
		text := m.twin.State(l.Name)
		want.States = append(want.States, text)
		if !plainState(got.States[i]) {
			t.Fatalf("state %q is not of whole numbers", got.States[i])
		}
	}
	// A forecast over k slots is in doubles; it may be off by its rounding.
	if d := got.After - want.After; d < -1-want.After/1e12 || d > 1+want.After/1e12 {
		t.Fatalf("%+v\n after: lua %d, twin %d\n%v\n%v", s, got.After, want.After, got, want)
	}
	got.After = want.After
	if a, b := fmt.Sprint(got), fmt.Sprint(want); a != b {
		if m.scaled && closeStates(got.States, want.States) {
			t.SkipNow() // one unit of 1/n token, from a product beyond what doubles hold
		}
		t.Fatalf("%+v\n lua  %v %s\n twin %v %s", s, got.States, a, want.States, b)
	}
}

// closeStates says whether no number of the states differs by more than one.
func closeStates(a, b []string) bool {
	f, g := strings.Split(strings.Join(a, ":"), ":"), strings.Split(strings.Join(b, ":"), ":")
	for i := range min(len(f), len(g)) {
		x, err1 := strconv.ParseInt(f[i], 10, 64)
		y, err2 := strconv.ParseInt(g[i], 10, 64)
		if err1 != nil || err2 != nil || x-y > 1 || y-x > 1 {
			return false
		}
	}
	return len(f) == len(g)
}

func plainState(s string) bool {
	return s != "" && strings.Trim(s, "0123456789:") == "" && !strings.Contains(s, "::") && s[0] != ':'
}

// TestLuaAnswersLikeItsTwin runs random histories, step by step, on both backends.
func TestLuaAnswersLikeItsTwin(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b, lanes := openBench(t, backend), 0
			rapid.Check(t, func(t *rapid.T) {
				lanes++
				b.fresh(fmt.Sprintf("lane-%d", lanes))
				m := &machine{b: b, twin: NewTwin(), limits: anyLimits(t, "limits"), now: start, guard: 5000}
				for range rapid.IntRange(1, 40).Draw(t, "steps") {
					m.pass(t)
					m.width = rapid.SampledFrom([]int64{0, 0, 0, 300, 80_000, 3_000_000}).Draw(t, "width")
					if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
						m.limits = anyLimits(t, "changed")
					}
					m.check(t, m.step(t))
				}
			})
		})
	}
}
