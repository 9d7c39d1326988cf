package queue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"tundish/internal/job"
)

// endAs pushes n jobs and lets them end so.
func (b *bench) endAs(kind Kind, jobs ...*job.Job) {
	b.t.Helper()
	b.accept(jobs...)
	for left := len(jobs); left > 0; {
		leases := b.turn(min(left, 100)).Leases
		results := settleAll(leases, kind)
		for i := range results {
			n := Note{Attempts: []job.Attempt{{Number: leases[i].Sent + 1, Outcome: job.OutcomeRejected, HTTPStatus: 400}}}
			results[i].Note = n.Encode()
		}
		b.turn(0, results...)
		left -= len(leases)
	}
}

// wantCode holds that err carries the code; "" is none.
func wantCode(t *testing.T, what string, err error, code job.Code) {
	t.Helper()
	if code == "" && err != nil || code != "" && (err == nil || job.CodeOf(err) != code) {
		t.Errorf("%s: %v, want %q", what, err, code)
	}
}

// eachBackend runs a test on every backend, over one fast lane.
func eachBackend(t *testing.T, more string, fn func(t *testing.T, b *bench)) {
	t.Helper()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, backend)
			b.apply(perSecond(fast), more)
			fn(t, b)
			b.checkDump()
		})
	}
}

// TestCancel ends what no worker holds, and saying it twice is harmless.
func TestCancel(t *testing.T) {
	t.Parallel()
	eachBackend(t, "", func(t *testing.T, b *bench) {
		ctx := context.Background()
		jobs := newJobs(5, "a")
		jobs[1].Delay, jobs[1].ExpiresIn = 30*time.Second, time.Minute
		jobs[1].IdempotencyKey, jobs[1].Metadata = "k", map[string]string{"order": "7"}
		b.accept(jobs...)
		leases := b.turn(2).Leases
		retry := settleAll(leases[:1], KindRetry)[0]
		retry.Delay = time.Minute
		b.turn(0, retry)
		b.endAs(KindDelivered, newJob(""))
		for name, c := range map[string]struct {
			id   job.ID
			code job.Code
		}{
			"waiting":   {leases[0].ID, ""},
			"leased":    {leases[1].ID, job.CodeJobInFlight},
			"scheduled": {jobs[1].ID, ""},
			"ready":     {jobs[4].ID, ""},
			"nobody":    {job.NewID(), job.CodeJobNotFound},
		} {
			for range 2 {
				st, err := b.s.Cancel(ctx, b.lane, c.id)
				wantCode(t, name, err, c.code)
				if err == nil && (st.State != job.Cancelled || st.Outcome != "cancelled" || st.Tenant != "a") {
					t.Errorf("%s: %+v", name, st)
				}
			}
		}
		if st, err := b.s.Job(ctx, b.lane, jobs[1].ID); err != nil || st.Metadata["order"] != "7" || st.ExpiresAt.IsZero() {
			t.Errorf("what is kept of it: %+v, %v", st, err)
		}
		if r := b.push(&job.Job{ID: job.NewID(), Tenant: "a", IdempotencyKey: "k", CreatedAt: jobs[1].CreatedAt, Request: jobs[1].Request})[0]; r.Verdict != Replayed || r.State != job.Cancelled {
			t.Errorf("its key: %+v", r)
		}
	})
}

// TestCancelKnowsALateResult: a job that comes back because its worker was slow
// is cancelled, and then the worker says that it was delivered.
func TestCancelKnowsALateResult(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), "")
	b.accept(newJob(""))
	l := b.turn(1).Leases[0]
	b.pass(16 * time.Second)
	b.turn(0) // more time first: nobody looked for so long
	b.pass(16 * time.Second)
	b.turn(0)
	if got := b.state(l.ID); got != job.Ready {
		t.Fatalf("the job is %s", got)
	}
	if _, err := b.s.Cancel(context.Background(), b.lane, l.ID); err != nil {
		t.Fatal(err)
	}
	if v := b.turn(0, delivered(l)).Verdicts; v[0] != "ok" || b.state(l.ID) != job.Delivered {
		t.Errorf("%v, %s", v, b.state(l.ID))
	}
	b.checkDump()
}

