package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tundish/internal/job"
)

func count(results []PushResult, v Verdict) int {
	n := 0
	for _, r := range results {
		if r.Verdict == v {
			n++
		}
	}
	return n
}

// pushAtOnce pushes each list by a goroutine of its own.
func (b *bench) pushAtOnce(lists ...[]*job.Job) [][]PushResult {
	out, errs := make([][]PushResult, len(lists)), make([]error, len(lists))
	var wg sync.WaitGroup
	for i, jobs := range lists {
		wg.Go(func() { out[i], errs[i] = b.s.Push(context.Background(), b.lane, jobs) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			b.t.Fatal(err)
		}
	}
	return out
}

// checkDump fails when the lane's keys do not fit together.
func (b *bench) checkDump() *dump {
	b.t.Helper()
	d := b.dump()
	if p := d.problems(false); len(p) > 0 {
		b.t.Error(strings.Join(p, "\n"))
	}
	return d
}

func TestPushesAtOnceStopAtTheCapacity(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), `"queue":{"capacity":100}`)
	lists := make([][]*job.Job, 400)
	for i := range lists {
		lists[i] = newJobs(1, "")
	}
	accepted := map[string]bool{}
	for _, r := range b.pushAtOnce(lists...) {
		switch r[0].Verdict {
		case Accepted:
			accepted[string(r[0].ID)] = true
		case Full:
			if r[0].RetryAfter <= 0 || r[0].DrainPerSecond <= 0 {
				t.Errorf("full without a time to return: %+v", r[0])
			}
		default:
			t.Errorf("%+v", r[0])
		}
	}
	d := b.checkDump()
	if len(accepted) != 100 || len(d.jobs) != 100 {
		t.Errorf("%d accepted, %d stored", len(accepted), len(d.jobs))
	}
	for id := range d.jobs {
		if !accepted[id] {
			t.Errorf("%s is stored and was not accepted", id)
		}
	}
}

func TestBatchesFillWhatIsFree(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), `"queue":{"capacity":10}`)
	b.accept(newJobs(6, "")...)
	lists := [][]*job.Job{newJobs(10, ""), newJobs(10, "")}
	var stored []string
	for i, results := range b.pushAtOnce(lists...) {
		for k, r := range results {
			if r.Verdict == Accepted {
				stored = append(stored, string(lists[i][k].ID))
			}
			if k > 0 && r.Verdict == Accepted && results[k-1].Verdict != Accepted {
				t.Errorf("list %d: job %d was taken and the one before was not", i, k)
			}
		}
	}
	d := b.checkDump()
	if len(stored) != 4 || len(d.jobs) != 10 {
		t.Errorf("%d accepted, %d stored", len(stored), len(d.jobs))
	}
	for _, id := range stored {
		if d.jobs[id] == "" {
			t.Errorf("%s was accepted and is not stored", id)
		}
	}
}

func TestCapacityOfOne(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(1000), `"queue":{"capacity":1}`)
	b.accept(newJob(""))
	if r := b.push(newJob("")); r[0].Verdict != Full {
		t.Errorf("%+v", r[0])
	}
	b.turn(0, delivered(b.turn(1).Leases[0]))
	b.accept(newJob(""))
}

// TestRepeatedResultsLowerTheDepthOnce: recovery, a late result, a second
// worker's result and repeats leave the depth what a recount says.
func TestRepeatedResultsLowerTheDepthOnce(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(1000), `"queue":{"capacity":3}`)
	x := newJob("")
	b.accept(x)
	first := b.turn(1).Leases[0]
	b.pass(16 * time.Second)
	b.accept(newJob(""))
	second := b.turnAs("w2", Turn{Want: 1, Ahead: 100 * time.Millisecond}).Leases[0]
	if first.ID != x.ID || second.ID != x.ID || second.Crashes != 1 {
		t.Fatalf("leases of %s and %s, crashes %d", first.ID, second.ID, second.Crashes)
	}
	for i, want := range []string{"stale", "ok", "again", "again"} {
		l := []Lease{first, second, first, second}[i]
		if got := b.turn(0, delivered(l)).Verdicts[0]; got != want {
			t.Errorf("result %d: %s, want %s", i, got, want)
		}
		b.checkDump()
	}
	if r := b.push(newJobs(4, "")...); count(r, Accepted) != 2 || count(r, Full) != 2 {
		t.Errorf("%+v", r)
	}
}

