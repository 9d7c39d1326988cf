package drain

import (
	"math"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// decide turns the end of an attempt into what becomes of its job.
func decide(c *destination.Contract, g *granted, j *job.Job, res deliver.Result, random func() float64) queue.Result {
	out := queue.Result{ID: g.ID, Token: g.Token, Outcome: string(res.Outcome), Bytes: len(g.Envelope)}
	class := res.Outcome.Class()
	if class == job.Released || res.Outcome == job.OutcomeInterrupted && !res.Wrote {
		out.Kind = queue.KindRelease
		return out
	}
	note := queue.DecodeNote(g.History)
	note.Add(record(g, res))
	out.Health = healthOf(res.Outcome)
	if out.Health == queue.HealthOK && res.Duration > slowPart*g.timeout/100 {
		out.Health = queue.HealthSlow
	}
	if class == job.Throttled {
		coolDown(c, g, res, &note, &out, random)
	}
	switch {
	case class == job.Success:
		out.Kind = queue.KindDelivered
	case c.Delivery == destination.AtMostOnce && doubtful(res):
		doubt(c, g, j, &out, random)
	case res.Outcome == job.OutcomeInterrupted:
		out.Kind = queue.KindReturn
	case class == job.Permanent, tooOld(c, g):
		out.Kind, out.Counts = queue.KindDead, true
	case class == job.Throttled && note.Throttled >= c.Retry.MaxThrottled:
		out.Kind, out.Outcome = queue.KindDead, reasonThrottled
	case class == job.Throttled:
		out.Kind = queue.KindThrottled
	case g.Used+1 >= attempts(c, j):
		out.Kind, out.Counts = queue.KindDead, true
	default:
		out.Kind, out.Counts = queue.KindRetry, true
		out.Delay = max(backoff(c.Retry, g.Used+1, random()), min(res.RetryAfter, c.Retry.MaxRetryAfter))
	}
	if rest := min(res.Exhausted, c.Retry.MaxRetryAfter); c.LearnLimits && out.Kind.Final() && rest > out.Delay {
		out.Delay, out.Before = rest, 0
	}
	if out.Kind.Final() {
		final := queue.FinalNote(j, note.Attempts)
		final.Response, final.Redrives = res.Response, note.Redrives
		note = *final
	}
	out.Note = note.Encode()
	return out
}

// coolDown takes "later" for an answer, also to a job that ends with it: the
// destination cools down for as long as it asks, or for a back-off when it does not say.
func coolDown(c *destination.Contract, g *granted, res deliver.Result, note *queue.Note, out *queue.Result, random func() float64) {
	out.Before, out.Health = note.ThrottledAt, queue.HealthSlow
	note.Throttled, note.ThrottledAt = note.Throttled+1, g.Slot
	out.Delay = min(res.RetryAfter, c.Retry.MaxRetryAfter)
	if out.Delay <= 0 {
		out.Delay = min(backoff(c.Retry, note.Throttled, random()), c.Retry.MaxRetryAfter)
	}
}

// slowPart is how much of the timeout, in percent, an answer may need before it is slow.
const slowPart = 50

// reasonThrottled is why a job ends that was told "later" too often.
const reasonThrottled = "throttled_too_often"

// doubtful says that a request left and may have done its work. An answer that
// refuses it before (408, 425, 429, 503 with Retry-After, 4xx) leaves no doubt; a
// 5xx does: the destination may have failed behind the work.
func doubtful(res deliver.Result) bool {
	return res.Wrote && (res.Outcome.Class() == job.Ambiguous || res.Outcome == job.OutcomeServerError)
}

// healthOf is what an outcome tells of the destination.
func healthOf(o job.Outcome) queue.Health {
	switch o.Class() {
	case job.Success, job.Throttled:
		return queue.HealthOK
	case job.Permanent:
		if o != job.OutcomeBadRequest { // that one never left
			return queue.HealthOK
		}
	case job.Retry, job.Ambiguous:
		switch o {
		case job.OutcomeInterrupted:
		case job.OutcomeNotArrived, job.OutcomePostponed: // an answer, about this job alone
			return queue.HealthOK
		default:
			return queue.HealthBad
		}
	}
	return queue.HealthNone
}

// record is the attempt as it is shown; its number counts every request that
// left, crashes and interruptions too.
func record(g *granted, res deliver.Result) job.Attempt {
	started := res.StartedAt
	if started.IsZero() {
		started = time.Now()
	}
	return job.Attempt{Number: g.Sent + 1, StartedAt: started.UTC().Truncate(time.Millisecond), DurationMS: res.Duration.Milliseconds(),
		Outcome: res.Outcome, HTTPStatus: res.HTTPStatus, Error: res.Error}
}

// attempts is how many attempts a job has; it may only lower the contract's.
func attempts(c *destination.Contract, j *job.Job) int {
	if j.MaxAttempts > 0 {
		return min(j.MaxAttempts, c.Retry.MaxAttempts)
	}
	return c.Retry.MaxAttempts
}

// tooOld says that the job's first attempt lies further back than retries may reach.
func tooOld(c *destination.Contract, g *granted) bool {
	return g.First > 0 && time.Duration(g.Slot-g.First)*time.Microsecond > c.Retry.MaxAge
}

// backoff before retry n is uniform between min_backoff and
// min(max_backoff, min_backoff × 2ⁿ), so that jobs which failed together do not
// come back together.
func backoff(r destination.Retry, n int, random float64) time.Duration {
	top := float64(r.MinBackoff) * math.Exp2(float64(min(n, 62)))
	top = max(min(top, float64(r.MaxBackoff)), float64(r.MinBackoff))
	return r.MinBackoff + time.Duration(random*(top-float64(r.MinBackoff)))
}
