package queue

import (
	"context"
	"slices"
	"testing"
	"time"

	"tundish/internal/job"
)

// TestDeleteTakesOneCall, however much the lane holds.
func TestDeleteTakesOneCall(t *testing.T) {
	t.Parallel()
	held := func(t *testing.T, b *bench) {
		t.Helper()
		ctx := context.Background()
		b.endAs(KindDead, newJobs(300, "a")...)
		b.endAs(KindDelivered, newJobs(300, "b")...)
		late := newJobs(100, "c")
		for _, j := range late {
			j.Delay, j.IdempotencyKey = 30*time.Second, string(j.ID)
		}
		b.accept(late...)
		b.accept(newJobs(2000, "d")...)
		b.turn(50)
		before := b.db.Calls()
		if _, err := b.s.Delete(ctx, b.lane, 0, true); err != nil {
			t.Fatal(err)
		}
		if n := b.db.Calls() - before; n > 4 { // a look, and the delete, whose script may have to be loaded
			t.Errorf("%d calls", n)
		}
		d := b.dump()
		if p := d.problems(true); len(p) > 0 || d.due != 0 || len(d.ready)+len(d.waiting)+len(d.leased)+len(d.done)+len(d.tries) > 0 {
			t.Errorf("it left %v", p)
		}
		if keys := b.db.Client().Keys(ctx, "*:"+b.lane+":*").Val(); len(keys) > 1 && b.mini != nil {
			t.Errorf("it left %v", keys)
		}
	}
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, backend)
			b.apply(perSecond(fast), "")
			held(t, b)
		})
	}
}

// TestOldLeasesTouchNothingOfASuccessor: results, and calls whose reply was lost,
// of a lane that was deleted come when there is another of its name.
func TestOldLeasesTouchNothingOfASuccessor(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, backend)
			b.apply(perSecond(fast), `"max_in_flight":10`)
			b.accept(newJobs(10, "a")...)
			old := b.turnAs("w1", Turn{Want: 10, Ahead: 400 * time.Millisecond})
			lost := LostCall{Call: b.call, From: old.Logical, To: old.Logical + 60_000_000}
			if _, err := b.s.Delete(context.Background(), b.lane, 0, true); err != nil {
				t.Fatal(err)
			}
			b.apply(perSecond(fast), `"max_in_flight":10`)
			jobs := newJobs(12, "a")
			b.accept(jobs...)
			if b.mini != nil {
				b.mini.SetTime(time.Now().Add(time.Second)) // behind the slots of the old one
			} else {
				b.pass(time.Second)
			}
			fresh := b.turnAs("w1", Turn{Want: 12, Ahead: 400 * time.Millisecond}) // the old leases count for nothing
			if len(fresh.Leases) != 10 || fresh.Why != "cap" {
				t.Fatalf("%d leases, %s", len(fresh.Leases), fresh.Why)
			}
			var results []Result
			for i, l := range old.Leases {
				kind := []Kind{KindDelivered, KindDead, KindRetry, KindReturn, KindRelease}[i%5]
				results = append(results, settleAll([]Lease{l}, kind)...)
			}
			r := b.turnAs("w1", Turn{Lost: []LostCall{lost}, Result: results})
			if slices.ContainsFunc(r.Verdicts, func(v string) bool { return v != "gone" }) {
				t.Errorf("%v", r.Verdicts)
			}
			for _, l := range fresh.Leases {
				if got := b.state(l.ID); got != job.Leased {
					t.Errorf("%s is %s", l.ID, got)
				}
			}
			if d := b.checkDump(); len(d.jobs) != 12 || len(d.done)+len(d.dead) != 0 {
				t.Errorf("%d jobs, %d ended", len(d.jobs), len(d.done)+len(d.dead))
			}
		})
	}
}
