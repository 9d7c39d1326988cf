package queue

import (
	"fmt"
	"testing"
	"time"
)

// A sweep mends each lane that needs it and leaves the others alone, so that
// many idle ones cost little.
func TestSweepMendsWhatNeedsIt(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, backend)
			ctx := t.Context()
			lane := func(name string) *bench {
				other := *b
				other.lane = name
				keys, err := b.db.Keys().Lane(name)
				if err != nil {
					t.Fatal(err)
				}
				other.keys = keys
				other.apply(perSecond(50), `"retention":{"finished":"1m"}`)
				return &other
			}
			for i := range 120 {
				lane(fmt.Sprint("idle-", i))
			}
			lost, done := lane("lost-entry"), lane("done")
			lost.accept(newJobs(1, "")...)
			if err := b.db.Client().ZRem(ctx, lost.keys.Due(), "lost-entry").Err(); err != nil {
				t.Fatal(err)
			}
			done.accept(newJobs(1, "")...)
			done.turn(0, settleAll(done.turn(1).Leases, KindDelivered)...)
			if err := b.db.Client().ZAdd(ctx, done.key("doneends"), zero(string(mustOne(t, b, done.key("doneends"))))).Err(); err != nil {
				t.Fatal(err)
			}
			before := b.db.Calls()
			r, err := b.s.Sweep(ctx, time.Millisecond)
			if err != nil || r != (Repairs{Entries: 1}) {
				t.Errorf("swept %+v, %v", r, err)
			}
			if calls := b.db.Calls() - before; calls > 60 {
				t.Errorf("%d calls for 122 lanes, 2 of which needed something", calls)
			}
			if n := b.db.Client().ZCard(ctx, done.key("doneends")).Val(); n != 0 {
				t.Errorf("%d finished jobs are kept beyond their time", n)
			}
			if r, err := b.s.Sweep(ctx, time.Millisecond); err != nil || r != (Repairs{}) {
				t.Errorf("swept again: %+v, %v", r, err)
			}
		})
	}
}

func mustOne(t *testing.T, b *bench, key string) []byte {
	t.Helper()
	all, err := b.db.Client().ZRange(t.Context(), key, 0, -1).Result()
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %v, %v", key, all, err)
	}
	return []byte(all[0])
}

// One sweep spreads over the time it is given.
func TestSweepSpreads(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), "")
	begin := time.Now()
	if _, err := b.s.Sweep(t.Context(), 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 180*time.Millisecond {
		t.Errorf("a sweep to be spread over 200ms took %s", took)
	}
}
