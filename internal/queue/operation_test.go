package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"tundish/internal/job"
)

func (b *bench) begin(r OperationRequest) *Operation {
	b.t.Helper()
	r.Destination = b.lane
	op, err := b.s.StartOperation(context.Background(), r)
	if err != nil {
		b.t.Fatal(err)
	}
	if op.State != OperationQueued || op.ID == "" || op.CreatedAt.IsZero() {
		b.t.Fatalf("%+v", op)
	}
	return op
}

// goOn makes steps of an operation until it ends or waits.
func (b *bench) goOn(op *Operation) *Operation {
	b.t.Helper()
	for {
		p, err := b.s.Advance(context.Background(), OperationRef{op.ID, op.Destination})
		if err != nil {
			b.t.Fatal(err)
		}
		if p.Ended || p.Waiting {
			break
		}
	}
	now, err := b.s.Operation(context.Background(), op.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	return now
}

// wantOperation compares state and counts: total, seen, matched, done, failed.
func wantOperation(t *testing.T, op *Operation, state OperationState, counts ...int64) {
	t.Helper()
	got := []int64{op.Total, op.Seen, op.Matched, op.Done, op.Failed}
	if op.State != state || fmt.Sprint(got) != fmt.Sprint(counts) || op.State.Ended() == op.FinishedAt.IsZero() {
		t.Errorf("%s with %v %v, want %s with %v", op.State, got, op.Failures, state, counts)
	}
}

func TestOperationRedrivesWhatTheFilterChooses(t *testing.T) {
	t.Parallel()
	eachBackend(t, "", func(t *testing.T, b *bench) {
		short := newJobs(3, "b")
		for _, j := range short {
			j.ExpiresAt = time.Now().Add(time.Hour)
		}
		b.endAs(KindDead, newJobs(250, "a")...)
		b.endAs(KindDead, short...)
		b.endAs(KindUnknown, newJobs(5, "a")...)
		dead := Filter{States: []job.State{job.Dead}}
		wantOperation(t, b.goOn(b.begin(OperationRequest{Kind: OperationRedrive, Filter: dead, DryRun: true})), OperationDone, 258, 258, 253, 0, 0)
		wantOperation(t, b.goOn(b.begin(OperationRequest{Kind: OperationRedrive, Filter: dead, Max: 120})), OperationDone, 258, 120, 120, 120, 0)
		a := dead
		a.Tenant = "a"
		op := b.begin(OperationRequest{Kind: OperationRedrive, Filter: a})
		b.endAs(KindDead, newJob("a")) // dead since it began: not its business
		wantOperation(t, b.goOn(op), OperationDone, 138, 138, 130, 130, 0)
		if live := b.live(); live.Depth != 250 || live.Dead+live.Unknown != 9 {
			t.Errorf("%+v", live)
		}
		wantOperation(t, b.goOn(op), OperationDone, 138, 138, 130, 130, 0) // an ended one does nothing
	})
}

// TestOperationLeavesRoomForProducers: it waits while the queue is 90 % full, and goes on.
func TestOperationLeavesRoomForProducers(t *testing.T) {
	t.Parallel()
	eachBackend(t, `"queue":{"capacity":20}`, func(t *testing.T, b *bench) {
		b.endAs(KindDead, newJobs(10, "a")...)
		b.endAs(KindDead, newJobs(10, "a")...)
		b.endAs(KindDead, newJobs(10, "a")...)
		op := b.begin(OperationRequest{Kind: OperationRedrive, Filter: Filter{States: []job.State{job.Dead}}})
		if p, err := b.s.Advance(t.Context(), OperationRef{op.ID, op.Destination}); !p.Waiting || !p.Moved || err != nil {
			t.Errorf("%+v, %v", p, err)
		}
		if p, err := b.s.Advance(t.Context(), OperationRef{op.ID, op.Destination}); !p.Waiting || p.Moved || err != nil {
			t.Errorf("%+v, %v", p, err)
		}
		wantOperation(t, b.goOn(op), OperationWaiting, 30, 18, 18, 18, 0)
		b.checkDump()
		b.accept(newJobs(2, "")...)
		b.turn(0, settleAll(b.turn(10).Leases, KindDelivered)...)
		wantOperation(t, b.goOn(op), OperationWaiting, 30, 26, 26, 26, 0)
		b.turn(0, settleAll(b.turn(20).Leases, KindDelivered)...)
		wantOperation(t, b.goOn(op), OperationDone, 30, 30, 30, 30, 0)
	})
}

// TestOperationSaysWhatFailed: what must not or cannot be sent again is counted, and stays.
func TestOperationSaysWhatFailed(t *testing.T) {
	t.Parallel()
	b := openBench(t, "miniredis")
	now := time.UnixMicro(1_790_000_000_000_000)
	b.mini.SetTime(now)
	b.apply(perSecond(fast), "")
	jobs := newJobs(6, "")
	jobs[1].ExpiresIn, jobs[4].ExpiresIn = time.Minute, time.Minute
	b.endAs(KindDead, jobs...)
	b.mini.SetTime(now.Add(2 * time.Minute))
	op := b.goOn(b.begin(OperationRequest{Kind: OperationRedrive, Filter: Filter{States: []job.State{job.Dead}}}))
	wantOperation(t, op, OperationDone, 6, 6, 6, 4, 2)
	if op.Failures["expired"] != 2 {
		t.Errorf("%v", op.Failures)
	}
	b.checkDump()
}

func TestOperationPurges(t *testing.T) {
	t.Parallel()
	eachBackend(t, "", func(t *testing.T, b *bench) {
		b.endAs(KindDead, newJobs(110, "a")...)
		b.endAs(KindDelivered, newJobs(7, "a")...)
		late := newJobs(4, "b")
		for _, j := range late {
			j.Delay = 30 * time.Second
		}
		b.accept(late...)
		b.accept(newJobs(130, "c")...)
		held := b.turn(5).Leases
		states := []job.State{job.Ready, job.Scheduled, job.Dead}
		wantOperation(t, b.goOn(b.begin(OperationRequest{Kind: OperationPurge, Filter: Filter{States: states}, DryRun: true})), OperationDone, 239, 239, 239, 0, 0)
		wantOperation(t, b.goOn(b.begin(OperationRequest{Kind: OperationPurge, Filter: Filter{States: states}})), OperationDone, 239, 239, 239, 239, 0)
		live := b.live()
		if live.Depth != 5 || live.Leased != 5 || live.Dead != 0 {
			t.Errorf("%+v", live)
		}
		page, err := b.s.Jobs(context.Background(), b.lane, Query{Filter: Filter{States: []job.State{job.Cancelled}}, Limit: 500})
		if err != nil || len(page.Jobs) != 129 || page.Jobs[0].Tenant == "" {
			t.Errorf("%d cancelled, %v", len(page.Jobs), err)
		}
		ended := Filter{States: []job.State{job.Delivered, job.Cancelled}}
		wantOperation(t, b.goOn(b.begin(OperationRequest{Kind: OperationPurge, Filter: ended})), OperationDone, 136, 136, 136, 136, 0)
		b.turn(0, settleAll(held, KindDelivered)...)
		if d := b.checkDump(); len(d.jobs) != 0 || len(d.done) != 5 || d.number("bytes") != 0 {
			t.Errorf("%d jobs, %d ended", len(d.jobs), len(d.done))
		}
	})
}

// However many jobs a purge ends, their results keep to the bound.
func TestPurgeKeepsTheHistoryWithinItsBound(t *testing.T) {
	t.Parallel()
	eachBackend(t, `"queue":{"max_history_bytes":"64KiB"}`, func(t *testing.T, b *bench) {
		const jobs = 1200
		b.accept(newJobs(jobs, "a")...)
		purge := OperationRequest{Kind: OperationPurge, Filter: Filter{States: []job.State{job.Ready}}}
		wantOperation(t, b.goOn(b.begin(purge)), OperationDone, jobs, jobs, jobs, jobs, 0)
		d := b.checkDump()
		if n := d.number("hist"); n > 64<<10 || n == 0 {
			t.Errorf("%d results of %d bytes are kept beside a bound of 64 KiB", len(d.done), n)
		}
	})
}

func TestOperationIsCancelled(t *testing.T) {
	t.Parallel()
	eachBackend(t, "", func(t *testing.T, b *bench) {
		ctx := context.Background()
		b.endAs(KindDead, newJobs(250, "a")...)
		op := b.begin(OperationRequest{Kind: OperationRedrive, Filter: Filter{States: []job.State{job.Dead}}})
		ref := OperationRef{op.ID, op.Destination}
		if p, err := b.s.Advance(ctx, ref); err != nil || p.Ended {
			t.Fatalf("%+v, %v", p, err)
		}
		for range 2 {
			if op, err := b.s.CancelOperation(ctx, op.ID); err != nil || op.State != OperationCancelled {
				t.Errorf("%+v, %v", op, err)
			}
		}
		wantOperation(t, b.goOn(op), OperationCancelled, 250, 50, 50, 50, 0)
		if idle, err := b.s.IdleOperations(ctx, 0); err != nil || len(idle) != 0 {
			t.Errorf("%v, %v", idle, err)
		}
		_, err := b.s.CancelOperation(ctx, "nobody")
		wantCode(t, "another", err, job.CodeOperationNotFound)
	})
}

// TestOperationOfADeletedDestination ends, and touches nothing of its successor.
func TestOperationOfADeletedDestination(t *testing.T) {
	t.Parallel()
	eachBackend(t, "", func(t *testing.T, b *bench) {
		ctx := context.Background()
		b.endAs(KindDead, newJobs(3, "a")...)
		dead := Filter{States: []job.State{job.Dead}}
		first, second := b.begin(OperationRequest{Kind: OperationRedrive, Filter: dead}), b.begin(OperationRequest{Kind: OperationRedrive, Filter: dead})
		purge := b.begin(OperationRequest{Kind: OperationPurge, Filter: Filter{States: []job.State{job.Ready}}})
		if _, err := b.s.Delete(ctx, b.lane, 0, true); err != nil {
			t.Fatal(err)
		}
		if op := b.goOn(first); op.State != OperationFailed || op.Error == "" {
			t.Errorf("%+v", op)
		}
		b.apply(perSecond(fast), "")
		b.endAs(KindDead, newJobs(4, "a")...)
		b.push(newJobs(2, "a")...)
		wantOperation(t, b.goOn(second), OperationFailed, 3, 0, 0, 0, 0)
		wantOperation(t, b.goOn(purge), OperationFailed, 0, 0, 0, 0, 0)
		if live := b.live(); live.Dead != 4 || live.Ready != 2 {
			t.Errorf("%+v", live)
		}
	})
}

// TestOperationsAreBounded: the oldest that have ended go; what is under way is refused to be pushed out.
func TestOperationsAreBounded(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), "")
	r := OperationRequest{Kind: OperationPurge, Filter: Filter{States: []job.State{job.Dead}}, Destination: b.lane}
	b.goOn(b.begin(r))
	for range maxOperations - 1 {
		b.begin(r)
	}
	last := b.begin(r) // takes the place of the ended one
	_, err := b.s.StartOperation(context.Background(), r)
	wantCode(t, "one more", err, job.CodeOverloaded)
	ops, err := b.s.Operations(context.Background())
	if err != nil || len(ops) != maxOperations || ops[0].State != OperationQueued {
		t.Fatalf("%d operations, %v", len(ops), err)
	}
	b.goOn(last)
	b.begin(r)
	keys, err := b.db.Client().Keys(context.Background(), "*"+b.db.Keys().Namespace()+"*op~*").Result()
	if err != nil || len(keys) != maxOperations {
		t.Errorf("%d hashes of operations, %v", len(keys), err)
	}
}