// TestLateDeliveryIsBelieved while nobody else holds the job.
func TestLateDeliveryIsBelieved(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(1000), "")
	b.accept(newJob("a"))
	l := b.turn(1).Leases[0]
	b.pass(16 * time.Second)
	b.turn(0) // recovers
	if got := b.state(l.ID); got != job.Ready {
		t.Fatalf("recovered job is %s", got)
	}
	if v := b.turn(0, settleAll([]Lease{l}, KindDead)[0], delivered(l)).Verdicts; !slices.Equal(v, []string{"stale", "ok"}) {
		t.Errorf("verdicts %v", v)
	}
	if got := b.state(l.ID); got != job.Delivered {
		t.Errorf("job is %s", got)
	}
	b.checkDump()
}

func TestBytesAreBounded(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(1000), `"queue":{"max_bytes":"1MiB","max_job_bytes":"256KiB"}`)
	var last PushResult
	n := 0
	for last.Verdict != BytesFull {
		j := newJob("")
		j.Request.Body = []byte(strings.Repeat("\xff", 100<<10))
		last = b.push(j)[0]
		if n++; n > 20 {
			t.Fatal("never full")
		}
	}
	d := b.checkDump()
	size := int64(0)
	for _, env := range d.jobs {
		size += int64(len(env))
	}
	if len(d.jobs) != 10 || size > 1<<20 || last.RetryAfter <= 0 {
		t.Errorf("%d jobs, %d bytes, %+v", len(d.jobs), size, last)
	}
	leases := b.turn(10).Leases
	leases = append(leases, b.turn(10).Leases...) // one turn carries less
	b.turn(0, settleAll(leases, KindDelivered)...)
	if live := b.live(); live.Depth != 0 || live.SizeBytes != 0 || len(leases) != 10 {
		t.Errorf("%d leases, %+v", len(leases), live)
	}
}

// TestBytesOfATurnAreBounded: a larger job goes alone, and the reply says that there is more.
func TestBytesOfATurnAreBounded(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(1000), `"queue":{"max_job_bytes":"2MiB"}`)
	for range 5 {
		j := newJob("")
		j.Request.Body = make([]byte, 390<<10)
		b.accept(j)
	}
	big := newJob("")
	big.Request.Body = make([]byte, 2<<20)
	big.Priority = 9
	b.accept(big)
	for i, want := range []int{2, 2, 1, 1} {
		if r := b.turn(10); len(r.Leases) != want || (r.Why == "more") != (i < 3) {
			t.Errorf("turn %d: %d leases, %s", i, len(r.Leases), r.Why)
		}
	}
	b.checkDump()
}

// Jobs cost a call more than their bodies: many of a middling size are no more for Redis than few large ones.
func TestJobsCountBesideTheirBodies(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(1000), `"max_in_flight":1000`)
	b.acceptLarge(70, 10<<10)
	if r := b.turn(100); len(r.Leases) < 45 || len(r.Leases) > 50 || r.Why != "more" {
		t.Errorf("%d leases of 10 KiB, %s", len(r.Leases), r.Why)
	}
	ends := make([]Result, 70)
	for i := range ends {
		ends[i] = Result{Kind: KindDead, Bytes: 10 << 10}
	}
	if n := Fit(ends); n < 45 || n > 51 {
		t.Errorf("%d ends fit", n)
	}
	b.checkDump()
}

// TestFullLaneDropsExpiredJobs before it refuses, by count and by bytes, also while paused.
func TestFullLaneDropsExpiredJobs(t *testing.T) {
	t.Parallel()
	for name, queue := range map[string]string{"count": `"capacity":10`, "bytes": `"max_bytes":"64KiB","max_job_bytes":"8KiB"`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, "miniredis")
			now := time.UnixMicro(1_790_000_000_000_000)
			b.mini.SetTime(now)
			b.apply(perSecond(50), `"queue":{`+queue+`}`)
			if _, err := b.s.Pause(context.Background(), b.lane, ""); err != nil {
				t.Fatal(err)
			}
			jobs := newJobs(10, "")
			for i, j := range jobs {
				j.Request.Body = make([]byte, 6200)
				if i < 4 {
					j.ExpiresIn = time.Second
				}
			}
			b.accept(jobs...)
			more := newJobs(6, "")
			for _, j := range more {
				j.Request.Body = make([]byte, 6200)
			}
			if r := b.push(more...); count(r, Accepted) != 0 {
				t.Errorf("before the expiry: %+v", r)
			}
			b.mini.SetTime(now.Add(2 * time.Second))
			if r := b.push(more...); count(r, Accepted) != 4 {
				t.Errorf("after the expiry of 4 jobs %d were taken", count(r, Accepted))
			}
			if got := b.state(jobs[0].ID); got != job.Expired {
				t.Errorf("job is %s", got)
			}
			b.checkDump()
		})
	}
}

