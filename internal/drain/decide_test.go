package drain

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

func half() float64 { return 0.5 }

func retries() destination.Retry {
	return destination.Retry{MaxAttempts: 3, MaxAge: time.Hour, MinBackoff: time.Second, MaxBackoff: time.Minute, MaxRetryAfter: time.Hour, MaxThrottled: 5}
}

// again is what becomes of a job whose attempt may be tried again.
func again(o job.Outcome, used, tooOld bool) queue.Kind {
	switch {
	case tooOld, used && o.Class() != job.Throttled:
		return queue.KindDead
	case o.Class() == job.Throttled:
		return queue.KindThrottled
	}
	return queue.KindRetry
}

// TestDecideKnowsEveryOutcome goes through every outcome in both ways of delivery,
// with attempts left, with none left, and with a first attempt that lies too far back.
func TestDecideKnowsEveryOutcome(t *testing.T) {
	t.Parallel()
	doubt := []job.Outcome{job.OutcomeServerError, job.OutcomeInvalidReply, job.OutcomeReset, job.OutcomeTimeout, job.OutcomeTruncated, job.OutcomeInterrupted}
	cases := []struct {
		name         string
		lease        queue.Lease
		used, tooOld bool
	}{
		{"attempts left", queue.Lease{Used: 1, Sent: 1, Slot: 2e9, First: 1e9}, false, false},
		{"last attempt", queue.Lease{Used: 2, Sent: 2, Slot: 2e9, First: 1e9}, true, false},
		{"too old", queue.Lease{Used: 1, Sent: 1, Slot: 5e9, First: 1e9}, false, true},
		{"first attempt", queue.Lease{Slot: 5e9}, false, false},
	}
	for _, delivery := range []destination.Delivery{destination.AtLeastOnce, destination.AtMostOnce} {
		c := &destination.Contract{Delivery: delivery, Retry: retries()}
		for _, tc := range cases {
			for _, o := range job.Outcomes() {
				t.Run(fmt.Sprintf("%s/%s/%s", delivery, tc.name, o), func(t *testing.T) {
					t.Parallel()
					want := again(o, tc.used, tc.tooOld)
					switch {
					case delivery == destination.AtMostOnce && slices.Contains(doubt, o):
						want = queue.KindUnknown
					case o == job.OutcomeInterrupted:
						want = queue.KindReturn
					case o.Class() == job.Success:
						want = queue.KindDelivered
					case o.Class() == job.Permanent:
						want = queue.KindDead
					case o.Class() == job.Released:
						want = queue.KindRelease
					}
					r := decide(c, &granted{Lease: tc.lease}, &job.Job{}, deliver.Result{Outcome: o, Wrote: true}, half)
					if r.Kind != want {
						t.Errorf("%s, want %s", r.Kind, want)
					}
					if counts := want == queue.KindRetry || want == queue.KindDead || want == queue.KindUnknown; r.Counts != counts {
						t.Errorf("counts %v, want %v", r.Counts, counts)
					}
					if (r.Delay > 0) != (want == queue.KindRetry || o.Class() == job.Throttled) {
						t.Errorf("delay %s with %s", r.Delay, r.Kind)
					}
					note := queue.DecodeNote(r.Note)
					if n := len(note.Attempts); want == queue.KindRelease && n != 0 || want != queue.KindRelease && n != 1 {
						t.Errorf("%d attempts noted with %s", n, r.Kind)
					}
				})
			}
		}
	}
}

// Before a byte left, at most once is no different.
func TestAtMostOnceTriesAgainWhatNeverLeft(t *testing.T) {
	t.Parallel()
	c := &destination.Contract{Delivery: destination.AtMostOnce, Retry: retries()}
	for _, o := range job.Outcomes() {
		r := decide(c, &granted{Lease: queue.Lease{Slot: 5e9}}, &job.Job{}, deliver.Result{Outcome: o}, half)
		if r.Kind == queue.KindUnknown {
			t.Errorf("%s without a write: %s", o, r.Kind)
		}
	}
}

