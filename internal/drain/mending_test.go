package drain

import (
	"errors"
	"testing"
	"time"

	"tundish/internal/redisdb"
)

// A worker whose move of a shard's clock somebody undid must not move it again;
// one that sees the next real step must.
func TestMovesThatWereUndone(t *testing.T) {
	t.Parallel()
	const raw = 7_000_000_000 // TIME, when the monotonic clock was at a minute
	moved := mended(5000, time.Minute, time.Minute+time.Millisecond, raw)
	for _, c := range []struct {
		adj  string
		now  time.Duration
		want bool
	}{
		{"5000", 2 * time.Minute, true},
		{"5300", 2 * time.Minute, true},      // back where it was, as far as anybody can tell
		{"-995000", 2 * time.Minute, false},  // as it was left: another step
		{"-1995000", 2 * time.Minute, false}, // others mended another step
		{"5000", time.Hour, false},
	} {
		if got := moved.undone(c.adj, c.now); got != c.want {
			t.Errorf("adj %s at %s: undone %v, want %v", c.adj, c.now, got, c.want)
		}
	}
	if (mending{}).undone("0", time.Minute) {
		t.Error("a clock that was never moved was undone")
	}
	later := 2 * time.Minute
	for name, c := range map[string]struct {
		rep  time.Duration
		time int64
		want bool
	}{
		"nothing happened":  {later + time.Millisecond, raw + 60_000_000, false},
		"a slow reply":      {later + 10*time.Second, raw + 65_000_000, false},
		"the clock slipped": {later + time.Millisecond, raw + 60_040_000, false},
		"set back":          {later + time.Millisecond, raw + 59_000_000, true},
		"set forward":       {later + time.Millisecond, raw + 61_000_000, true},
	} {
		if got := moved.outdated(later, c.rep, c.time); got != c.want {
			t.Errorf("%s: outdated %v, want %v", name, got, c.want)
		}
	}
}

// A gate that is asked before the slot stays shut.
func TestGateBeforeTheSlot(t *testing.T) {
	t.Parallel()
	now := redisdb.Monotonic()
	a := &attempt{d: New(Config{}, nil, nil, nil), lane: &lane{}, from: now + time.Hour, until: now + 2*time.Hour, wall: time.Now().Add(2 * time.Hour)}
	if err := a.gate(); !errors.Is(err, errEarly) {
		t.Errorf("the gate an hour before the slot: %v", err)
	}
	a.from = now
	if err := a.gate(); err != nil {
		t.Errorf("the gate at the slot: %v", err)
	}
}