// TestPausedQueueIsBounded, or refuses everything when the contract says so.
func TestPausedQueueIsBounded(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), openBench(t, "redis")
	b.apply(perSecond(50), `"queue":{"capacity":5}`)
	if _, err := b.s.Pause(ctx, b.lane, "window"); err != nil {
		t.Fatal(err)
	}
	r := b.push(newJobs(7, "")...)
	if count(r, Accepted) != 5 || count(r, Full) != 2 || !r[0].EstimatedSendAt.IsZero() {
		t.Errorf("%+v", r)
	}
	b.apply(perSecond(50), `"queue":{"capacity":5,"when_paused":"refuse"}`)
	if _, err := b.s.Push(ctx, b.lane, newJobs(1, "")); job.CodeOf(err) != job.CodeDestinationPaused {
		t.Errorf("%v", err)
	}
}

// TestTenantShareIsOfWhatIsFree: the fuller the queue, the smaller the share.
func TestTenantShareIsOfWhatIsFree(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), `"queue":{"capacity":90},"tenants":{"share":"50%"}`)
	for tenant, want := range map[string]int{"a": 45} { // 45 of its own against 45 free places
		if r := b.push(newJobs(90, tenant)...); count(r, Accepted) != want || count(r, ShareFull) != 90-want {
			t.Errorf("%s: %d taken", tenant, count(r, Accepted))
		}
	}
	if r := b.push(newJobs(40, "b")...); count(r, Accepted) != 23 {
		t.Errorf("b: %d taken", count(r, Accepted))
	}
	if r := b.push(newJobs(40, "")...); count(r, Accepted) != 22 {
		t.Errorf("jobs without a tenant: %d taken", count(r, Accepted))
	}
	b.checkDump()
}

// TestDamagedContractStopsTheLane: rate 0 and worse, written past the door, send
// nothing, break nothing, and are mended by applying the contract again.
func TestDamagedContractStopsTheLane(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), openBench(t, "redis")
	b.apply(perSecond(50), "")
	b.accept(newJobs(3, "")...)
	conf := b.conf()
	for _, damage := range [][2]string{
		{"limits", "tps,leaky_bucket,0,1000000,1;"}, {"limits", ""}, {"limits", conf["limits"] + "x"}, {"limits", "tps,what,1,1,1;"},
		{"timeout", "soon"}, {"cap", "-1"}, {"aging", "nan"}, {"version", ""},
	} {
		if err := b.db.Client().HSet(ctx, b.keys.Conf(), damage[0], damage[1]).Err(); err != nil {
			t.Fatal(err)
		}
		if r := b.turn(5); r.Status != TurnFaulty || len(r.Leases) > 0 {
			t.Errorf("%v: turn %+v", damage, r)
		}
		if _, err := b.s.Push(ctx, b.lane, newJobs(1, "")); job.CodeOf(err) != job.CodeDestinationFaulty {
			t.Errorf("%v: push %v", damage, err)
		}
		if d, err := b.s.Destination(ctx, b.lane); err != nil || d.Live.State != "faulty" || d.Live.Depth != 3 {
			t.Errorf("%v: %+v, %v", damage, d, err)
		}
		if err := b.db.Client().HSet(ctx, b.keys.Conf(), damage[0], conf[damage[0]]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	b.db.Client().HSet(ctx, b.keys.Conf(), "limits", "")
	b.apply(perSecond(50), "")
	if r := b.turn(1); r.Status != TurnOK || len(r.Leases) != 1 {
		t.Errorf("after applying again: %+v", r)
	}
}

func (b *bench) conf() map[string]string {
	b.t.Helper()
	conf, err := b.db.Client().HGetAll(context.Background(), b.keys.Conf()).Result()
	if err != nil {
		b.t.Fatal(fmt.Errorf("conf: %w", err))
	}
	return conf
}