func TestOutcomesTellTheHealth(t *testing.T) {
	t.Parallel()
	none := []job.Outcome{job.OutcomeNotSent, job.OutcomeInterrupted, job.OutcomeBadRequest}
	for _, o := range job.Outcomes() {
		want := queue.HealthBad
		switch o.Class() {
		case job.Success, job.Permanent, job.Throttled:
			want = queue.HealthOK
		}
		if slices.Contains(none, o) {
			want = queue.HealthNone
		}
		if o == job.OutcomeNotArrived || o == job.OutcomePostponed { // it has answered, about one job
			want = queue.HealthOK
		}
		if got := healthOf(o); got != want {
			t.Errorf("%s: %q, want %q", o, got, want)
		}
	}
}

// A destination that says its quota is used up rests, if the contract lets it say so.
func TestLearnedLimitRestsTheDestination(t *testing.T) {
	t.Parallel()
	for _, learn := range []bool{true, false} {
		c := &destination.Contract{Retry: retries(), LearnLimits: learn}
		for said, want := range map[time.Duration]time.Duration{0: 0, time.Minute: time.Minute, 20 * time.Hour: time.Hour} {
			if !learn {
				want = 0
			}
			r := decide(c, &granted{}, &job.Job{}, deliver.Result{Outcome: job.OutcomeDelivered, Wrote: true, Exhausted: said}, half)
			if r.Kind != queue.KindDelivered || r.Delay != want {
				t.Errorf("learn_limits %v, %s: %s rests %s, want %s", learn, said, r.Kind, r.Delay, want)
			}
		}
	}
}

// TestThrottledUsesNoAttempt until it was told "later" too often.
func TestThrottledUsesNoAttempt(t *testing.T) {
	t.Parallel()
	c := &destination.Contract{Retry: retries()}
	g := &granted{Lease: queue.Lease{Used: 2, Slot: 1000}}
	for i := range 5 {
		r := decide(c, g, &job.Job{}, deliver.Result{Outcome: job.OutcomeThrottled, Wrote: true, RetryAfter: 4 * time.Second}, half)
		if i == 4 {
			if r.Kind != queue.KindDead || r.Outcome != reasonThrottled {
				t.Errorf("the fifth time: %s, %s", r.Kind, r.Outcome)
			}
			// The destination said it all the same, and is not to be asked with the next job.
			if r.Delay != 4*time.Second || r.Before != 4000 || r.Health != queue.HealthSlow {
				t.Errorf("the fifth time: %+v", r)
			}
			return
		}
		if before := int64(1000 * i); r.Kind != queue.KindThrottled || r.Delay != 4*time.Second || r.Counts || r.Before != before {
			t.Errorf("time %d: %+v", i, r)
		}
		g.History, g.Slot = r.Note, int64(1000*(i+2))
	}
}

// TestThrottledWithoutATimeBacksOff: "Retry-After: 0" is no reason to come back at
// once, nor ever sooner; and a failure after that begins at the first step.
func TestThrottledWithoutATimeBacksOff(t *testing.T) {
	t.Parallel()
	c := &destination.Contract{Retry: retries()}
	c.Retry.MaxThrottled = 100
	g, waits, last := &granted{Lease: queue.Lease{Slot: 1000}}, time.Duration(0), time.Duration(0)
	for i := range 12 {
		r := decide(c, g, &job.Job{}, deliver.Result{Outcome: job.OutcomeThrottled, Wrote: true}, half)
		if r.Delay < last || r.Delay < c.Retry.MinBackoff || r.Delay > c.Retry.MaxBackoff {
			t.Errorf("time %d: a delay of %s after %s", i+1, r.Delay, last)
		}
		last, waits = r.Delay, waits+r.Delay
		g.History, g.Slot = r.Note, int64(1000*(i+2))
	}
	if waits < 3*time.Minute {
		t.Errorf("twelve times in %s", waits)
	}
	r := decide(c, g, &job.Job{}, deliver.Result{Outcome: job.OutcomeServerError, Wrote: true}, half)
	if want := backoff(c.Retry, 1, half()); r.Kind != queue.KindRetry || r.Delay != want {
		t.Errorf("the failure after that: %s in %s, want a retry in %s", r.Kind, r.Delay, want)
	}
}

