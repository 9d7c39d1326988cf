package api

import (
	"context"
	"encoding/base64"
	"unicode/utf8"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

type jobInput struct {
	DestinationPath
	ID string `path:"id" doc:"Id of the job"`
}

type jobOutput struct {
	Body jobView
}

// jobView is a job as callers see it: never its body or headers.
type jobView struct {
	ID              job.ID            `json:"id"`
	Destination     string            `json:"destination"`
	State           job.State         `json:"state" doc:"scheduled, ready, leased (with a worker), waiting (for its next attempt); ended: delivered, dead, unknown, expired, cancelled"`
	Outcome         string            `json:"outcome,omitempty" doc:"Of the last attempt, or why the job ended"`
	Producer        string            `json:"producer,omitempty"`
	Tenant          string            `json:"tenant,omitempty"`
	Priority        int               `json:"priority"`
	CreatedAt       *string           `json:"created_at" format:"date-time"`
	DeliverAt       *string           `json:"deliver_at" format:"date-time"`
	ExpiresAt       *string           `json:"expires_at" format:"date-time"`
	FinishedAt      *string           `json:"finished_at" format:"date-time"`
	Attempts        []attemptView     `json:"attempts"`
	Response        *responseView     `json:"response,omitempty" doc:"Of the destination, where its contract keeps it"`
	Redrives        int               `json:"redrives"`
	Reason          string            `json:"reason,omitempty" doc:"Of the person who resolved the job"`
	Position        *int64            `json:"position,omitempty" doc:"Jobs of the same tenant that go before it, while it is live; lists do not tell"`
	EstimatedSendAt *string           `json:"estimated_send_at" format:"date-time"`
	WaitingFor      string            `json:"waiting_for,omitempty" doc:"limit (with its name), its_time, back_off, cool_down, breaker, in_flight_cap, pause, faulty"`
	Metadata        map[string]string `json:"metadata,omitempty"`
}

type attemptView struct {
	Number     int         `json:"number"`
	StartedAt  *string     `json:"started_at" format:"date-time"`
	DurationMS int64       `json:"duration_ms"`
	Outcome    job.Outcome `json:"outcome"`
	Text       string      `json:"text" doc:"The outcome in words"`
	HTTPStatus int         `json:"http_status,omitempty"`
	Error      string      `json:"error,omitempty"`
}

// responseView is what was kept of the destination's answer. Its headers and
// body are payload: shown to who may see that, and to who pushed the job.
type responseView struct {
	HTTPStatus int            `json:"http_status"`
	Headers    map[string]any `json:"headers,omitempty" doc:"Those that the contract keeps; a list where one came more than once. With the scope payload, or of one's own job"`
	Body       string         `json:"body,omitempty" doc:"Up to the bound of the contract. With the scope payload, or of one's own job"`
	BodyBase64 string         `json:"body_base64,omitempty" doc:"Instead of body, when it is not UTF-8"`
	Truncated  bool           `json:"truncated" doc:"There was more than is kept"`
}

func viewResponse(r *job.Response, payload bool) *responseView {
	if r == nil {
		return nil
	}
	v := &responseView{HTTPStatus: r.HTTPStatus, Truncated: r.Truncated}
	if !payload {
		return v
	}
	v.Headers = job.HeaderMap(r.Headers)
	if text := wholeRunes(r.Body, r.Truncated); utf8.Valid(text) {
		v.Body = string(text)
	} else {
		v.BodyBase64 = base64.StdEncoding.EncodeToString(r.Body)
	}
	return v
}

// wholeRunes leaves out a character that the bound has cut.
func wholeRunes(b []byte, truncated bool) []byte {
	for cut := 1; truncated && cut < utf8.UTFMax && cut <= len(b); cut++ {
		if tail := b[len(b)-cut:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return b[:len(b)-cut]
			}
			break
		}
	}
	return b
}

func (a *API) getJob(ctx context.Context, in *jobInput) (*jobOutput, error) {
	s, err := a.findJob(ctx, in)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	p := callOf(ctx).producer
	v := viewJob(in.Destination, s)
	v.Response = viewResponse(s.Response, p.may(ScopePayload) || s.Producer != "" && s.Producer == p.name)
	return &jobOutput{Body: v}, nil
}

// findJob finds a job that the caller may know of: who may only enqueue sees
// only what is its own.
func (a *API) findJob(ctx context.Context, in *jobInput) (*queue.Status, error) {
	s, err := a.lookUp(ctx, in)
	if p := callOf(ctx).producer; err == nil && !p.may(ScopeRead) && !p.may(ScopeOperate) && s.Producer != p.name {
		return nil, noJob(in.ID)
	}
	return s, err
}

func noJob(id string) error {
	return job.Errorf(job.CodeJobNotFound, "there is no job %q, or what was kept of it is gone", clip(id, 40))
}

func (a *API) lookUp(ctx context.Context, in *jobInput) (*queue.Status, error) {
	if destination.ValidName(in.Destination) != nil {
		return nil, noDestination(in.Destination)
	}
	id, err := job.ParseID(in.ID)
	if err != nil {
		return nil, noJob(in.ID)
	}
	sctx, cancel := storeContext(ctx)
	defer cancel()
	s, err := a.cfg.Store.Job(sctx, in.Destination, id)
	if job.CodeOf(err) == job.CodeJobNotFound {
		return nil, noJob(in.ID) // in the same words as for a job of others
	}
	if err != nil {
		return nil, storeError(sctx, err)
	}
	return s, nil
}

func viewJob(name string, s *queue.Status) jobView {
	v := jobView{
		ID: s.ID, Destination: name, State: s.State, Outcome: s.Outcome,
		Producer: s.Producer, Tenant: s.Tenant, Priority: s.Priority,
		CreatedAt: stamp(s.CreatedAt), DeliverAt: stamp(s.DeliverAt), ExpiresAt: stamp(s.ExpiresAt), FinishedAt: stamp(s.FinishedAt),
		Attempts: []attemptView{}, Redrives: s.Redrives, Reason: s.Reason, EstimatedSendAt: stamp(s.EstimatedSendAt),
		WaitingFor: s.WaitingFor, Metadata: s.Metadata,
	}
	for _, t := range s.Attempts {
		v.Attempts = append(v.Attempts, attemptView{
			Number: t.Number, StartedAt: stamp(t.StartedAt), DurationMS: t.DurationMS,
			Outcome: t.Outcome, Text: t.Outcome.Text(), HTTPStatus: t.HTTPStatus, Error: t.Error,
		})
	}
	if s.State.Live() {
		v.Position = &s.Position
	}
	return v
}
