package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"tundish/internal/deliver"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// responseHeader says that an answer is the destination's, and how much of it.
const responseHeader = "Tundish-Response"

// The values of responseHeader.
const (
	responseKept      = "kept"        // as the contract keeps it
	responseTruncated = "truncated"   // there was more than is kept
	responseStatus    = "status-only" // the contract keeps none, so no more is known
)

// sendOutput is the answer to a request that waited for its job.
type sendOutput struct {
	*pushOutput

	method   string
	applied  string        // of Prefer; empty: nothing
	attempt  *job.Attempt  // that the destination has answered; nil: the job is not known to have ended
	response *job.Response // what was kept of that answer, or nil
}

func (o *sendOutput) write(w http.ResponseWriter) {
	h := w.Header()
	setGiven(h, "Preference-Applied", o.applied)
	if o.attempt == nil {
		o.pushOutput.write(w)
		return
	}
	h["Content-Type"] = nil // unless it was kept: nobody shall guess it from the body
	h.Set("Tundish-Job-Id", o.JobID)
	setGiven(h, "Idempotent-Replayed", o.Replayed)
	h.Set(responseHeader, o.known())
	var body []byte
	if o.response != nil {
		body = o.response.Body
		o.setKept(h)
	}
	if len(body) > 0 {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(o.attempt.HTTPStatus)
	if len(body) > 0 {
		_, _ = w.Write(body) // the caller is gone if this fails
	}
}

func (o *sendOutput) known() string {
	switch {
	case o.response == nil:
		return responseStatus
	case o.response.Truncated:
		return responseTruncated
	}
	return responseKept
}

// setKept writes the headers that were kept, but those of the connection to the
// destination and those that we set. To HEAD the length is all that is told of a body.
func (o *sendOutput) setKept(h http.Header) {
	first := map[string]bool{}
	for _, kept := range o.response.Headers {
		name := http.CanonicalHeaderKey(kept.Name)
		length := name == "Content-Length" && o.method == http.MethodHead
		if !length && deliver.ValidateHeader(name, kept.Value) != nil {
			continue
		}
		if !first[name] {
			h.Del(name) // what the door says of every answer
			first[name] = true
		}
		h.Add(name, kept.Value)
	}
}

// answeredBy is the attempt whose answer ended the job; nil when none did.
func answeredBy(s *queue.Status) *job.Attempt {
	if s.State == job.Expired || s.State == job.Cancelled || len(s.Attempts) == 0 {
		return nil
	}
	last := &s.Attempts[len(s.Attempts)-1]
	if last.HTTPStatus < 200 || last.HTTPStatus > 599 { // none, or not one that ends a request
		return nil
	}
	return last
}

// unanswered is told of a job that ended without an answer of the destination.
// It may have done the work all the same, so nothing says "try again".
func unanswered(ctx context.Context, s *queue.Status, out *sendOutput) *problem {
	p := newProblem(ctx, &job.Error{Code: job.CodeUnavailable, Job: s.ID,
		Detail: fmt.Sprintf("the job ended as %s (%s) without an answer of the destination; see %s", s.State, s.Outcome, out.Location)})
	p.Status, p.Retryable, p.RetryAfterMS = http.StatusBadGateway, false, 0
	if n := len(s.Attempts); n > 0 && s.State != job.Expired && s.State != job.Cancelled {
		switch s.Attempts[n-1].Outcome {
		case job.OutcomeTimeout, job.OutcomeConnectTimeout:
			p.Status = http.StatusGatewayTimeout
		}
	}
	p.headers = http.Header{"Tundish-Job-Id": {out.JobID}}
	setGiven(p.headers, "Idempotent-Replayed", out.Replayed)
	setGiven(p.headers, "Preference-Applied", out.applied)
	return p
}
