package queue

import (
	"testing"
	"time"
)

func TestToken(t *testing.T) {
	t.Parallel()
	b := openBench(t, "miniredis")
	ctx := t.Context()
	want := func(text string) {
		t.Helper()
		if got, err := b.s.Token(ctx, b.lane); got != text || err != nil {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
	}
	lock := func(free bool) {
		t.Helper()
		if got, err := b.s.LockToken(ctx, b.lane, 10*time.Second); got != free || err != nil {
			t.Errorf("locked %v, %v, want %v", got, err, free)
		}
	}
	want("")
	for _, lasts := range []time.Duration{time.Minute, 0, -time.Second} { // one that has ended is not kept
		if err := b.s.SaveToken(ctx, b.lane, "k:"+lasts.String(), lasts); err != nil {
			t.Fatal(err)
		}
	}
	want("k:1m0s")
	lock(true)
	lock(false)
	if err := b.s.UnlockToken(ctx, b.lane); err != nil {
		t.Fatal(err)
	}
	lock(true)
	b.mini.FastForward(11 * time.Second)
	lock(true)
	b.mini.FastForward(time.Minute)
	want("")
	if _, err := b.s.Token(ctx, "No Lane!"); err == nil {
		t.Error("a name that cannot be is taken")
	}
}
