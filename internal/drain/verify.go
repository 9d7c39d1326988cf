package drain

import (
	"net/http"
	"net/url"
	"strings"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// doubt is what becomes of a job that may have arrived and must not go twice: the
// destination is asked about it, as long as it has attempts and time left.
func doubt(c *destination.Contract, g *granted, j *job.Job, out *queue.Result, random func() float64) {
	out.Kind, out.Counts = queue.KindUnknown, true
	if c.Verify != "" && g.Used+1 < attempts(c, j) && !tooOld(c, g) {
		out.Kind, out.Delay = queue.KindDoubt, backoff(c.Retry, g.Used+1, random())
	}
}

// question is the request that asks about a job. It has the job's slot, key and
// headers of the contract, and no body.
func question(c *destination.Contract, j *job.Job) *job.Job {
	asked := *j
	asked.Request = job.Request{Method: http.MethodGet,
		Path: strings.NewReplacer(destination.VerifyKey, url.QueryEscape(j.DownstreamKey), destination.VerifyID, url.QueryEscape(string(j.ID))).Replace(c.Verify)}
	return &asked
}

// decideDoubt turns the answer to a question into what becomes of its job: 2xx, it
// arrived; 404 or 410, it did not and is sent again. Any other answer leaves the doubt.
func decideDoubt(c *destination.Contract, g *granted, j *job.Job, res deliver.Result, random func() float64) queue.Result {
	switch {
	case res.Outcome == job.OutcomeDelivered:
		res.Outcome = job.OutcomeVerified
	case res.HTTPStatus == http.StatusNotFound, res.HTTPStatus == http.StatusGone:
		res.Outcome = job.OutcomeNotArrived
	}
	out := decide(c, g, j, res, random)
	if res.Outcome == job.OutcomeVerified || res.Outcome == job.OutcomeNotArrived {
		return out
	}
	switch out.Kind {
	case queue.KindDead:
		out.Kind, out.Counts = queue.KindUnknown, true
	case queue.KindRetry:
		out.Kind = queue.KindDoubt
	}
	return out
}

// reasonUnverified is why a job ends as unknown that nobody can be asked about any longer.
const reasonUnverified = "unverified"

func unverified(g *granted, j *job.Job) queue.Result {
	final := queue.FinalNote(j, queue.DecodeNote(g.History).Attempts)
	return queue.Result{ID: g.ID, Token: g.Token, Kind: queue.KindUnknown, Outcome: reasonUnverified, Note: final.Encode(), Bytes: len(g.Envelope)}
}
