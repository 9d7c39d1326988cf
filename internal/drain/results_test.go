package drain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/job"
)

func TestResultsRideOnTheNextTurn(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 100)
		w.start()
		w.run(time.Second)
		alone := 0
		for _, c := range w.seen("turn", time.Time{}) {
			if len(c.turn.Result) > 0 && c.turn.Want == 0 {
				alone++
			}
		}
		if alone != 0 {
			t.Errorf("%d turns only settled on a lane that is turned anyway", alone)
		}
		if w.count(l, "delivered") < 45 {
			t.Error("results are not settled")
		}
	})
}

func TestResultsGoAloneAfterAWhile(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.cfg.Wake = nil
		w.sender.attempt = func(*deliver.Attempt) (time.Duration, job.Outcome) { return 3 * time.Second, job.OutcomeDelivered }
		l := w.lane("bank", 1)
		w.start()
		w.run(2900 * time.Millisecond) // the lane was let go meanwhile
		w.want(l, "leased", 1)
		begin := time.Now()
		w.run(time.Second)
		w.want(l, "delivered", 1)
		for _, c := range w.seen("turn", begin) {
			if len(c.turn.Result) == 1 {
				done := w.writes()[0].at.Add(3 * time.Second)
				if late := c.at.Sub(done); late < flushWithin || late > flushWithin+2*time.Millisecond {
					t.Errorf("settled %s after the end, want %s", late, flushWithin)
				}
				return
			}
		}
		t.Error("not settled")
	})
}

func TestManyResultsGoAtOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.cfg.Concurrency = 1000
		end := time.Now().Add(5 * time.Second)
		w.sender.attempt = func(*deliver.Attempt) (time.Duration, job.Outcome) { return time.Until(end), job.OutcomeDelivered }
		l := w.lane("bank", 250, func(l *fakeLane) { l.interval = 1000 })
		w.start()
		w.run(time.Until(end) - time.Millisecond)
		w.want(l, "leased", 250)
		w.run(3 * time.Millisecond)
		if n := w.count(l, "delivered"); n < flushAt {
			t.Errorf("%d of 250 results settled within 2ms", n)
		}
		w.run(100 * time.Millisecond)
		w.want(l, "delivered", 250)
	})
}

// TestLostReplyLosesNothing loses the replies of turns: what they granted goes
// back uncounted, and what they settled is not counted twice.
func TestLostReplyLosesNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 300)
		n := 0
		w.store.after = func(op, _ string) error {
			if n++; op == "turn" && n%7 == 0 {
				return errNoReply
			}
			return nil
		}
		w.start()
		w.run(60 * time.Second)
		w.want(l, "delivered", 300)
		named := 0
		for _, c := range w.seen("turn", time.Time{}) {
			named += len(c.turn.Lost)
		}
		if named == 0 {
			t.Error("no turn named a call whose reply was lost")
		}
		for _, j := range l.order {
			if j.crashes != 0 {
				t.Fatalf("a job that a lost reply granted counts %d crashes", j.crashes)
			}
		}
		seen := map[job.ID]int{}
		for _, x := range w.writes() {
			if seen[x.id]++; seen[x.id] > 1 {
				t.Fatalf("job %s was written twice", x.id)
			}
		}
		if n := w.metric("tundish_stale_results_total"); n != 0 {
			t.Errorf("%v results counted as stale that a lost reply had settled", n)
		}
	})
}

