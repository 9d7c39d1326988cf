package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

const fast = 50_000 // per second

// turnsAtOnce lets n workers turn until stop says so, and collects their leases.
func (b *bench) turnsAtOnce(n, want int, done func(leases int) bool) []Lease {
	b.t.Helper()
	var mu sync.Mutex
	var all []Lease
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for call := uint64(1); ; call++ {
				t := Turn{Lane: b.lane, Call: call, Want: want, Ahead: 400 * time.Millisecond}
				r := b.s.Turns(context.Background(), fmt.Sprintf("p%d", i), []Turn{t})[0]
				mu.Lock()
				all = append(all, r.Leases...)
				stop := r.Err != nil || done(len(all))
				mu.Unlock()
				if r.Err != nil {
					b.t.Error(r.Err)
				}
				if stop {
					return
				}
			}
		})
	}
	wg.Wait()
	return all
}

func checkDistinct(t *testing.T, leases []Lease, want int) {
	t.Helper()
	ids := map[job.ID]bool{}
	for _, l := range leases {
		ids[l.ID] = true
	}
	if len(leases) != want || len(ids) != want {
		t.Errorf("%d leases of %d jobs, want %d", len(leases), len(ids), want)
	}
}

func (b *bench) leaseAll(n int) []Lease {
	b.t.Helper()
	var all []Lease
	for len(all) < n {
		r := b.turn(100)
		if len(r.Leases) == 0 {
			b.t.Fatalf("%d of %d leases: %s", len(all), n, r.Why)
		}
		all = append(all, r.Leases...)
	}
	return all
}

// TestRecoveredAtOnceByMany: each lease that ran out comes back once, with one crash.
func TestRecoveredAtOnceByMany(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), `"max_in_flight":300`)
	b.accept(newJobs(300, "")...)
	b.leaseAll(300)
	b.pass(17 * time.Second)
	leases := b.turnsAtOnce(6, 100, func(n int) bool { return n >= 300 })
	checkDistinct(t, leases, 300)
	for _, l := range leases {
		if l.Crashes != 1 || l.Sent != 1 {
			t.Fatalf("crashes %d, sent %d", l.Crashes, l.Sent)
		}
	}
	b.checkDump()
}

// TestDueAtOnceMoveOnce: many movers, each job once.
func TestDueAtOnceMoveOnce(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), `"max_in_flight":2000`)
	jobs := newJobs(2000, "")
	for _, j := range jobs {
		j.Delay = 5 * time.Second
	}
	b.accept(jobs...)
	if r := b.turn(10); len(r.Leases) > 0 {
		t.Fatal("a job before its time")
	}
	b.pass(5 * time.Second)
	checkDistinct(t, b.turnsAtOnce(8, 100, func(n int) bool { return n >= 2000 }), 2000)
	b.checkDump()
}

// TestWaitingHoldsNoLease: neither a delay nor a full limit uses up a lease's time.
func TestWaitingHoldsNoLease(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(`{"name":"slow","algorithm":"leaky_bucket","rate":1,"per":"30s"}`, "")
	delayed := newJob("")
	delayed.Delay = 50 * time.Second
	b.accept(append(newJobs(2, ""), delayed)...)
	var got []Lease
	for range 10 {
		r := b.turn(10)
		if len(r.Leases) > 1 {
			t.Errorf("%d leases at once", len(r.Leases))
		}
		got = append(got, r.Leases...)
		b.turn(0, settleAll(r.Leases, KindDelivered)...)
		b.pass(10 * time.Second)
	}
	checkDistinct(t, got, 3)
	for _, l := range got {
		if l.Crashes != 0 || l.Sent != 0 {
			t.Errorf("%+v", l)
		}
	}
}

// TestThreeCrashesAreTheEnd, and only leases whose slot had come count.
func TestThreeCrashesAreTheEnd(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(1000), "")
	j := newJob("")
	b.accept(j)
	for i := range 3 {
		r := b.turn(1)
		if len(r.Leases) != 1 || r.Leases[0].Crashes != i {
			t.Fatalf("lease %d: %+v", i, r.Leases)
		}
		if _, err := b.s.Start(context.Background(), b.lane, destination.Memory, r.Leases); err != nil {
			t.Fatal(err)
		}
		b.pass(16 * time.Second)
	}
	b.turn(1)
	st, err := b.s.Job(context.Background(), b.lane, j.ID)
	if err != nil || st.State != job.Dead || st.Outcome != "worker_crashed" || st.Job == nil {
		t.Errorf("%+v, %v", st, err)
	}
	b.checkDump()
}

