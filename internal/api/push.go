package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// DestinationPath names the destination of a call. Exported, as all parts of
// inputs and outputs, because huma looks only into exported ones.
type DestinationPath struct {
	Destination string `path:"destination" doc:"Name of the destination" example:"bank"`
}

// pushInput describes the parameters of a push to readers. headerKey reads the
// header, because an empty one is an error that a string cannot tell from none.
type pushInput struct {
	DestinationPath
	IdempotencyKey string `header:"Idempotency-Key" doc:"1 to 255 visible characters, quoted or bare; a repeated key makes no second job"`
}

type pushOutput struct {
	Quota
	Location string `header:"Location"`
	JobID    string `header:"Tundish-Job-Id"`
	Replayed string `header:"Idempotent-Replayed"`
	Body     accepted
}

func (o *pushOutput) write(w http.ResponseWriter) {
	h := w.Header()
	o.set(h)
	h.Set("Location", o.Location)
	h.Set("Tundish-Job-Id", o.JobID)
	setGiven(h, "Idempotent-Replayed", o.Replayed)
	writeJSON(w, http.StatusAccepted, typeJSON, &o.Body)
}

// accepted is the answer to a job that was taken.
type accepted struct {
	ID              job.ID    `json:"id"`
	Destination     string    `json:"destination"`
	State           job.State `json:"state" doc:"ready, or scheduled; of a repeated key what the first job is now"`
	Replayed        bool      `json:"replayed"`
	Depth           int64     `json:"depth" doc:"Live jobs of the destination"`
	Capacity        int64     `json:"capacity"`
	EstimatedSendAt *string   `json:"estimated_send_at" format:"date-time" doc:"null when paused"`
	StatusURL       string    `json:"status_url"`
}

