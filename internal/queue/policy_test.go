package queue

import (
	"strings"
	"testing"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// onBoth runs a test of a lane on both backends; on miniredis it sets the clock.
func onBoth(t *testing.T, limits, more string, fn func(t *testing.T, b *bench)) {
	t.Helper()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, backend)
			if b.mini != nil {
				b.mini.SetTime(time.UnixMicro(1_790_000_000_000_000))
			}
			b.apply(limits, more)
			fn(t, b)
		})
	}
}

// result is how a lease ended, with what that tells of the destination.
func result(l Lease, kind Kind, health Health) Result {
	r := delivered(l)
	r.Kind, r.Health, r.Outcome = kind, health, string(kind)
	return r
}

func throttled(l Lease, delay time.Duration, before int64) Result {
	r := result(l, KindThrottled, HealthOK)
	r.Delay, r.Before, r.Counts = delay, before, false
	return r
}

// lease leases want jobs, or fails.
func (b *bench) lease(want int) []Lease {
	b.t.Helper()
	r := b.turn(want)
	if len(r.Leases) != want {
		b.t.Fatalf("%d leases, want %d: %s", len(r.Leases), want, r.Why)
	}
	return r.Leases
}

// holds fails unless a turn hands out nothing for that reason, and answers its look from now.
func (b *bench) holds(why string, results ...Result) time.Duration {
	b.t.Helper()
	r := b.turn(10, results...)
	if len(r.Leases) != 0 || r.Why != why {
		b.t.Fatalf("%d leases, %q; want none, %q", len(r.Leases), r.Why, why)
	}
	return time.Duration(r.Look-r.Logical) * time.Microsecond
}

// shows fails unless the destination is shown in that state, and answers all that is.
func (b *bench) shows(state string) Live {
	b.t.Helper()
	live := b.live()
	if live.State != state {
		b.t.Errorf("the destination is %s, want %s: %+v", live.State, state, live)
	}
	return live
}

// about says that two spans differ by less than what a real clock adds meanwhile.
func about(got, want time.Duration) bool {
	return got > want-300*time.Millisecond && got < want+50*time.Millisecond
}

func TestThrottledAnswerCoolsTheDestination(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), "", func(t *testing.T, b *bench) {
		b.accept(newJobs(5, "")...)
		two := b.lease(2)
		first := b.turn(0)
		look := b.holds("held", throttled(two[0], 4*time.Second, 0))
		if !about(look, 4*time.Second-200*time.Millisecond) { // half of the horizon ahead
			t.Errorf("next look in %s", look)
		}
		if r := b.turn(0); r.Epoch != first.Epoch+1 {
			t.Errorf("epoch %d, want %d: workers must give back what they hold", r.Epoch, first.Epoch+1)
		}
		if live := b.shows("cooling_down"); live.Waiting != 1 {
			t.Errorf("%+v", live)
		}
		st, err := b.s.Job(t.Context(), b.lane, job.ID(b.dump().ready[0].id))
		if err != nil || st.WaitingFor != "cool_down" || time.Until(st.EstimatedSendAt) < 3*time.Second && b.mini == nil {
			t.Errorf("%+v, %v", st, err)
		}
		b.pass(3900 * time.Millisecond)
		r := b.turn(10)
		if len(r.Leases) != 3 || r.Leases[0].Used != 0 {
			t.Fatalf("%d leases near the end, %s", len(r.Leases), r.Why)
		}
		if ahead := r.Leases[0].Slot - r.Logical; ahead < 0 || ahead > 100_000 {
			t.Errorf("the first slot lies %d µs ahead", ahead)
		}
		b.pass(1200 * time.Millisecond) // the job itself comes up to a second later
		if l := b.lease(1)[0]; l.ID != two[0].ID || l.Used != 0 || l.Sent != 1 {
			t.Errorf("%+v", l)
		}
		b.checkDump()
	})
}