// TestBackoffSpreads: jobs that fail together do not come back together.
func TestBackoffSpreads(t *testing.T) {
	t.Parallel()
	r := destination.Retry{MinBackoff: 10 * time.Second, MaxBackoff: time.Minute}
	random := rand.New(rand.NewPCG(1, 2))
	const jobs = 1000
	slots, most := map[time.Duration]int{}, 0
	for range jobs {
		at := backoff(r, 1, random.Float64()).Truncate(100 * time.Millisecond)
		slots[at]++
		most = max(most, slots[at])
	}
	if most > jobs*6/100 || len(slots) < 80 {
		t.Errorf("%d of %d come back within 100 ms, in %d such spans", most, jobs, len(slots))
	}
}

// A job that is too old ends with "later"; the destination cools down all the same.
func TestThrottledEndCoolsTheDestination(t *testing.T) {
	t.Parallel()
	c := &destination.Contract{Retry: retries(), LearnLimits: true}
	for exhausted, want := range map[time.Duration]time.Duration{0: 4 * time.Second, time.Minute: time.Minute} {
		res := deliver.Result{Outcome: job.OutcomeThrottled, Wrote: true, RetryAfter: 4 * time.Second, Exhausted: exhausted}
		r := decide(c, &granted{Lease: queue.Lease{Slot: 5e9, First: 1e9}}, &job.Job{}, res, half)
		if r.Kind != queue.KindDead || r.Delay != want {
			t.Errorf("%s for %s, want %s", r.Kind, r.Delay, want)
		}
	}
}

// What makes the lane rest does not wait for company.
func TestResultsThatRestTheLaneAreUrgent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r    queue.Result
		want bool
	}{
		{queue.Result{Kind: queue.KindThrottled}, true},
		{queue.Result{Kind: queue.KindDelivered, Delay: time.Second}, true},
		{queue.Result{Kind: queue.KindDead, Delay: time.Second}, true},
		{queue.Result{Kind: queue.KindDelivered}, false},
		{queue.Result{Kind: queue.KindRetry, Delay: time.Second}, false},
	} {
		if l := (&lane{results: []queue.Result{{Kind: queue.KindDelivered}, c.r}}); l.urgent() != c.want {
			t.Errorf("%+v: urgent %v", c.r, l.urgent())
		}
	}
}

// A mail server that says no has not taken the mail: a 5xx of HTTP may hide work
// that was done, a 4xx of SMTP does not.
func TestAtMostOnceTriesAgainWhatAMailServerPutOff(t *testing.T) {
	t.Parallel()
	c := &destination.Contract{Delivery: destination.AtMostOnce, Retry: retries(), SMTP: &destination.SMTPTarget{}}
	for o, want := range map[job.Outcome]queue.Kind{job.OutcomePostponed: queue.KindRetry, job.OutcomeUnready: queue.KindRetry, job.OutcomeUnfinished: queue.KindRetry, job.OutcomeThrottled: queue.KindThrottled,
		job.OutcomeReset: queue.KindUnknown, job.OutcomeTimeout: queue.KindUnknown, job.OutcomeInvalidReply: queue.KindUnknown} {
		if r := decide(c, &granted{}, &job.Job{}, deliver.Result{Outcome: o, Wrote: true}, half); r.Kind != want {
			t.Errorf("%s: %s, want %s", o, r.Kind, want)
		}
	}
}

