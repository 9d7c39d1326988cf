package queue

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"tundish/internal/job"
)

func (b *bench) setPaused(paused bool) {
	b.t.Helper()
	var err error
	if paused {
		_, err = b.s.Pause(context.Background(), b.lane, "test")
	} else {
		_, err = b.s.Resume(context.Background(), b.lane)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestPauseHoldsEveryKindOfJob: retries, delays, recovered leases, redriven and new
// jobs wait while paused, and all go after one resume.
func TestPauseHoldsEveryKindOfJob(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), "")
	dead := newJobs(5, "d")
	b.endAs(KindDead, dead...)
	b.accept(newJobs(10, "a")...)
	leases := b.leaseAll(10)
	retries := settleAll(leases[:5], KindRetry)
	for i := range retries {
		retries[i].Delay = 3 * time.Second
	}
	b.turn(0, retries...)
	delayed := newJobs(5, "b")
	for _, j := range delayed {
		j.Delay = 4 * time.Second
	}
	b.accept(delayed...)
	b.setPaused(true)
	b.accept(newJobs(5, "c")...)
	for _, j := range dead {
		if _, err := b.s.Redrive(context.Background(), b.lane, j.ID); err != nil {
			t.Error(err)
		}
	}
	for range 6 {
		b.pass(4 * time.Second)
		if r := b.turn(100); len(r.Leases) != 0 || r.Why != "paused" {
			t.Fatalf("while paused: %d leases, %s", len(r.Leases), r.Why)
		}
	}
	if live := b.live(); live.Ready != 25 || live.State != "paused" {
		t.Errorf("%+v", live)
	}
	b.setPaused(false)
	got := b.leaseAll(25)
	checkDistinct(t, got, 25)
	b.turn(0, settleAll(got, KindDelivered)...)
	if d := b.checkDump(); len(d.jobs) != 0 {
		t.Errorf("%d jobs are left", len(d.jobs))
	}
}

// TestPauseIsKept through an apply, and the contract's own pause is another flag.
func TestPauseIsKept(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), "")
	b.accept(newJob(""))
	b.setPaused(true)
	b.apply(perSecond(60), `"paused":true`)
	if live := b.live(); live.State != "paused" || len(live.StateReasons) != 2 {
		t.Errorf("%+v", live)
	}
	b.setPaused(false)
	if r := b.turn(1); r.Why != "paused" {
		t.Errorf("the contract's pause is gone: %s", r.Why)
	}
	b.setPaused(true)
	b.apply(perSecond(60), "")
	if r := b.turn(1); r.Why != "paused" {
		t.Errorf("the operator's pause is gone: %s", r.Why)
	}
	b.setPaused(false)
	if r := b.turn(1); len(r.Leases) != 1 {
		t.Errorf("%s", r.Why)
	}
}

// TestPauseRaisesTheEpoch, so that workers give back what was granted before,
// and tells how long that may still be used.
func TestPauseRaisesTheEpoch(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), "")
	b.accept(newJobs(20, "")...)
	r := b.turn(20)
	effective, err := b.s.Pause(context.Background(), b.lane, "")
	if err != nil || effective <= 200*time.Millisecond || effective > 500*time.Millisecond {
		t.Errorf("effective in %v, %v", effective, err)
	}
	if after := b.turn(0); after.Epoch != r.Epoch+1 {
		t.Errorf("epoch %d after %d", after.Epoch, r.Epoch)
	}
	if d := b.apply(perSecond(5), ""); d.EffectiveIn <= 200*time.Millisecond || d.EffectiveIn > effective+time.Second {
		t.Errorf("a changed contract is effective in %v", d.EffectiveIn)
	}
	if d := b.apply(perSecond(5), ""); d.EffectiveIn != 0 {
		t.Errorf("the same contract again is effective in %v", d.EffectiveIn)
	}
}

// TestPauseOfALongQueueIsCheap and loses nothing, also when flipped while workers turn.
func TestPauseOfALongQueueIsCheap(t *testing.T) {
	t.Parallel()
	const many = 4000
	b := openBench(t, "redis")
	b.apply(perSecond(fast), `"max_in_flight":20000,"queue":{"capacity":10000}`)
	b.accept(newJobs(many, "a")...)
	begin := time.Now()
	b.setPaused(true)
	b.setPaused(false)
	if d := time.Since(begin); d > time.Second {
		t.Errorf("pause and resume took %v", d)
	}
	var flips sync.WaitGroup
	flips.Go(func() {
		for range 50 {
			b.setPaused(rand.IntN(2) == 0)
		}
		b.setPaused(false)
	})
	leases := b.turnsAtOnce(2, 100, func(n int) bool { return n >= many })
	flips.Wait()
	checkDistinct(t, leases, many)
	b.checkDump()
}