// A job that draws the answer again while others were delivered delays only itself.
func TestThrottledJobDelaysOnlyItself(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), "", func(t *testing.T, b *bench) {
		b.accept(newJobs(6, "")...)
		bad := b.lease(1)[0]
		b.holds("held", throttled(bad, time.Second, 0))
		b.pass(3 * time.Second)
		all := b.lease(6)
		if last := all[5]; last.ID != bad.ID {
			t.Errorf("the throttled job came back in front of others")
		}
		again := all[5]
		b.turn(0, result(all[0], KindDelivered, HealthOK))
		b.turn(0, throttled(again, 10*time.Second, bad.Slot))
		if live := b.shows("running"); live.Waiting != 1 {
			t.Errorf("%+v", live)
		}
		// One of a job that drew it never, or before the others were delivered, cools again.
		b.turn(0, throttled(all[1], 2*time.Second, 0))
		b.shows("cooling_down")
		b.checkDump()
	})
}

func TestEndCanRestTheDestination(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), "", func(t *testing.T, b *bench) {
		b.accept(newJobs(3, "")...)
		l := b.lease(1)[0]
		end := result(l, KindDelivered, HealthOK)
		end.Delay = 5 * time.Second
		b.holds("held", end)
		if live := b.shows("cooling_down"); live.Depth != 2 {
			t.Errorf("%+v", live)
		}
		b.pass(5 * time.Second)
		b.lease(2)
		b.checkDump()
	})
}

// "Later" that ends its job cools the destination, unless it was this job's own matter.
func TestThrottledEndCoolsTheDestination(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before bool
		state  string
	}{"first": {false, "cooling_down"}, "its own": {true, "running"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, perSecond(1000), "", func(t *testing.T, b *bench) {
				b.accept(newJobs(5, "")...)
				l := b.lease(3)
				end := result(l[2], KindDead, HealthSlow)
				end.Delay = 4 * time.Second
				if c.before {
					end.Before = l[0].Slot
				}
				b.turn(0, result(l[1], KindDelivered, HealthOK), end)
				if live := b.shows(c.state); live.Dead != 1 {
					t.Errorf("%+v", live)
				}
				b.checkDump()
			})
		})
	}
}

const brittle = `"breaker":{"failures":3,"open_for":"2s","max_open_for":"5s"},"retry":{"min_backoff":"10ms","max_backoff":"10ms"}`

func bad(l Lease) Result {
	r := result(l, KindRetry, HealthBad)
	r.Delay = 10 * time.Millisecond
	return r
}

// broken leases n jobs and lets them fail, and answers the leases that are still out.
func (b *bench) broken(jobs, out int) []Lease {
	b.t.Helper()
	b.accept(newJobs(jobs, "")...)
	leases := b.lease(3 + out)
	b.holds("held", bad(leases[0]), bad(leases[1]), bad(leases[2]))
	b.shows("breaker_open")
	return leases[3:]
}

func TestBreakerOpensProbesAndCloses(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), brittle, func(t *testing.T, b *bench) {
		out := b.broken(10, 2)
		// What was sent before it opened neither closes it nor keeps it open for longer.
		b.holds("held", result(out[0], KindDelivered, HealthOK), bad(out[1]))
		if r := b.push(newJob(""))[0]; r.Verdict != Accepted || !r.EstimatedSendAt.IsZero() {
			t.Errorf("a push meanwhile: %+v", r)
		}
		b.pass(2100 * time.Millisecond)
		probe := b.turn(10)
		if len(probe.Leases) != 1 {
			t.Fatalf("%d probes", len(probe.Leases))
		}
		b.holds("held") // one at a time
		b.holds("held", bad(probe.Leases[0]))
		b.pass(2100 * time.Millisecond) // twice as long now
		b.holds("held")
		b.pass(2 * time.Second)
		second := b.lease(1)[0]
		if second.ID == probe.Leases[0].ID {
			t.Error("the job that failed as a probe is the next probe")
		}
		r := b.turn(10, result(second, KindDead, HealthOK)) // a refusal is an answer
		if len(r.Leases) != 9 {
			t.Errorf("%d leases after the probe, %s", len(r.Leases), r.Why)
		}
		b.shows("running")
		b.checkDump()
	})
}

