package drain

import (
	"errors"
	"testing"
	"time"

	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// A worker whose move of a shard's clock somebody undid must not move it again;
// one that sees the next real step must.
func TestMovesThatWereUndone(t *testing.T) {
	t.Parallel()
	moved := mended(queue.ClockView{Confirmed: "5000", Move: -1_000_000}, time.Minute)
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
	if mended(queue.ClockView{Confirmed: "5", Move: 0}, time.Minute).at != 0 {
		t.Error("a call that was merely late counts as a move")
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
