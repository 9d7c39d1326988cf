package queue

import (
	"testing"
	"time"
)

// entry is when the lane is looked at next, from now; below zero: it is due. -1h: never.
func (b *bench) entry() time.Duration {
	b.t.Helper()
	d := b.dump()
	if d.due == 0 {
		return -time.Hour
	}
	t, err := b.db.Client().Time(b.t.Context()).Result()
	if err != nil {
		b.t.Fatal(err)
	}
	adj, _ := b.db.Client().HGet(b.t.Context(), b.keys.Clock(), "adj").Int64()
	return time.Duration(d.due-adj-t.UnixMicro()) * time.Microsecond
}

// A lane that is held is due when it may go on, whatever is done to it meanwhile and whoever does it.
func TestHeldLaneIsDueInTime(t *testing.T) {
	t.Parallel()
	settle := func(results func(l []Lease) []Result) func(*bench) {
		return func(b *bench) {
			leases := b.lease(3)
			b.turnAs("w2", Turn{Result: results(leases)})
		}
	}
	open := settle(func(l []Lease) []Result { return []Result{bad(l[0]), bad(l[1]), bad(l[2])} })
	cool := settle(func(l []Lease) []Result {
		return []Result{throttled(l[0], 2*time.Second, 0), delivered(l[1]), delivered(l[2])}
	})
	probe := func(b *bench) {
		open(b)
		b.pass(2100 * time.Millisecond)
		b.lease(1)
	}
	holds := map[string]struct {
		hold   func(*bench)
		latest time.Duration
	}{"open": {open, 2 * time.Second}, "cool": {cool, 2 * time.Second}, "probing": {probe, 16 * time.Second}}
	acts := map[string]func(b *bench){
		"nothing":     func(*bench) {},
		"push":        func(b *bench) { b.accept(newJob("")) },
		"turn":        func(b *bench) { b.holds("held") },
		"kept":        func(b *bench) { b.turnAs("w1", Turn{Want: 10, Keep: true, Ahead: 100 * time.Millisecond}) },
		"no senders":  func(b *bench) { b.turnAs("w1", Turn{Short: true, Ahead: 100 * time.Millisecond}) },
		"only settle": func(b *bench) { b.turnAs("w2", Turn{}) },
		"pause and resume": func(b *bench) {
			if _, err := b.s.Pause(b.t.Context(), b.lane, "x"); err != nil {
				b.t.Fatal(err)
			}
			b.turn(1)
			if _, err := b.s.Resume(b.t.Context(), b.lane); err != nil {
				b.t.Fatal(err)
			}
		},
		"apply": func(b *bench) { b.apply(perSecond(900), brittle) },
		"entry lost, push": func(b *bench) {
			if err := b.db.Client().ZRem(b.t.Context(), b.keys.Due(), b.lane).Err(); err != nil {
				b.t.Fatal(err)
			}
			b.accept(newJob(""))
		},
	}
	for held, h := range holds {
		for name, act := range acts {
			t.Run(held+" "+name, func(t *testing.T) {
				t.Parallel()
				onBoth(t, perSecond(1000), brittle, func(t *testing.T, b *bench) {
					b.accept(newJobs(10, "")...)
					h.hold(b)
					act(b)
					for range 20 { // looks that come earlier, as for a job whose back-off ends, find nothing to send
						in := b.entry()
						if in < -time.Minute || in > h.latest+100*time.Millisecond {
							t.Fatalf("due in %s", in)
						}
						b.pass(max(in, 0) + time.Millisecond)
						if r := b.turnAs("w3", Turn{Want: 10, Ahead: 100 * time.Millisecond}); len(r.Leases) > 0 {
							b.checkDump()
							return
						}
					}
					t.Error("twenty looks and nothing is sent")
				})
			})
		}
	}
}

// A contract without a breaker lets a lane go on that an open one held.
func TestContractWithoutABreakerIsDueAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), brittle, func(t *testing.T, b *bench) {
		b.broken(10, 0)
		b.apply(perSecond(1000), `"breaker":{"failures":0}`)
		if in := b.entry(); in > 0 {
			t.Errorf("due in %s", in)
		}
	})
}