// Who holds jobs gives them back when the breaker opens; what is on its way then and
// fails behind the probe that closes it was sent before: it tells nothing.
func TestBreakerHearsOnlyOfWhatFollows(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), brittle, func(t *testing.T, b *bench) {
		b.accept(newJobs(10, "")...)
		leases := b.lease(6)
		before := b.turn(0).Epoch
		b.holds("held", bad(leases[0]), bad(leases[1]), bad(leases[2]))
		if r := b.turn(0); r.Epoch != before+1 {
			t.Errorf("epoch %d, want %d: workers must give back what they hold", r.Epoch, before+1)
		}
		b.pass(2100 * time.Millisecond)
		b.turn(0, result(b.lease(1)[0], KindDelivered, HealthOK))
		b.turn(0, bad(leases[3]), bad(leases[4]), bad(leases[5]))
		b.shows("running")
		b.checkDump()
	})
}

func TestBreakerGrowsAndIsCapped(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), brittle, func(t *testing.T, b *bench) {
		b.broken(10, 0)
		for _, open := range []time.Duration{2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
			b.pass(open - 700*time.Millisecond)
			b.holds("held")
			b.pass(800 * time.Millisecond)
			b.holds("held", bad(b.lease(1)[0]))
		}
		b.checkDump()
	})
}

// A probe without an answer is lost, not a failure: the next goes at once.
func TestLostProbeIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(b *bench, probe Lease){
		"released":  func(b *bench, probe Lease) { b.turn(0, result(probe, KindRelease, HealthNone)) },
		"ran out":   func(b *bench, _ Lease) { b.pass(17 * time.Second) },
		"back":      func(b *bench, probe Lease) { b.turn(0, result(probe, KindReturn, HealthNone)) },
		"lost call": func(b *bench, probe Lease) { b.turnAs("w1", Turn{Lost: []LostCall{lostCall(b, probe)}}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, perSecond(1000), brittle, func(t *testing.T, b *bench) {
				b.broken(10, 0)
				b.pass(2100 * time.Millisecond)
				probe := b.lease(1)[0]
				b.holds("held")
				lose(b, probe)
				r := b.turn(10)
				if len(r.Leases) != 1 {
					t.Fatalf("%d probes, %s", len(r.Leases), r.Why)
				}
				if r := b.turn(10, result(r.Leases[0], KindDelivered, HealthOK)); len(r.Leases) == 0 {
					t.Errorf("no leases after the probe: %s", r.Why)
				}
				b.checkDump()
			})
		})
	}
}

func lostCall(b *bench, l Lease) LostCall {
	b.t.Helper()
	var call uint64
	if n := strings.Split(l.Token, ":"); len(n) == 3 {
		for _, c := range n[1] {
			call = call*10 + uint64(c-'0')
		}
	}
	return LostCall{Call: call, From: 0, To: l.Slot + time.Hour.Microseconds()}
}

// A person who resumes knows that the destination is well again: it is probed at once,
// with one job, and the outcome that opened the breaker is shown meanwhile.
func TestResumeProbesAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), brittle, func(t *testing.T, b *bench) {
		b.broken(10, 0)
		if live := b.live(); len(live.StateReasons) != 1 || !strings.HasPrefix(live.StateReasons[0], "it failed (retry); it is probed in ") {
			t.Errorf("%q", live.StateReasons)
		}
		b.holds("held")
		b.setPaused(false)
		probe := b.lease(1)[0]
		b.holds("held")
		b.setPaused(false) // while a probe is out there is nothing to hasten
		b.holds("held", bad(probe))
		b.pass(2100 * time.Millisecond)
		b.holds("held") // it failed again, and waits for longer as ever
		b.setPaused(true)
		b.setPaused(false)
		if r := b.turn(10, result(b.lease(1)[0], KindDelivered, HealthOK)); len(r.Leases) != 9 || b.live().State != "running" {
			t.Errorf("%d leases after the probe, %s", len(r.Leases), r.Why)
		}
		if d := b.checkDump(); d.state[CountBreakerFell] != "1" || d.state[CountBreakerOpen] != "2" {
			t.Errorf("fell %s times and opened %s times, want 1 and 2", d.state[CountBreakerFell], d.state[CountBreakerOpen])
		}
	})
}

