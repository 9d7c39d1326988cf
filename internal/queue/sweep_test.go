package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tundish/internal/redisdb"
)

// A sweep mends each lane that needs it and leaves the others alone, so that
// many idle ones cost little.
func TestSweepMendsWhatNeedsIt(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(50), "", func(t *testing.T, b *bench) {
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
		keyed := lane("old-key")
		j := newJob("")
		j.IdempotencyKey = "k"
		keyed.accept(j)
		keyed.turn(0, settleAll(keyed.turn(1).Leases, KindDelivered)...)
		b.db.Client().Del(ctx, keyed.key("done"), keyed.key("doneends"))
		b.db.Client().ZAdd(ctx, keyed.key("idemends"), zero(string(mustOne(t, b, keyed.key("idemends")))))
		before := b.db.Calls()
		r, err := b.s.Sweep(ctx, time.Millisecond)
		if err != nil || r != (Repairs{Entries: 1}) {
			t.Errorf("swept %+v, %v", r, err)
		}
		if calls := b.db.Calls() - before; calls > 90 {
			t.Errorf("%d calls for 123 lanes, 3 of which needed something", calls)
		}
		if n := b.db.Client().ZCard(ctx, keyed.key("idemends")).Val(); n != 0 {
			t.Errorf("%d keys are kept beyond their time", n)
		}
		if n := b.db.Client().ZCard(ctx, done.key("doneends")).Val(); n != 0 {
			t.Errorf("%d finished jobs are kept beyond their time", n)
		}
		if r, err := b.s.Sweep(ctx, time.Millisecond); err != nil || r != (Repairs{}) {
			t.Errorf("swept again: %+v, %v", r, err)
		}
	})
}

func mustOne(t *testing.T, b *bench, key string) []byte {
	t.Helper()
	all, err := b.db.Client().ZRange(t.Context(), key, 0, -1).Result()
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %v, %v", key, all, err)
	}
	return []byte(all[0])
}

// One sweep spreads over the time it is given: each part of the lanes takes its share.
func TestSweepSpreads(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	for i := range 40 { // on all shards
		b.lane = fmt.Sprint("lane-", i)
		b.apply(perSecond(50), "")
	}
	begin := time.Now()
	if _, err := b.s.Sweep(t.Context(), 400*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 380*time.Millisecond {
		t.Errorf("a sweep to be spread over 400ms took %s", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	before := b.db.Calls()
	if _, err := b.s.Sweep(ctx, time.Minute); err == nil {
		t.Error("a sweep that was cut short says nothing")
	}
	if calls := b.db.Calls() - before; calls > 16+3 {
		t.Errorf("%d calls in the first 100ms of a minute", calls)
	}
}

// A bound on history that was lowered holds for idle lanes too.
func TestSweepKeepsTheHistoryOfIdleLanesWithinItsBound(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), "")
	b.accept(newJobs(1000, "")...)
	for range 12 {
		b.turn(0, settleAll(b.turn(100).Leases, KindDelivered)...)
	}
	b.apply(perSecond(fast), `"queue":{"max_history_bytes":"64KiB"}`)
	if _, err := b.s.Sweep(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	h := b.db.Client().HGet(t.Context(), b.keys.State(), "hist").Val()
	n := b.db.Client().ZCard(t.Context(), b.key("doneends")).Val()
	if n > 320 {
		t.Errorf("%d results (%s bytes) are kept beside a bound of 64 KiB", n, h)
	}
}

// Nothing ends a job here any more: one sweep takes all that outlived its keeping.
func TestSweepTakesAllThatOutlivedItsKeeping(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(fast), "", func(t *testing.T, b *bench) {
		for range 5 {
			jobs := newJobs(100, "")
			for i, j := range jobs {
				j.IdempotencyKey = string(j.ID)
				if i < 60 {
					j.IdempotencyKey = ""
				}
			}
			b.accept(jobs...)
			leases := b.turn(100).Leases
			b.turn(0, settleAll(leases[:70], KindDelivered)...)
			b.turn(0, settleAll(leases[70:], KindDead)...)
		}
		ctx, sets := t.Context(), []string{"doneends", "idemends", "dead"}
		age := func() {
			for _, set := range sets {
				for _, id := range b.db.Client().ZRange(ctx, b.key(set), 0, -1).Val() {
					b.db.Client().ZAdd(ctx, b.key(set), zero(id))
				}
			}
		}
		// The key of a dead job lives on for a while when its job is gone.
		for range 2 {
			age()
			if r, err := b.s.Sweep(ctx, time.Millisecond); err != nil || r != (Repairs{}) {
				t.Errorf("%+v, %v", r, err)
			}
		}
		for _, set := range sets {
			if n := b.db.Client().ZCard(ctx, b.key(set)).Val(); n != 0 {
				t.Errorf("%d of %s are left", n, set)
			}
		}
		b.checkDump()
	})
}

// One shard whose list cannot be read must not keep the others from being swept.
func TestSweepBesideAShardThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), "")
	b.accept(newJobs(1, "")...)
	if err := b.db.Client().ZRem(t.Context(), b.keys.Due(), b.lane).Err(); err != nil {
		t.Fatal(err)
	}
	_, _, lanes := b.db.Keys().Shard((redisdb.ShardOf(b.lane) + 1) % redisdb.Shards)
	b.db.Client().Set(t.Context(), lanes, "x", 0)
	r, err := b.s.Sweep(t.Context(), time.Millisecond)
	if r.Entries != 1 {
		t.Errorf("swept %+v, %v", r, err)
	}
}
