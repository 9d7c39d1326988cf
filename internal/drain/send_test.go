package drain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

func TestGateLooksAtBothClocks(t *testing.T) {
	t.Parallel()
	soon, past := redisdb.Monotonic()+time.Hour, redisdb.Monotonic()-time.Millisecond
	wall := time.Now().Round(0)
	cases := map[string]struct {
		until    time.Duration
		wall     time.Time
		epoch    int64
		stopping bool
		want     error
	}{
		"open":                       {soon, wall.Add(time.Hour), 7, false, nil},
		"late by the monotonic":      {past, wall.Add(time.Hour), 7, false, errLate},
		"late by the wall clock":     {soon, wall.Add(-time.Millisecond), 7, false, errLate},
		"changed":                    {soon, wall.Add(time.Hour), 8, false, errEpoch},
		"changed, to a lower number": {soon, wall.Add(time.Hour), 1, false, errEpoch},
		"stopping":                   {soon, wall.Add(time.Hour), 7, true, errStopping},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, l := &Drain{}, &lane{}
			d.stopping.Store(tc.stopping)
			l.epoch.Store(tc.epoch)
			a := &attempt{d: d, lane: l, lease: granted{epoch: 7}, until: tc.until, wall: tc.wall}
			for range 2 { // it may be asked more than once
				if err := a.gate(); !errors.Is(err, tc.want) {
					t.Errorf("%v, want %v", err, tc.want)
				}
			}
			if a.late.Load() != errors.Is(tc.want, errLate) {
				t.Errorf("late %v with %v", a.late.Load(), tc.want)
			}
		})
	}
}

// TestLateSlotsDie holds replies back until the slots in them are over.
func TestLateSlotsDie(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 40)
		w.start()
		w.run(300 * time.Millisecond)
		w.change(func() { w.store.back = 300 * time.Millisecond })
		w.run(2 * time.Second)
		w.change(func() { w.store.back = 0 })
		w.run(30 * time.Second)
		w.want(l, "delivered", 40)
		if w.metric("tundish_slots_dead_total") == 0 {
			t.Error("no slot died although replies came after their slots")
		}
		for _, j := range l.order {
			if j.used != 0 || j.crashes != 0 {
				t.Fatalf("a slot that died counted: %d attempts, %d crashes", j.used, j.crashes)
			}
		}
		checkSlots(t, w, l)
	})
}

// checkSlots checks that each job was written within its last slot.
func checkSlots(t *testing.T, w *world, l *fakeLane) {
	t.Helper()
	for _, x := range w.writes() {
		j := l.jobs[x.id]
		late := x.at.UnixMicro() + w.store.offset + w.store.adj[redisdb.ShardOf(l.name)] - j.slot
		if late < 0 || late > 12_000 {
			t.Errorf("written %dµs after its slot", late)
		}
	}
}

func TestGateThatOpensTooLateReleases(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 3)
		w.sender.hold = 50 * time.Millisecond // the connection is at hand only then
		w.start()
		w.run(3 * time.Second)
		w.want(l, "delivered", 0)
		for _, j := range l.order {
			if j.releases == 0 || j.used != 0 || j.sent != 0 {
				t.Errorf("released %d times, %d attempts, %d sent", j.releases, j.used, j.sent)
			}
		}
		w.sender.mu.Lock()
		w.sender.hold = 0
		w.sender.mu.Unlock()
		w.run(3 * time.Second)
		w.want(l, "delivered", 3)
	})
}

func TestChangeReleasesGrantedJobs(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 100)
		w.start()
		w.run(time.Second)
		w.change(func() {
			l.paused, l.epoch = true, l.epoch+1
			w.store.tell("bank")
		})
		w.run(2 * time.Millisecond)
		sent := len(w.writes())
		w.run(2 * time.Second)
		if n := len(w.writes()); n != sent {
			t.Errorf("%d writes after the pause", n-sent)
		}
		w.want(l, "leased", 0)
		w.change(func() {
			l.paused, l.epoch = false, l.epoch+1
			l.due, l.planned = w.store.raw(), w.store.raw()
		})
		w.run(3 * time.Second)
		w.want(l, "delivered", 100)
	})
}