// Successes between failures keep it closed, and so does a contract without one.
func TestBreakerStaysClosed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more string
		ends func(i int, l Lease) Result
	}{
		"not in a row": {brittle, func(i int, l Lease) Result {
			return map[bool]Result{true: result(l, KindDelivered, HealthOK), false: bad(l)}[i%3 == 2]
		}},
		"none":           {`"breaker":{"failures":0}`, func(_ int, l Lease) Result { return bad(l) }},
		"refusals":       {brittle, func(_ int, l Lease) Result { return result(l, KindDead, HealthOK) }},
		"nothing learnt": {brittle, func(_ int, l Lease) Result { return result(l, KindReturn, HealthNone) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, perSecond(1000), c.more, func(t *testing.T, b *bench) {
				b.accept(newJobs(12, "")...)
				var ends []Result
				for i, l := range b.lease(11) {
					ends = append(ends, c.ends(i, l))
				}
				if r := b.turn(1, ends...); len(r.Leases) != 1 {
					t.Errorf("%d leases, %s", len(r.Leases), r.Why)
				}
				b.shows("running")
				b.checkDump()
			})
		})
	}
}

// A contract without a breaker ends one that is open.
func TestContractEndsTheBreaker(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), brittle, func(t *testing.T, b *bench) {
		b.broken(10, 0)
		b.apply(perSecond(1000), `"breaker":{"failures":0}`)
		b.lease(7)
		b.shows("running")
	})
}

// One that was switched on while the clock was ahead, which nobody had seen yet, is not deaf for as long.
func TestBreakerBeginsAheadOfTheClock(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), `"breaker":{"failures":0}`, func(t *testing.T, b *bench) {
		b.pass(time.Hour)
		b.apply(perSecond(1000), brittle)
		b.pass(-time.Hour)
		b.accept(newJobs(10, "")...)
		l := b.lease(3)
		b.holds("held", bad(l[0]), bad(l[1]), bad(l[2]))
		b.shows("breaker_open")
	})
}

// One that is switched off and on again starts closed, and hears only of what is
// sent from then on; another change leaves it as it is.
func TestBreakerSwitchedOffAndOnIsClean(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), brittle, func(t *testing.T, b *bench) {
		before := b.broken(20, 2)
		b.apply(perSecond(2000), brittle)
		b.shows("breaker_open")
		b.apply(perSecond(1000), `"breaker":{"failures":0}`)
		meanwhile := b.lease(2)
		b.turn(0, bad(meanwhile[0]))
		b.pass(time.Second)
		b.apply(perSecond(1000), brittle)
		b.turn(0, bad(before[0]), bad(before[1]), bad(meanwhile[1]))
		l := b.lease(3)
		b.turn(0, bad(l[0]), bad(l[1]))
		b.shows("running")
		b.holds("held", bad(l[2]))
		b.pass(2100 * time.Millisecond) // as after the first time that it opens
		b.lease(1)
		b.checkDump()
	})
}

// What may have been sent is never sent again where a job goes at most once.
func TestAtMostOnceLeaseThatRanOut(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), once, func(t *testing.T, b *bench) {
		b.accept(newJobs(2, "")...)
		leases := b.lease(2)
		if held, err := b.s.Start(t.Context(), b.lane, destination.Memory, leases[:1]); err != nil || !held[0] {
			t.Fatalf("%v, %v", held, err)
		}
		b.pass(17 * time.Second)
		again := b.lease(1)[0]
		if again.ID != leases[1].ID {
			t.Errorf("the started job was handed out again")
		}
		if got := b.state(leases[0].ID); got != job.Unknown {
			t.Errorf("the started job is %s", got)
		}
		b.checkDump()
	})
}