// TestRedrive sends a job again: same id, same key, its history kept, its attempts fresh.
func TestRedrive(t *testing.T) {
	t.Parallel()
	eachBackend(t, "", func(t *testing.T, b *bench) {
		ctx := context.Background()
		first := newJob("a")
		first.IdempotencyKey, first.Priority = "k", 9
		b.endAs(KindDead, first)
		b.accept(newJob("a"))
		for range 2 {
			st, err := b.s.Redrive(ctx, b.lane, first.ID)
			if err != nil || st.State != job.Ready || st.Redrives != 1 || len(st.Attempts) != 1 || st.Position != 1 {
				t.Fatalf("%+v, %v", st, err)
			}
		}
		if r := b.push(&job.Job{ID: job.NewID(), Tenant: "a", IdempotencyKey: "k", Request: first.Request})[0]; r.Verdict != Replayed || r.State != job.Ready {
			t.Errorf("its key: %+v", r)
		}
		b.checkDump()
		l := b.turn(2).Leases[1]
		j, err := Decode(b.lane, l.ID, l.Envelope)
		if err != nil || l.ID != first.ID || string(j.Request.Body) != string(first.Request.Body) || j.DownstreamKey != first.DownstreamKey {
			t.Errorf("%+v, %v", j, err)
		}
		if l.Sent != 1 || l.Used != 0 || l.First != 0 || l.Crashes != 0 {
			t.Errorf("it is leased as %+v", l)
		}
		if _, err := b.s.Redrive(ctx, b.lane, first.ID); err != nil {
			t.Errorf("while leased: %v", err)
		}
		b.turn(0, delivered(l))
		_, err = b.s.Redrive(ctx, b.lane, first.ID)
		wantCode(t, "when delivered", err, job.CodeJobFinished)
	})
}

// TestRedriveAgain: a job that dies again can be redriven again, each time once
// however often it is asked for, byte by byte the same.
func TestRedriveAgain(t *testing.T) {
	t.Parallel()
	eachBackend(t, "", func(t *testing.T, b *bench) {
		ctx, j := context.Background(), newJob("a")
		for i := range 600 {
			j.Request.Body = append(j.Request.Body, byte(i))
		}
		b.accept(j)
		for n := range 4 {
			r := b.turn(5)
			if len(r.Leases) != 1 || r.Leases[0].Sent != n {
				t.Fatalf("time %d: %+v", n, r.Leases)
			}
			sent, err := Decode(b.lane, j.ID, r.Leases[0].Envelope)
			if err != nil || string(sent.Request.Body) != string(j.Request.Body) {
				t.Errorf("time %d: the body is another, %v", n, err)
			}
			note := DecodeNote(r.Leases[0].History)
			note.Add(job.Attempt{Number: n + 1, Outcome: job.OutcomeRejected})
			result := settleAll(r.Leases, KindDead)
			result[0].Note = note.Encode()
			b.turn(0, result...)
			for range 2 {
				if st, err := b.s.Redrive(ctx, b.lane, j.ID); err != nil || st.Redrives != n+1 || len(st.Attempts) != n+1 || st.State != job.Ready {
					t.Errorf("time %d: %+v, %v", n, st, err)
				}
			}
			b.checkDump()
		}
	})
}