func (a *API) push(ctx context.Context, name string) (output, error) {
	out, err := a.take(ctx, name, a.readJob)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// reading makes the one job of a request.
type reading func(context.Context, *destination.Contract) (*job.Job, error)

// take reads one job and stores it.
func (a *API) take(ctx context.Context, name string, read reading) (*pushOutput, error) {
	contract, err := a.contract(ctx, name)
	if err != nil {
		a.metrics.rejectedUnknown(job.CodeOf(err))
		return nil, newProblem(ctx, err)
	}
	out, err := a.pushOne(ctx, contract, read)
	if err != nil {
		a.metrics.rejected(contract.Name, job.CodeOf(err))
		return nil, a.pushProblem(ctx, err)
	}
	return out, nil
}

func (a *API) pushOne(ctx context.Context, contract *destination.Contract, read reading) (*pushOutput, error) {
	j, err := read(ctx, contract)
	if err != nil {
		return nil, err
	}
	results, err := a.commit.push(ctx, contract, []*job.Job{j})
	if err != nil {
		return nil, err
	}
	r := results[0]
	if err := a.verdict(contract, r); err != nil {
		return nil, err
	}
	out := &pushOutput{
		Quota: quotaOf(r.Capacity, r.Depth, 0), JobID: string(r.ID), Body: acceptedOf(contract.Name, r),
	}
	out.Location = out.Body.StatusURL
	if out.Body.Replayed {
		out.Replayed = "true"
	}
	return out, nil
}

// readJob reads the one job of a request.
func (a *API) readJob(ctx context.Context, contract *destination.Contract) (*job.Job, error) {
	key, err := headerKey(callOf(ctx).r.Header)
	if err != nil {
		return nil, err
	}
	data, _, err := readBody(ctx, requestLimit(contract.Queue.MaxJobBytes), typeJSON)
	if err != nil {
		return nil, err
	}
	if err := checkJSON(data); err != nil {
		return nil, err
	}
	j, err := parseJob(data, producerName(ctx), contract, a.cfg.Now())
	if err != nil {
		return nil, err
	}
	switch {
	case key == "":
	case j.IdempotencyKey != "" && j.IdempotencyKey != key:
		return nil, badKey("the header and idempotency_key differ")
	default:
		j.IdempotencyKey = key
	}
	fixKey(j, contract)
	return j, checkExpiry(j, a.cfg.Now())
}

// fixKey sets the key that the destination gets where the contract wants the
// producer's own; otherwise the store makes it.
func fixKey(j *job.Job, contract *destination.Contract) {
	if contract.Idempotency.Prefix == destination.PrefixNone {
		j.DownstreamKey = j.IdempotencyKey
	}
}

// envelopeBytes is what a request may hold around a body of base64.
const envelopeBytes = 64 << 10

func requestLimit(jobBytes int64) int64 { return jobBytes*4/3 + envelopeBytes }

// refusal is a verdict that took nothing, with what the RateLimit headers need.
type refusal struct {
	err   *job.Error
	quota Quota
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// pausedRetryAfter is a guess: nobody knows when an operator resumes. The store
// guesses the same when a full queue is paused.
const pausedRetryAfter = 30 * time.Second

var refusedCodes = map[queue.Verdict]job.Code{
	queue.Conflict:  job.CodeIdempotencyKeyReused,
	queue.Full:      job.CodeQueueFull,
	queue.BytesFull: job.CodeQueueBytesFull,
	queue.ShareFull: job.CodeTenantShareFull,
	queue.Paused:    job.CodeDestinationPaused,
}

// verdict counts what became of a job and turns a refusal into an error.
func (a *API) verdict(c *destination.Contract, r queue.PushResult) error {
	switch r.Verdict {
	case queue.Accepted:
		a.metrics.accepted(c.Name)
		return unconfirmedJob(c, r)
	case queue.Replayed:
		a.metrics.replayed(c.Name)
		return unconfirmedJob(c, r)
	}
	code, ok := refusedCodes[r.Verdict]
	if !ok {
		return job.Errorf(job.CodeInternal, "the push failed")
	}
	e := &job.Error{Code: code, Detail: refusalDetail(c, r)}
	switch code {
	case job.CodeIdempotencyKeyReused:
		return e
	case job.CodeDestinationPaused:
		e.RetryAfter = max(r.RetryAfter, pausedRetryAfter)
		return e
	}
	e.RetryAfter = atLeastMS(a.refusals.wait(c.Name, r.RetryAfter, r.DrainPerSecond))
	return &refusal{err: e, quota: quotaOf(r.Capacity, r.Depth, e.RetryAfter)}
}

// unconfirmedJob is told of a job that Redis holds and may yet forget.
func unconfirmedJob(c *destination.Contract, r queue.PushResult) error {
	if !r.Unconfirmed {
		return nil
	}
	return &job.Error{Code: job.CodeDurabilityUnconfirmed, Job: r.ID, RetryAfter: 2 * time.Second,
		Detail: "Redis holds the job and did not confirm durability: " + string(c.Durability) + " in time; it may be sent. Repeat the request with the same Idempotency-Key to ask again"}
}

// pushProblem adds the RateLimit headers to a refusal.
func (a *API) pushProblem(ctx context.Context, err error) error {
	p := a.problem(ctx, err)
	if r, ok := err.(*refusal); ok { //nolint:errorlint // made two calls up
		r.quota.set(p.headers)
	}
	return p
}

func acceptedOf(name string, r queue.PushResult) accepted {
	return accepted{
		ID: r.ID, Destination: name, State: r.State, Replayed: r.Verdict == queue.Replayed,
		Depth: r.Depth, Capacity: r.Capacity, EstimatedSendAt: stamp(r.EstimatedSendAt),
		StatusURL: statusURL(name, r.ID),
	}
}

func statusURL(name string, id job.ID) string {
	return "/v1/destinations/" + url.PathEscape(name) + "/jobs/" + string(id)
}

// stamp writes a time as programs read it; nil for none.
func stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format("2006-01-02T15:04:05.000Z")
	return &s
}