// unknownJobs leases n jobs, starts them and lets their leases run out.
func (b *bench) unknownJobs(n int) []Lease {
	b.t.Helper()
	jobs := newJobs(n, "a")
	for _, j := range jobs {
		j.IdempotencyKey = "key of " + string(j.ID)
		j.ExpiresIn = time.Hour
	}
	b.accept(jobs...)
	l := b.lease(n)
	if _, err := b.s.Start(b.t.Context(), b.lane, destination.Memory, l); err != nil {
		b.t.Fatal(err)
	}
	b.pass(17 * time.Second)
	b.turn(0)
	for _, lost := range l {
		if got := b.state(lost.ID); got != job.Unknown {
			b.t.Fatalf("a started job whose lease ran out is %s", got)
		}
	}
	return l
}

const once = `"delivery":"at_most_once","durability":"replica"`

// What a lost worker says when it comes back tells what became of its job: of one
// that was given up because of it, and that nobody sent again.
func TestLateResultResolvesWhatIsUnknown(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), once, func(t *testing.T, b *bench) {
		l := b.unknownJobs(9)
		foreign, retry, later := delivered(l[3]), result(l[6], KindRetry, HealthBad), throttled(l[7], time.Minute, 0)
		foreign.Token = "w2:1:1"
		retry.Counts = true
		if _, err := b.s.Redrive(t.Context(), b.lane, l[4].ID); err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct {
			r       Result
			verdict string
			state   job.State
		}{
			{delivered(l[0]), "ok", job.Delivered},
			{delivered(l[0]), "again", job.Delivered},
			{result(l[1], KindDead, HealthOK), "ok", job.Dead},
			{delivered(l[1]), "again", job.Dead}, // it has said otherwise
			{result(l[2], KindUnknown, HealthBad), "again", job.Unknown},
			{foreign, "again", job.Unknown},
			{delivered(l[4]), "stale", job.Ready},
			{result(l[5], KindRelease, HealthNone), "ok", job.Ready},
			{retry, "ok", job.Ready},
			{later, "ok", job.Waiting},
			{later, "stale", job.Waiting},
		} {
			if got := b.turn(0, c.r).Verdicts[0]; got != c.verdict || b.state(c.r.ID) != c.state {
				t.Errorf("result %d: %s, the job is %s; want %s, %s", i, got, b.state(c.r.ID), c.verdict, c.state)
			}
			b.checkDump()
		}
		if both := b.turn(0, delivered(l[8]), delivered(l[8])).Verdicts; both[0] != "ok" || both[1] != "again" {
			t.Errorf("the same twice in one call: %v", both)
		}
		sent := map[job.ID]Lease{}
		for _, again := range b.lease(3) {
			sent[again.ID] = again
		}
		if j := sent[l[5].ID]; j.Sent != 0 || j.Used != 0 || j.Crashes != 0 {
			t.Errorf("one that was never sent: %+v", j)
		}
		if j := sent[l[6].ID]; j.Sent != 1 || j.Used != 1 || j.First == 0 {
			t.Errorf("one that failed once: %+v", j)
		}
		b.checkDump()
	})
}

// A job comes back only where there is room.
func TestLateResultKeepsTheBound(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), once+`,"queue":{"capacity":2}`, func(t *testing.T, b *bench) {
		l := b.unknownJobs(2)
		b.accept(newJob("b"))
		got := b.turn(0, result(l[0], KindRelease, HealthNone), result(l[1], KindRelease, HealthNone)).Verdicts
		if got[0] != "ok" || got[1] != "again" || b.state(l[0].ID) != job.Ready || b.state(l[1].ID) != job.Unknown {
			t.Errorf("%v, %s, %s", got, b.state(l[0].ID), b.state(l[1].ID))
		}
		b.checkDump()
	})
}

// A lease that ran out is nobody's: its worker may not begin to send, for another may do so.
func TestStartOfALeaseThatRanOutIsRefused(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), once, func(t *testing.T, b *bench) {
		b.accept(newJobs(1, "")...)
		l := b.lease(1)
		b.pass(17 * time.Second)
		b.turn(0)
		if held, err := b.s.Start(t.Context(), b.lane, destination.Memory, l); err != nil || held[0] {
			t.Errorf("held %v, %v", held, err)
		}
		b.checkDump()
	})
}
