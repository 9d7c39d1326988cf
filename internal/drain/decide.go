package drain

import (
	"math"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// maxRetryAfter is the longest wait that a destination may ask for.
const maxRetryAfter = time.Hour

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
	switch {
	case class == job.Success:
		out.Kind = queue.KindDelivered
	case res.Outcome == job.OutcomeInterrupted:
		out.Kind = queue.KindReturn
	case class == job.Permanent:
		out.Kind, out.Counts = queue.KindDead, true
	case g.Used+1 >= attempts(c, j), tooOld(c, g):
		out.Kind, out.Counts = queue.KindDead, true
	default:
		out.Kind, out.Counts = queue.KindRetry, true
		out.Delay = max(backoff(c.Retry, g.Used+1, random()), min(res.RetryAfter, maxRetryAfter))
	}
	if out.Kind == queue.KindDelivered || out.Kind == queue.KindDead {
		final := queue.FinalNote(j, note.Attempts)
		final.Response, final.Redrives = res.Response, note.Redrives
		note = *final
	}
	out.Note = note.Encode()
	return out
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