// TestRedriveKeepsTheBounds of the queue, by count and bytes, and of an expiry.
func TestRedriveKeepsTheBounds(t *testing.T) {
	t.Parallel()
	eachBackend(t, `"queue":{"capacity":3,"max_bytes":"64KiB","max_job_bytes":"64KiB"}`, func(t *testing.T, b *bench) {
		ctx := context.Background()
		large, small, short := newJob(""), newJob(""), newJob("")
		large.Request.Body = make([]byte, 40<<10)
		short.ExpiresAt = time.Now().Add(10 * time.Minute)
		b.endAs(KindDead, large, small, short)
		other := newJob("")
		other.Request.Body = make([]byte, 40<<10)
		b.accept(other)
		_, err := b.s.Redrive(ctx, b.lane, large.ID)
		wantCode(t, "bytes", err, job.CodeQueueBytesFull)
		b.accept(newJobs(2, "")...)
		_, err = b.s.Redrive(ctx, b.lane, small.ID)
		wantCode(t, "count", err, job.CodeQueueFull)
		if b.state(small.ID) != job.Dead || b.live().Dead != 3 {
			t.Errorf("%+v", b.live())
		}
		b.turn(0, settleAll(b.turn(3).Leases, KindDelivered)...)
		for _, id := range []job.ID{small.ID, short.ID, large.ID} {
			if st, err := b.s.Redrive(ctx, b.lane, id); err != nil || st.State != job.Ready {
				t.Errorf("%+v, %v", st, err)
			}
		}
	})
}

// TestRedriveOfWhatExpired is refused: the producer said that it must not be sent later.
func TestRedriveOfWhatExpired(t *testing.T) {
	t.Parallel()
	b := openBench(t, "miniredis")
	now := time.UnixMicro(1_790_000_000_000_000)
	b.mini.SetTime(now)
	b.apply(perSecond(fast), "")
	j := newJob("")
	j.ExpiresIn = time.Minute
	b.endAs(KindDead, j)
	b.mini.SetTime(now.Add(2 * time.Minute))
	_, err := b.s.Redrive(context.Background(), b.lane, j.ID)
	wantCode(t, "expired", err, job.CodeJobFinished)
	b.checkDump()
}

func TestResolve(t *testing.T) {
	t.Parallel()
	eachBackend(t, "", func(t *testing.T, b *bench) {
		ctx := context.Background()
		jobs := newJobs(3, "a")
		jobs[0].IdempotencyKey = "k"
		b.endAs(KindUnknown, jobs[:2]...)
		b.endAs(KindDead, jobs[2])
		for range 2 {
			st, err := b.s.Resolve(ctx, b.lane, jobs[0].ID, true, "the bank has it")
			if err != nil || st.State != job.Delivered || st.Outcome != "resolved" || st.Reason != "the bank has it" || len(st.Attempts) != 1 {
				t.Errorf("%+v, %v", st, err)
			}
			st, err = b.s.Resolve(ctx, b.lane, jobs[1].ID, false, "")
			if err != nil || st.State != job.Ready || st.Redrives != 1 {
				t.Errorf("%+v, %v", st, err)
			}
		}
		_, err := b.s.Resolve(ctx, b.lane, jobs[0].ID, false, "")
		wantCode(t, "the other verdict", err, job.CodeJobNotUnknown)
		_, err = b.s.Resolve(ctx, b.lane, jobs[2].ID, true, "")
		wantCode(t, "a dead job", err, job.CodeJobNotUnknown)
	})
}

func TestErase(t *testing.T) {
	t.Parallel()
	eachBackend(t, "", func(t *testing.T, b *bench) {
		ctx := context.Background()
		dead, done, live := newJob("a"), newJob("a"), newJob("a")
		dead.IdempotencyKey = "k"
		b.endAs(KindDead, dead)
		b.endAs(KindDelivered, done)
		b.accept(live)
		for _, j := range []*job.Job{dead, done} {
			if st, err := b.s.Erase(ctx, b.lane, j.ID); err != nil || st.ID != j.ID {
				t.Errorf("%+v, %v", st, err)
			}
			_, err := b.s.Erase(ctx, b.lane, j.ID)
			wantCode(t, "again", err, job.CodeJobNotFound)
		}
		_, err := b.s.Erase(ctx, b.lane, live.ID)
		wantCode(t, "live", err, job.CodeJobInFlight)
		if r := b.push(&job.Job{ID: job.NewID(), Tenant: "a", IdempotencyKey: "k", Request: dead.Request})[0]; r.Verdict != Replayed || r.ID != dead.ID || r.State != job.Dead {
			t.Errorf("its key lives on: %+v", r)
		}
		if d := b.checkDump(); len(d.deadjobs)+len(d.done)+len(d.dead)+len(d.doneends) != 0 || len(d.idemends) != 1 {
			t.Errorf("it left %v %v and %d keys", d.deadjobs, d.done, len(d.idemends))
		}
	})
}