func TestRedisErrorsBackOff(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"refused": errRefused, "no reply": errNoReply, "loading": replyError("LOADING Redis is loading")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				l := w.lane("bank", 1000)
				w.start()
				w.run(2 * time.Second)
				w.change(func() { w.store.before = func(string, string) error { return failure } })
				w.run(time.Second) // slots in hand are used up
				begin, sent := time.Now(), len(w.writes())
				w.run(20 * time.Second)
				if n := len(w.seen("claim", begin)); n < 8 || n > 28 {
					// A turn that fails puts the next claim off as well.
					t.Errorf("%d claims in 20s without Redis, want one every one to two seconds", n)
				}
				if n := len(w.seen("turn", begin)); n > 45 {
					t.Errorf("%d turns in 20s without Redis", n)
				}
				if n := len(w.writes()); n != sent {
					t.Errorf("%d writes without Redis", n-sent)
				}
				if w.d.Trouble() == "" {
					t.Error("no trouble told")
				}
				if n := strings.Count(w.logs.String(), "Redis cannot serve"); n != 1 {
					t.Errorf("logged %d times:\n%s", n, w.logs.String())
				}
				w.change(func() { w.store.before = nil })
				w.run(30 * time.Second)
				if trouble := w.d.Trouble(); trouble != "" {
					t.Errorf("trouble %q after recovery", trouble)
				}
				if n := strings.Count(w.logs.String(), "Redis serves again"); n != 1 {
					t.Errorf("recovery logged %d times", n)
				}
				w.want(l, "delivered", 1000)
			})
		})
	}
}

// TestManyResultsDoNotHurryABackOff: results that pile up without Redis must
// not turn the pause into a spin.
func TestManyResultsDoNotHurryABackOff(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.cfg.Concurrency = 2000
		l := w.lane("bank", 900, func(l *fakeLane) { l.interval = 100 })
		w.sender.attempt = func(*deliver.Attempt) (time.Duration, job.Outcome) { return time.Second, job.OutcomeDelivered }
		w.start()
		w.run(500 * time.Millisecond)
		w.want(l, "leased", 900)
		w.change(func() { w.store.before = func(string, string) error { return errRefused } })
		begin := time.Now()
		w.run(10 * time.Second)
		if n := len(w.seen("turn", begin)); n > 25 {
			t.Errorf("%d turns in 10s without Redis", n)
		}
		w.change(func() { w.store.before = nil })
		w.run(5 * time.Second)
		w.want(l, "delivered", 900)
	})
}

// TestOneBrokenLaneDoesNotDelayOthers: a lane whose turn fails by itself is no
// trouble of Redis.
func TestOneBrokenLaneDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.lane("broken", 10)
		good := w.lane("good", 400)
		w.store.before = func(_, lane string) error {
			if lane == "broken" {
				return replyError("ERR WRONGTYPE in the state of this lane")
			}
			return nil
		}
		w.start()
		w.run(9 * time.Second)
		w.want(good, "delivered", 400)
		if trouble := w.d.Trouble(); trouble != "" {
			t.Errorf("trouble %q for one broken lane", trouble)
		}
		if n := strings.Count(w.logs.String(), "destination=broken"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, w.logs.String())
		}
	})
}

func TestUnreadableConfKeepsResults(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 5)
		w.sender.attempt = func(*deliver.Attempt) (time.Duration, job.Outcome) { return time.Second, job.OutcomeDelivered }
		w.start()
		w.run(500 * time.Millisecond)
		w.change(func() { l.unreadable = true })
		begin := time.Now()
		w.run(30 * time.Second)
		if n := len(w.seen("turn", begin)); n > 12 {
			t.Errorf("%d turns in 30s of a lane that cannot be read", n)
		}
		w.change(func() { l.unreadable = false })
		w.run(20 * time.Second)
		w.want(l, "delivered", 5)
	})
}

func TestLaneThatIsGoneLeavesNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.lane("bank", 50)
		w.store.after = func(op, _ string) error {
			if op == "turn" {
				return errors.New("reply of a script: not a list")
			}
			return nil
		}
		w.start()
		w.run(300 * time.Millisecond)
		w.change(func() { w.store.after = nil; delete(w.store.lanes, "bank") })
		w.run(3 * time.Second)
		begin := time.Now()
		w.run(10 * time.Second)
		if n := len(w.seen("turn", begin)); n != 0 {
			t.Errorf("%d turns of a lane that is gone", n)
		}
	})
}