// TestRedriveOfManyAmongProducers: operations that several advance at once, while
// a producer pushes and workers drain and kill some again: each is redriven once,
// the queue keeps its bound, and the count is exact.
func TestRedriveOfManyAmongProducers(t *testing.T) {
	t.Parallel()
	const many, capacity = 10_000, 1500
	b := openBench(t, "redis")
	b.apply(perSecond(fast), `"max_in_flight":1000,"retention":{"dead_max":20000},"queue":{"capacity":1500}`)
	for range many / 1000 {
		b.endAs(KindDead, newJobs(1000, fmt.Sprint("t", rand.IntN(3)))...)
	}
	op := b.begin(OperationRequest{Kind: OperationRedrive, Filter: Filter{States: []job.State{job.Dead}}})
	ref, ctx := OperationRef{op.ID, op.Destination}, t.Context()
	var workers, producer sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		workers.Go(func() {
			for {
				if p, err := b.s.Advance(ctx, ref); err != nil || p.Ended {
					if err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	refused, pushed := 0, 0
	producer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			r, err := b.s.Push(ctx, b.lane, newJobs(10, "producer"))
			if err != nil {
				t.Error(err)
				return
			}
			pushed += count(r, Accepted)
			refused += len(r) - count(r, Accepted)
		}
	})
	sent, last, most := map[job.ID]int{}, int64(0), int64(0)
	drain := func() int {
		r := b.turn(100)
		results := settleAll(r.Leases, KindDelivered)
		for i, l := range r.Leases {
			if gap := l.Slot - last; gap < 0 {
				t.Errorf("slots go back by %d", gap)
			}
			last = l.Slot
			sent[l.ID]++
			if n := DecodeNote(l.History).Redrives; n > 1 {
				t.Errorf("%s was redriven %d times", l.ID, n)
			} else if n == 1 && i%50 == 0 {
				results[i].Kind, results[i].Note = KindDead, l.History // and dies again
			}
		}
		b.turn(0, results...)
		most = max(most, b.live().Depth)
		return len(r.Leases)
	}
	done := make(chan struct{})
	go func() { workers.Wait(); close(stop); producer.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
			drain()
		}
	}
	for drain() > 0 {
	}
	got, err := b.s.Operation(context.Background(), op.ID)
	if err != nil {
		t.Fatal(err)
	}
	wantOperation(t, got, OperationDone, many, many, many, many, 0)
	if most > capacity || pushed == 0 || len(sent) != many+pushed {
		t.Errorf("at most %d jobs, %d of %d sent; the producer got %d in and %d refused", most, len(sent), many+pushed, pushed, refused)
	}
	b.checkDump()
}