// TestStateSurvivesDelete: a lane made again goes on behind the slots of the old
// one, and takes nothing else from it.
func TestStateSurvivesDelete(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), openBench(t, "redis")
	slow := `{"name":"slow","algorithm":"leaky_bucket","rate":1,"per":"1h"}`
	b.apply(slow, "")
	keyed := newJob("a")
	keyed.IdempotencyKey = "k"
	b.accept(keyed)
	b.accept(newJobs(450, "a")...)
	l := b.turn(1).Leases[0]
	if _, err := b.s.Delete(ctx, b.lane, 0, true); err != nil {
		t.Fatal(err)
	}
	if r := b.turn(0, delivered(l)); r.Status != TurnNoLane || r.Verdicts[0] != "gone" {
		t.Errorf("a late result: %+v", r)
	}
	if d := b.apply(slow, ""); d.Generation != 2 || d.Live.Depth != 0 {
		t.Errorf("%+v", d)
	}
	for _, id := range []job.ID{l.ID, keyed.ID} {
		if _, err := b.s.Job(ctx, b.lane, id); job.CodeOf(err) != job.CodeJobNotFound {
			t.Errorf("job %s of the old lane: %v", id, err)
		}
	}
	again := newJob("a")
	again.IdempotencyKey = "k"
	b.accept(again)
	if r := b.turn(1); len(r.Leases) != 0 || r.Why != "slot" {
		t.Errorf("a slot at once after delete: %+v", r)
	}
	b.pass(time.Hour + time.Minute)
	if r := b.turn(1); len(r.Leases) != 1 {
		t.Errorf("no slot an hour later: %s", r.Why)
	}
	b.checkDump()
}

// Slots that a slow worker may use late keep the next ones apart, also those of a
// limit that got another name, or of a lane that was made again.
func TestChangesForgetNoTolerance(t *testing.T) {
	t.Parallel()
	const renamed = `{"name":"rate","algorithm":"leaky_bucket","rate":10,"per":"1s"}`
	for name, change := range map[string]func(b *bench){
		"renamed": func(b *bench) { b.apply(renamed, "") },
		"one more": func(b *bench) {
			b.apply(renamed+`,{"name":"minute","algorithm":"leaky_bucket","rate":600,"per":"1m"}`, "")
		},
		"one that was":    func(b *bench) { b.apply(renamed, ""); b.apply(perSecond(10), "") },
		"made again":      func(b *bench) { b.remake(perSecond(10)) },
		"made otherwise":  func(b *bench) { b.remake(renamed) },
		"faulty meantime": func(b *bench) { b.db.Client().HSet(b.t.Context(), b.keys.Conf(), "cap", "x"); b.apply(renamed, "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, perSecond(10), "", func(t *testing.T, b *bench) {
				b.accept(newJobs(40, "")...)
				first := b.turn(1)
				b.pass(3 * time.Second)
				slow := ClockView{Expect: first.Logical + 3_000_000, Width: 600_000}
				b.turnAs("w2", Turn{Want: 1, Ahead: 400 * time.Millisecond, Clock: slow})
				b.pass(1100 * time.Millisecond)
				b.turn(1)
				b.pass(900 * time.Millisecond)
				last := b.turn(1)
				b.pass(200 * time.Millisecond)
				own := b.turn(1) // the slow one is no longer counted with
				if len(last.Leases) != 1 || last.Tolerance < 600*time.Millisecond || own.Tolerance > 100*time.Millisecond {
					t.Fatalf("%d leases for %v, then for %v", len(last.Leases), last.Tolerance, own.Tolerance)
				}
				change(b)
				b.accept(newJobs(40, "")...)
				b.pass(300 * time.Millisecond)
				r := b.turn(9)
				if len(r.Leases) < 2 {
					t.Fatalf("%d leases", len(r.Leases))
				}
				for i := 1; i < len(r.Leases); i++ {
					if gap := r.Leases[i].Slot - r.Leases[i-1].Slot; gap < 160_000 {
						t.Errorf("slots %d µs apart, while others may be used 600 ms late", gap)
					}
				}
			})
		})
	}
}

// remake deletes the lane and makes it again.
func (b *bench) remake(limits string) {
	b.t.Helper()
	if _, err := b.s.Delete(b.t.Context(), b.lane, 0, true); err != nil {
		b.t.Fatal(err)
	}
	b.apply(limits, "")
}

// TestLostMemoryStartsLate: a worker that was granted a slot the lane does not
// remember, or a server that is another, means that slots may have been used.
func TestLostMemoryStartsLate(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(b *bench, t *Turn){
		"server":   func(b *bench, _ *Turn) { b.db.Client().HSet(context.Background(), b.keys.State(), "srv", "another") },
		"state":    func(b *bench, _ *Turn) { b.db.Client().Del(context.Background(), b.keys.State()) },
		"rollback": func(b *bench, tn *Turn) { tn.MyLast = b.dump().number("last") + 100_000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, "redis")
			b.apply(perSecond(10), "")
			b.accept(newJobs(10, "")...)
			if r := b.turn(1); r.LostMemory {
				t.Fatal("a new lane has lost its memory")
			}
			turn := Turn{Want: 5, Ahead: 400 * time.Millisecond}
			lose(b, &turn)
			r := b.turnAs("w1", turn)
			if !r.LostMemory || len(r.Leases) != 0 {
				t.Errorf("%+v", r)
			}
			late := int64(0)
			if name == "state" { // slots may have been granted for a second, and not for 5 ms
				late = 995_000
			}
			b.pass(1600 * time.Millisecond)
			again := b.turn(5)
			if again.LostMemory || len(again.Leases) == 0 || again.Leases[0].Slot < r.Logical+400_000+late+100_000 {
				t.Errorf("later: %d leases, %v", len(again.Leases), again.LostMemory)
			}
		})
	}
}