// TestMendFindsLostEntries: whatever index lost its entries, the jobs come back.
func TestMendFindsLostEntries(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"leased", "waiting", "ready"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			ctx, b := context.Background(), openBench(t, "redis")
			b.apply(perSecond(fast), "")
			jobs := newJobs(20, "a")
			for _, j := range jobs {
				j.ExpiresIn = time.Hour
				if lost == "waiting" {
					j.Delay = 30 * time.Second
				}
			}
			b.accept(jobs...)
			if lost == "leased" {
				b.leaseAll(20)
			}
			if err := b.db.Client().Del(ctx, b.key(lost), b.key("due")).Err(); err != nil {
				t.Fatal(err)
			}
			total := Repairs{}
			for range 3 {
				r, _, err := b.s.mend(ctx, b.lane)
				if err != nil {
					t.Fatal(err)
				}
				total.Entries, total.Leases = total.Entries+r.Entries, total.Leases+r.Leases
			}
			if total.Leases != 20 || total.Entries != 1 {
				t.Errorf("repaired %+v", total)
			}
			b.checkDump()
			checkDistinct(t, b.leaseAll(20), 20)
		})
	}
}

// TestMendRestoresTheDueEntry and counts it.
func TestMendRestoresTheDueEntry(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), openBench(t, "redis")
	b.apply(perSecond(50), "")
	b.accept(newJob(""))
	b.db.Client().ZRem(ctx, b.keys.Due(), b.lane)
	if r, _, err := b.s.mend(ctx, b.lane); err != nil || r != (Repairs{Entries: 1}) {
		t.Errorf("%+v, %v", r, err)
	}
	if b.dump().due == 0 {
		t.Error("no entry")
	}
}

// TestUnreadableJobsAreBuried with a reason; the others go on.
func TestUnreadableJobsAreBuried(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"ready", "waiting", "leased"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			ctx, b := context.Background(), openBench(t, "redis")
			b.apply(perSecond(fast), "")
			jobs := newJobs(50, "a")
			if where == "waiting" {
				for _, j := range jobs {
					j.Delay = time.Second
				}
			}
			b.accept(jobs...)
			if where == "leased" {
				b.leaseAll(50)
			}
			future, _ := json.Marshal(map[string]int{"version": 9})
			for i, text := range []string{"\x00\xff random", string(future)} {
				id := string(jobs[i].ID)
				b.db.Client().HSet(ctx, b.key("jobs"), id, text)
				b.db.Client().HDel(ctx, b.key("tries"), id)
			}
			b.pass(17 * time.Second)
			checkDistinct(t, b.leaseAll(48), 48)
			for i := range 2 {
				if d := b.dump(); d.place(string(jobs[i].ID)) != "dead" {
					t.Errorf("unreadable job %d is in %q", i, d.place(string(jobs[i].ID)))
				}
			}
			d := b.dump()
			if d.number("unreadable") != 2 || len(d.jobs) != 48 {
				t.Errorf("%d counted, %d jobs", d.number("unreadable"), len(d.jobs))
			}
			st, err := b.s.Job(ctx, b.lane, jobs[0].ID)
			if err != nil || st.State != job.Dead || st.Outcome != "unreadable" {
				t.Errorf("%+v, %v", st, err)
			}
		})
	}
}

// TestMissingBodiesAreCounted, and leave no entry behind.
func TestMissingBodiesAreCounted(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"ready", "waiting", "leased", "retried"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			ctx, b := context.Background(), openBench(t, "redis")
			b.apply(perSecond(fast), "")
			jobs := newJobs(10, "a")
			for i, j := range jobs {
				if j.IdempotencyKey = fmt.Sprint("k", i); where == "waiting" {
					j.Delay = time.Second
				}
			}
			b.accept(jobs...)
			if where == "leased" || where == "retried" {
				leases := b.leaseAll(10)
				if where == "retried" {
					b.turn(0, settleAll(leases, KindReturn)...)
				}
			}
			for _, j := range jobs[:3] {
				b.db.Client().HDel(ctx, b.key("jobs"), string(j.ID))
			}
			b.pass(17 * time.Second)
			checkDistinct(t, b.leaseAll(7), 7)
			b.turn(10)
			d := b.dump()
			if len(d.jobs) != 7 || len(d.ready)+len(d.waiting) > 0 || len(d.leased) != 7 || d.number("unreadable") != 3 || len(d.tries) != 7 {
				t.Errorf("%d jobs, %d leased, %d ready, %d counted", len(d.jobs), len(d.leased), len(d.ready), d.number("unreadable"))
			}
			if where != "ready" && len(d.idemends) != 3 { // of a job that was never tried nothing else is known
				t.Errorf("the keys of %d lost jobs end, want 3", len(d.idemends))
			}
		})
	}
}