// TestDecideKeepsWhatAPersonDid: that a job was sent again stays with it to its end.
func TestDecideKeepsWhatAPersonDid(t *testing.T) {
	t.Parallel()
	c := &destination.Contract{Retry: destination.Retry{MaxAttempts: 3, MaxAge: time.Hour, MinBackoff: time.Second, MaxBackoff: time.Minute}}
	history := (&queue.Note{Redrives: 2, Attempts: []job.Attempt{{Number: 1}}}).Encode()
	for _, o := range []job.Outcome{job.OutcomeDelivered, job.OutcomeRejected, job.OutcomeServerError} {
		r := decide(c, &granted{Lease: queue.Lease{Sent: 1, History: history}}, &job.Job{}, deliver.Result{Outcome: o, Wrote: true}, half)
		if n := queue.DecodeNote(r.Note); n.Redrives != 2 || len(n.Attempts) != 2 || n.Attempts[1].Number != 2 {
			t.Errorf("%s: %+v", o, n)
		}
	}
}

func TestDecideInterruptedBeforeTheWriteReleases(t *testing.T) {
	t.Parallel()
	r := decide(&destination.Contract{}, &granted{}, &job.Job{}, deliver.Result{Outcome: job.OutcomeInterrupted}, half)
	if r.Kind != queue.KindRelease || r.Counts {
		t.Errorf("%s, counts %v", r.Kind, r.Counts)
	}
}

func TestJobOnlyLowersAttempts(t *testing.T) {
	t.Parallel()
	c := &destination.Contract{Retry: destination.Retry{MaxAttempts: 5}}
	for own, want := range map[int]int{0: 5, 1: 1, 5: 5, 9: 5} {
		if got := attempts(c, &job.Job{MaxAttempts: own}); got != want {
			t.Errorf("max_attempts %d of the job: %d, want %d", own, got, want)
		}
	}
}

func TestRetryAfterIsCapped(t *testing.T) {
	t.Parallel()
	c := &destination.Contract{Retry: retries()}
	for after, want := range map[time.Duration]time.Duration{0: 1500 * time.Millisecond, 30 * time.Second: 30 * time.Second, 10 * time.Hour: time.Hour} {
		r := decide(c, &granted{}, &job.Job{}, deliver.Result{Outcome: job.OutcomeServerError, Wrote: true, RetryAfter: after}, half)
		if r.Delay != want {
			t.Errorf("Retry-After %s: a delay of %s, want %s", after, r.Delay, want)
		}
		r = decide(c, &granted{}, &job.Job{}, deliver.Result{Outcome: job.OutcomeThrottled, Wrote: true, RetryAfter: after}, half)
		if r.Delay != want {
			t.Errorf("throttled, Retry-After %s: a delay of %s, want %s", after, r.Delay, want)
		}
	}
}

func TestBackoffStaysInItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		least := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "min"))
		most := least + time.Duration(rapid.Int64Range(0, int64(30*24*time.Hour)).Draw(t, "more"))
		n := rapid.IntRange(1, 5000).Draw(t, "n")
		d := backoff(destination.Retry{MinBackoff: least, MaxBackoff: most}, n, rapid.Float64Range(0, 0.999999).Draw(t, "random"))
		if d < least || d > most {
			t.Fatalf("retry %d waits %s, bounds %s and %s", n, d, least, most)
		}
	})
}

func TestBackoffDoubles(t *testing.T) {
	t.Parallel()
	r := destination.Retry{MinBackoff: time.Second, MaxBackoff: 10 * time.Minute}
	for n, top := range map[int]time.Duration{1: 2 * time.Second, 2: 4 * time.Second, 5: 32 * time.Second, 10: 10 * time.Minute, 1000: 10 * time.Minute} {
		if got := backoff(r, n, 0); got != time.Second {
			t.Errorf("retry %d waits at least %s, want 1s", n, got)
		}
		if got := backoff(r, n, 1); got != top {
			t.Errorf("retry %d waits at most %s, want %s", n, got, top)
		}
	}
}
