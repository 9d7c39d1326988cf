package bank

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestGateAdmitsAllThatFitsAndNothingElse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const window = 20
		allowed := rapid.IntRange(1, 6).Draw(t, "allowed")
		g := newGate(int64(allowed), window)
		var admitted []int64
		now := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			now += rapid.Int64Range(0, 8).Draw(t, "pause")
			at := now - rapid.Int64Range(0, window-1).Draw(t, "late")
			with := append(slices.Clone(admitted), at)
			fits := worstByHand(with, window) <= allowed
			ok, wait := g.admit(at)
			if ok != fits {
				t.Fatalf("admit(%d) = %v after %v, allowed %d", at, ok, admitted, allowed)
			}
			if !ok && (wait < 0 || wait > 2*window) {
				t.Fatalf("admit(%d) asks for a wait of %d", at, wait)
			}
			if ok {
				admitted = with
			}
		}
	})
}

func TestGateSaysHowLongToWait(t *testing.T) {
	t.Parallel()
	g := newGate(2, time.Second)
	for _, c := range []struct {
		at   time.Duration
		ok   bool
		wait time.Duration
	}{
		{0, true, 0},
		{300 * time.Millisecond, true, 0},
		{400 * time.Millisecond, false, 600 * time.Millisecond},
		{time.Second - 1, false, 1},
		{time.Second, true, 0},
	} {
		if ok, wait := g.admit(int64(c.at)); ok != c.ok || wait != c.wait {
			t.Errorf("admit(%v) = %v, %v, want %v, %v", c.at, ok, wait, c.ok, c.wait)
		}
	}
}

func TestGateMemoryIsBounded(t *testing.T) {
	t.Parallel()
	g := newGate(10, time.Second)
	for i := range int64(100_000) {
		if ok, _ := g.admit(i * int64(time.Second) / 10); !ok {
			t.Fatalf("request %d refused at the rate", i)
		}
	}
	if n := cap(g.admitted); n > 1000 {
		t.Errorf("the gate of 10 holds %d stamps", n)
	}
}

func TestLedgerForgetsTheOldest(t *testing.T) {
	t.Parallel()
	l := ledger{keep: 80}
	for i := range int64(1000) {
		l.add(Arrival{At: i})
		all, forgotten := l.all()
		if len(all) > 80 || forgotten+int64(len(all)) != i+1 {
			t.Fatalf("after %d: %d kept, %d forgotten", i+1, len(all), forgotten)
		}
		if i >= 80 && len(all) < 70 {
			t.Fatalf("after %d: only %d kept", i+1, len(all))
		}
		if last := all[len(all)-1].At; last != i {
			t.Fatalf("after %d: the latest is %d", i+1, last)
		}
	}
	l.reset()
	if all, forgotten := l.all(); len(all) != 0 || forgotten != 0 {
		t.Errorf("after reset: %d kept, %d forgotten", len(all), forgotten)
	}
}