// TestThousandsAtOnceMoveInParts: no script chokes on what piled up while nobody looked.
func TestThousandsAtOnceMoveInParts(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	const many = 3000
	b.apply(perSecond(fast), `"max_in_flight":20000,"queue":{"capacity":10000}`)
	b.accept(newJobs(many, "a")...)
	b.turn(0, settleSome(b, b.leaseAll(many))...)
	delayed := newJobs(many, "b")
	for _, j := range delayed {
		j.Delay = 10 * time.Second
	}
	b.accept(delayed...)
	b.accept(newJobs(many, "c")...)
	b.leaseAll(many)
	b.pass(40 * time.Second)
	for range 5 { // the first look is late: leases are spared for 15 s more
		b.turnAs("w1", Turn{Short: true})
		b.pass(4 * time.Second)
	}
	for i := 0; ; i++ {
		b.turnAs("w1", Turn{Short: true})
		d := b.live()
		if d.Ready == 3*many {
			break
		}
		if i > 200 {
			t.Fatalf("after %d turns: %+v", i, d)
		}
	}
	b.checkDump()
}

// settleSome returns leases as retries, in turns, and answers no results.
func settleSome(b *bench, leases []Lease) []Result {
	for len(leases) > 0 {
		n := min(len(leases), MaxResults)
		results := settleAll(leases[:n], KindRetry)
		for i := range results {
			results[i].Delay = 10 * time.Second
		}
		b.turn(0, results...)
		leases = leases[n:]
	}
	return nil
}

// TestLostReplyIsTakenBack uncounted, and given back to limit and tenant.
func TestLostReplyIsTakenBack(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(`{"name":"burst","algorithm":"token_bucket","rate":1,"per":"1h","burst":3}`, "")
	b.accept(newJobs(3, "a")...)
	b.accept(newJobs(3, "b")...)
	lost := b.turn(3) // executed; the worker never hears of it
	if len(lost.Leases) != 3 {
		t.Fatalf("%d leases", len(lost.Leases))
	}
	before := b.dump().tenants
	r := b.turnAs("w1", Turn{Want: 3, Ahead: 100 * time.Millisecond, Lost: []LostCall{{Call: b.call, From: 0, To: 1 << 52}}})
	if len(r.Leases) != 3 {
		t.Fatalf("%d leases: %s", len(r.Leases), r.Why)
	}
	for i, l := range r.Leases {
		if l.ID != lost.Leases[i].ID || l.Sent != 0 || l.Crashes != 0 || l.Token == lost.Leases[i].Token {
			t.Errorf("lease %d: %s, sent %d, crashes %d", i, l.ID, l.Sent, l.Crashes)
		}
	}
	if after := b.dump().tenants; fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("tenants paid twice: %v, then %v", before, after)
	}
	b.checkDump()
}

// TestHistoryStaysWithinItsBounds at many ends a turn.
func TestHistoryStaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	b := openBench(t, "miniredis")
	now := time.UnixMicro(1_790_000_000_000_000)
	b.mini.SetTime(now)
	b.apply(perSecond(fast), `"retention":{"finished":"1s","dead":"1h","dead_max":30,"idempotency":"1m"}`)
	for round := range 40 {
		now = now.Add(2 * time.Minute)
		b.mini.SetTime(now)
		jobs := newJobs(80, "")
		for i, j := range jobs {
			j.IdempotencyKey = "key-" + strconv.Itoa(round*1000+i)
		}
		b.accept(jobs...)
		leases := b.leaseAll(80)
		b.turn(0, append(settleAll(leases[:60], KindDelivered), settleAll(leases[60:], KindDead)...)...)
		d := b.checkDump()
		if len(d.dead) > 30 {
			t.Fatalf("round %d: %d dead", round, len(d.dead))
		}
		// Ids are kept 15 minutes: 7 rounds of 60, and one that is being removed.
		if len(d.done) > 9*60 || len(d.idemends) > 4*80 {
			t.Fatalf("round %d: %d results, %d ended keys", round, len(d.done), len(d.idemends))
		}
	}
}