// TestLowerEpochIsBelieved: after a loss of memory epochs begin again, also for
// a lane that is never without jobs under way.
func TestLowerEpochIsBelieved(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 400, func(l *fakeLane) { l.epoch = 9 })
		w.sender.attempt = func(*deliver.Attempt) (time.Duration, job.Outcome) {
			return 900 * time.Millisecond, job.OutcomeDelivered
		}
		w.start()
		w.run(2 * time.Second)
		w.change(func() { l.epoch, l.lostMemory = 1, true })
		w.run(9 * time.Second)
		w.want(l, "delivered", 400)
		if n := w.metric("tundish_state_lost_total"); n != 1 {
			t.Errorf("%v losses of memory counted", n)
		}
	})
}

func TestCrashedJobIsMarkedStartedFirst(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 2)
		l.order[0].crashes = 1
		w.start()
		w.run(time.Second)
		w.want(l, "delivered", 2)
		if n := len(w.seen("start", time.Time{})); n != 1 {
			t.Errorf("start called %d times, want once for the job that crashed", n)
		}
	})
}

// Nothing of a job that goes at most once leaves without the mark that it may
// have: not when the mark cannot be made, when nobody knows whether it was, when
// it comes too late, when the lease is another's by now.
func TestAtMostOnceIsMarkedFirst(t *testing.T) {
	t.Parallel()
	failing := func(err error) func(op, _ string) error {
		return func(op, _ string) error {
			if op == "start" {
				return err
			}
			return nil
		}
	}
	for name, harm := range map[string]func(s *fakeStore, l *fakeLane){
		"not made":       func(s *fakeStore, _ *fakeLane) { s.before = failing(errRefused) },
		"refused":        func(s *fakeStore, _ *fakeLane) { s.before = failing(replyError("OOM")) },
		"answer is lost": func(s *fakeStore, _ *fakeLane) { s.after = failing(errNoReply) },
		"too late": func(s *fakeStore, _ *fakeLane) {
			s.stall = func(op, _ string) time.Duration { return map[string]time.Duration{"start": time.Second}[op] }
		},
		"another's lease": func(s *fakeStore, l *fakeLane) {
			s.before = func(op, _ string) error {
				for _, j := range l.in("leased") {
					if op == "start" {
						j.token = "w2:1:1"
					}
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				const jobs = 5
				l := w.lane("bank", jobs, func(l *fakeLane) { l.contract.Delivery = destination.AtMostOnce })
				harm(w.store, l)
				w.start()
				w.run(3 * time.Second)
				if marks := len(w.seen("start", time.Time{})); marks < jobs {
					t.Errorf("%d marks were tried, want at least %d", marks, jobs)
				}
				if n := len(w.writes()); n > 0 {
					t.Errorf("%d requests left without a mark", n)
				}
				if n := strings.Count(w.logs.String(), "did not confirm in time that it is started\" component=drain destination=bank"); n != 1 && name != "too late" {
					t.Errorf("told %d times in 3 s why nothing is sent, want once", n)
				}
				w.change(func() { w.store.before, w.store.after, w.store.stall = nil, nil, nil })
				w.run(time.Minute)
				w.want(l, "delivered", jobs)
				if n := len(w.writes()); n != jobs {
					t.Errorf("%d requests of %d jobs", n, jobs)
				}
			})
		})
	}
}

// TestCrashedJobOnASlowLinkIsSent: the mark takes a round trip that the slot of
// a job alone on its lane does not leave.
func TestCrashedJobOnASlowLinkIsSent(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 60 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.store.latency = latency
				l := w.lane("bank", 1)
				l.order[0].crashes = 1
				w.start()
				w.run(5 * time.Second)
				w.want(l, "delivered", 1)
			})
		})
	}
}

func TestUnreadableJobIsDead(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 2)
		l.order[0].env = []byte("nonsense")
		w.start()
		w.run(time.Second)
		w.want(l, string(queue.KindDead), 1)
		w.want(l, "delivered", 1)
	})
}

// TestRetries lets a destination fail until attempts are used up.
func TestRetries(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 3)
		w.sender.attempt = func(*deliver.Attempt) (time.Duration, job.Outcome) { return time.Millisecond, job.OutcomeServerError }
		w.start()
		w.run(20 * time.Minute)
		w.want(l, "dead", 3)
		if n := len(w.writes()); n != 24 {
			t.Errorf("%d requests for 3 jobs of 8 attempts", n)
		}
		note := queue.DecodeNote(l.order[0].note)
		for i, a := range note.Attempts {
			if a.Number != i+1 || a.Outcome != job.OutcomeServerError {
				t.Errorf("attempt %d is noted as %d, %s", i+1, a.Number, a.Outcome)
			}
		}
		if len(note.Attempts) != 8 {
			t.Errorf("%d attempts noted", len(note.Attempts))
		}
	})
}
