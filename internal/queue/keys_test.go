package queue

import (
	"fmt"
	"testing"
	"time"

	"tundish/internal/job"
)

func keyed(key string) *job.Job {
	j := newJob("a")
	j.IdempotencyKey, j.Request.Body = key, []byte("the same")
	return j
}

// TestKeysAtOnceMakeOneJob: many pushes with one key, at once and in one call.
func TestKeysAtOnceMakeOneJob(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), "")
	lists := make([][]*job.Job, 50)
	for i := range lists {
		lists[i] = []*job.Job{keyed("k"), keyed("k")}
	}
	accepted, ids := 0, map[job.ID]bool{}
	for _, r := range b.pushAtOnce(lists...) {
		accepted += count(r, Accepted)
		if count(r, Accepted)+count(r, Replayed) != 2 {
			t.Errorf("%+v", r)
		}
		ids[r[0].ID], ids[r[1].ID] = true, true
	}
	if d := b.checkDump(); accepted != 1 || len(ids) != 1 || len(d.jobs) != 1 {
		t.Errorf("%d accepted, %d ids, %d jobs", accepted, len(ids), len(d.jobs))
	}
}

// TestKeyIsOfOneRequestAndProducer: another request is refused, another producer is another key.
func TestKeyIsOfOneRequestAndProducer(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), "")
	first := keyed("k")
	b.accept(first)
	changes := map[string]func(j *job.Job){
		"body":   func(j *job.Job) { j.Request.Body = []byte("the  same") },
		"method": func(j *job.Job) { j.Request.Method = "PUT" },
		"path":   func(j *job.Job) { j.Request.Path = "/x?y" },
		"tenant": func(j *job.Job) { j.Tenant = "b" },
		"header": func(j *job.Job) { j.Request.Headers = []job.Header{{Name: "X", Value: "1"}} },
	}
	for name, change := range changes {
		j := keyed("k")
		change(j)
		if r := b.push(j)[0]; r.Verdict != Conflict || r.ID != first.ID {
			t.Errorf("%s: %+v", name, r)
		}
	}
	other := keyed("k")
	other.Producer = "shop"
	priority := keyed("k")
	priority.Priority = 1
	if r := b.push(other, priority); r[0].Verdict != Accepted || r[1].Verdict != Replayed || r[1].ID != first.ID {
		t.Errorf("%+v", r)
	}
}

// TestKeyLivesAsLongAsItsJob, and its retention beyond; a replay answers with the state.
func TestKeyLivesAsLongAsItsJob(t *testing.T) {
	t.Parallel()
	b := openBench(t, "miniredis")
	now := time.UnixMicro(1_790_000_000_000_000)
	b.mini.SetTime(now)
	pass := func(d time.Duration) { now = now.Add(d); b.mini.SetTime(now) }
	b.apply(perSecond(fast), `"retention":{"idempotency":"1h","dead":"30d"}`)
	kinds := map[job.State]Kind{job.Delivered: KindDelivered, job.Dead: KindDead, job.Unknown: KindUnknown, job.Waiting: KindRetry}
	for state, kind := range kinds {
		first := keyed("k-" + string(state))
		b.accept(first)
		check := func(verdict Verdict, want job.State) {
			t.Helper()
			if r := b.push(keyed("k-" + string(state)))[0]; r.Verdict != verdict || r.State != want || verdict == Replayed && r.ID != first.ID {
				t.Errorf("%s: %+v, want %s %s", state, r, verdict, want)
			}
		}
		check(Replayed, job.Ready)
		l := b.turn(1).Leases[0]
		check(Replayed, job.Leased)
		r := settleAll([]Lease{l}, kind)[0]
		if kind == KindRetry {
			r.Delay = 50 * time.Hour
		}
		b.turn(0, r)
		check(Replayed, state)
		pass(59 * time.Minute)
		check(Replayed, state)
		pass(2 * time.Minute)
		if kind == KindDelivered {
			check(Accepted, job.Ready)
			b.turn(0, settleAll(b.turn(1).Leases, KindDelivered)...)
		} else {
			check(Replayed, state) // a job that is anywhere keeps its key
		}
		b.checkDump()
	}
}

// TestRefusedPushUsesNoKey: the polite retry gets its job.
func TestRefusedPushUsesNoKey(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), `"queue":{"capacity":1}`)
	b.accept(newJob(""))
	refused := keyed("k")
	if r := b.push(refused)[0]; r.Verdict != Full {
		t.Fatalf("%+v", r)
	}
	b.turn(0, delivered(b.turn(1).Leases[0]))
	if r := b.push(refused)[0]; r.Verdict != Accepted || r.ID != refused.ID {
		t.Errorf("%+v", r)
	}
	if d := b.checkDump(); len(d.idem) != 1 {
		t.Errorf("%d keys", len(d.idem))
	}
}

// TestRepeatedPushIsHarmless: the same ids again, in every state.
func TestRepeatedPushIsHarmless(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), "")
	jobs := newJobs(6, "a")
	jobs[5].Delay = 30 * time.Second
	b.accept(jobs...)
	leases := b.turn(4).Leases
	retry := settleAll(leases[2:3], KindRetry)[0]
	retry.Delay = time.Minute
	b.turn(0, append(settleAll(leases[:1], KindDelivered), settleAll(leases[1:2], KindDead)[0], retry)...)
	before := b.dump()
	want := []job.State{job.Delivered, job.Dead, job.Waiting, job.Leased, job.Ready, job.Scheduled}
	for i, r := range b.push(append(jobs, jobs[4])...) {
		if r.Verdict != Accepted || i < 6 && (r.ID != jobs[i].ID || r.State != want[i]) {
			t.Errorf("job %d: %+v", i, r)
		}
	}
	if after := b.checkDump(); fmt.Sprint(after.jobs) != fmt.Sprint(before.jobs) {
		t.Error("the jobs changed")
	}
	twice := newJob("a")
	if r := b.push(twice, twice); count(r, Accepted) != 2 || len(b.checkDump().jobs) != len(before.jobs)+1 {
		t.Errorf("one id twice in a call: %+v", r)
	}
}