// TestJobsPages lists every job once, forwards and backwards.
func TestJobsPages(t *testing.T) {
	t.Parallel()
	eachBackend(t, `"queue":{"capacity":1000}`, func(t *testing.T, b *bench) {
		ctx := context.Background()
		b.endAs(KindDead, newJobs(130, "a")...)
		b.endAs(KindDelivered, newJobs(20, "b")...)
		b.accept(newJobs(40, "c|d")...)
		b.accept(newJobs(40, "")...)
		b.turn(15)
		want := map[job.State]int{job.Dead: 130, job.Delivered: 20, job.Leased: 15, job.Ready: 65}
		for _, back := range []bool{false, true} {
			seen, states, order := map[job.ID]bool{}, map[job.State]int{}, []string{}
			q := Query{Limit: 7, Back: back}
			for {
				page, err := b.s.Jobs(ctx, b.lane, q)
				if err != nil || len(page.Jobs) > q.Limit {
					t.Fatalf("%d jobs, %v", len(page.Jobs), err)
				}
				for _, st := range page.Jobs {
					if seen[st.ID] {
						t.Errorf("%s twice", st.ID)
					}
					seen[st.ID] = true
					states[st.State]++
					order = append(order, string(st.State))
				}
				if q.Cursor = page.Next; q.Cursor == "" {
					break
				}
			}
			if fmt.Sprint(states) != fmt.Sprint(want) || slices.IndexFunc(slices.Compact(order), func(s string) bool { return s == "dead" }) < 0 {
				t.Errorf("back %v: %v, want %v", back, states, want)
			}
		}
		page, err := b.s.Jobs(ctx, b.lane, Query{Filter: Filter{States: []job.State{job.Ready}, Tenant: "c|d"}, Limit: 500})
		if n := len(page.Jobs); err != nil || n == 0 || n > 40 || page.Jobs[0].Job == nil || page.Next != "" {
			t.Errorf("%d jobs of a tenant, %v", n, err)
		}
	})
}

// TestJobsPagesWhileTheyLeave: the job that a page ended with is gone when the next is asked for.
func TestJobsPagesWhileTheyLeave(t *testing.T) {
	t.Parallel()
	eachBackend(t, "", func(t *testing.T, b *bench) {
		ctx := context.Background()
		jobs := newJobs(60, "a")
		b.endAs(KindDead, jobs...)
		q := Query{Filter: Filter{States: []job.State{job.Dead}}, Limit: 10}
		seen := map[job.ID]bool{}
		for {
			page, err := b.s.Jobs(ctx, b.lane, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, st := range page.Jobs {
				if seen[st.ID] {
					t.Errorf("%s twice", st.ID)
				}
				seen[st.ID] = true
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
			last := page.Jobs[len(page.Jobs)-1].ID
			if _, err := b.s.Erase(ctx, b.lane, last); err != nil {
				t.Fatal(err)
			}
		}
		if len(seen) != len(jobs) {
			t.Errorf("%d of %d jobs", len(seen), len(jobs))
		}
	})
}

// A cursor comes from callers: what no page has made is refused.
func TestJobsRefusesOtherCursors(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), "")
	id := string(job.NewID())
	for _, cursor := range []string{"x", "dead|" + id + "|x", "dead|x|1", "dead||1", "nowhere|" + id + "|1", "done|" + id + "|1", "ready|" + id + "|" + string(make([]byte, maxPlace+1))} {
		_, err := b.s.Jobs(context.Background(), b.lane, Query{Filter: Filter{States: []job.State{job.Dead, job.Ready}}, Cursor: cursor, Limit: 5})
		wantCode(t, cursor, err, job.CodeInvalid)
	}
	_, err := b.s.Jobs(context.Background(), "nobody", Query{Limit: 5})
	wantCode(t, "no lane", err, job.CodeDestinationNotFound)
}
