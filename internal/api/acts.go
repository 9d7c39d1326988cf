package api

import (
	"context"
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"tundish/internal/job"
	"tundish/internal/queue"
)

// actor is what the door needs to change single jobs.
type actor interface {
	Jobs(ctx context.Context, name string, q queue.Query) (*queue.Page, error)
	Cancel(ctx context.Context, name string, id job.ID) (*queue.Status, error)
	Redrive(ctx context.Context, name string, id job.ID) (*queue.Status, error)
	Resolve(ctx context.Context, name string, id job.ID, delivered bool, reason string) (*queue.Status, error)
	Erase(ctx context.Context, name string, id job.ID) (*queue.Status, error)
}

// jobRoutes registers what can be done with jobs that are there.
func (a *API) jobRoutes(h huma.API, one string) {
	const onJob = "/jobs/{id}"
	register(h, http.MethodGet, one+"/jobs", "list-jobs", "List jobs", a.listJobs, needs(ScopeRead, ScopeEnqueue),
		also("A page may hold fewer jobs than limit, even none, and have a next_cursor: go on with that. A job that stays where it is is listed once."))
	register(h, http.MethodGet, one+onJob+"/payload", "get-payload", "See what a job sends", a.getPayload, needs(ScopePayload))
	register(h, http.MethodPost, one+onJob+"/cancel", "cancel-job", "Cancel a job", a.cancelJob, needs(ScopeOperate, ScopeEnqueue),
		also("Of others, only with operate. A job that a worker holds is in flight (job_in_flight)."))
	register(h, http.MethodPost, one+onJob+"/redrive", "redrive-job", "Send a dead or unknown job again", a.redriveJob, needs(ScopeOperate),
		also("It goes behind those that are there, with its id and its key, and has all its attempts again."))
	register(h, http.MethodPost, one+onJob+"/resolve", "resolve-job", "Say what became of an unknown job", a.resolveJob, accepts[resolveSchema](typeJSON), needs(ScopeOperate))
	register(h, http.MethodDelete, one+onJob, "erase-job", "Erase a job that has ended, with its payload", a.eraseJob, needs(ScopeOperate),
		also("The answer is the job as it was."))
	register(h, http.MethodPost, one+"/redrive", "redrive-jobs", "Send dead jobs again", a.redriveJobs, accepts[redriveSchema](typeJSON), status(http.StatusAccepted), needs(ScopeOperate),
		also("They go behind those that are there, at the destination's rate, and fill the queue to at most 90 %."))
	register(h, http.MethodPost, one+"/purge", "purge-jobs", "End or erase jobs", a.purgeJobs, accepts[purgeSchema](typeJSON), status(http.StatusAccepted), needs(ScopeOperate))
	register(h, http.MethodGet, "/v1/operations", "list-operations", "List operations", a.listOperations, needs(ScopeRead, ScopeOperate))
	register(h, http.MethodGet, "/v1/operations/{id}", "get-operation", "See an operation", a.getOperation, needs(ScopeRead, ScopeOperate))
	register(h, http.MethodPost, "/v1/operations/{id}/cancel", "cancel-operation", "Cancel an operation", a.cancelOperation, needs(ScopeOperate),
		also("What it has done stays done."))
}

// deed is what the store does with one job.
type deed func(ctx context.Context, name string, id job.ID) (*queue.Status, error)

// act does something with a job that the caller may change, and shows it.
func (a *API) act(ctx context.Context, in *jobInput, do deed) (*jobOutput, error) {
	s, err := a.findJob(ctx, in)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	if p := callOf(ctx).producer; !p.may(ScopeOperate) && s.Producer != p.name {
		return nil, newProblem(ctx, job.Errorf(job.CodeForbidden, "the key needs the scope %s for jobs of others", ScopeOperate))
	}
	sctx, cancel := writeContext(ctx)
	defer cancel()
	if s, err = do(sctx, in.Destination, s.ID); err != nil {
		return nil, a.problem(ctx, storeError(sctx, err))
	}
	return &jobOutput{Body: viewJob(in.Destination, s)}, nil
}

func (a *API) cancelJob(ctx context.Context, in *jobInput) (*jobOutput, error) {
	if err := readFields(ctx, fields{}); err != nil {
		return nil, newProblem(ctx, err)
	}
	return a.act(ctx, in, a.cfg.Store.Cancel)
}

func (a *API) redriveJob(ctx context.Context, in *jobInput) (*jobOutput, error) {
	if err := readFields(ctx, fields{}); err != nil {
		return nil, newProblem(ctx, err)
	}
	return a.act(ctx, in, a.cfg.Store.Redrive)
}

func (a *API) eraseJob(ctx context.Context, in *jobInput) (*jobOutput, error) {
	return a.act(ctx, in, a.cfg.Store.Erase)
}

// resolveSchema describes the body of resolve to readers.
type resolveSchema struct {
	_ struct{} `json:"-" additionalProperties:"false"`

	Verdict string `json:"verdict" enum:"delivered,retry" doc:"What is known by now: it arrived, or it is to be sent again"`
	Reason  string `json:"reason,omitempty" maxLength:"500" doc:"Shown beside the job"`
}

func (a *API) resolveJob(ctx context.Context, in *jobInput) (*jobOutput, error) {
	verdict, reason := "", ""
	err := readFields(ctx, fields{
		"verdict": func(f *fieldErrors, at string, raw json.RawMessage) {
			if verdict, _ = f.text(at, raw); verdict != "delivered" && verdict != "retry" {
				f.bad(at, "give delivered or retry")
			}
		},
		"reason": func(f *fieldErrors, at string, raw json.RawMessage) { f.short(at, raw, reasonLength, &reason) },
	})
	if err == nil && verdict == "" {
		err = invalid([]job.FieldError{{Pointer: "/verdict", Detail: "give delivered or retry", Code: job.CodeInvalid}})
	}
	if err != nil {
		return nil, newProblem(ctx, err)
	}
	return a.act(ctx, in, func(ctx context.Context, name string, id job.ID) (*queue.Status, error) {
		return a.cfg.Store.Resolve(ctx, name, id, verdict == "delivered", reason)
	})
}

type payloadOutput struct {
	Body payloadView
}

// payloadView is what the destination is sent, or kept answering.
type payloadView struct {
	ID          job.ID               `json:"id"`
	Method      string               `json:"method,omitempty" doc:"The destination's own when left out"`
	Path        string               `json:"path,omitempty"`
	Headers     []headerView         `json:"headers" doc:"In the order in which they are sent"`
	ContentType string               `json:"content_type,omitempty"`
	Response    *responsePayloadView `json:"response,omitempty" doc:"Of the destination, where its contract keeps it"`
	bodyView
}

type headerView struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// bodyView is a body byte for byte; neither field stands there for an empty one.
type bodyView struct {
	BodyText   string `json:"body_text,omitempty" doc:"The body, where it is UTF-8"`
	BodyBase64 []byte `json:"body_base64,omitempty" doc:"The body otherwise"`
}

type responsePayloadView struct {
	HTTPStatus int          `json:"http_status"`
	Headers    []headerView `json:"headers"`
	Truncated  bool         `json:"truncated"`
	bodyView
}

func viewBody(body []byte) bodyView {
	if utf8.Valid(body) {
		return bodyView{BodyText: string(body)}
	}
	return bodyView{BodyBase64: body}
}

func viewHeaders(list []job.Header) []headerView {
	out := make([]headerView, 0, len(list))
	for _, h := range list {
		out = append(out, headerView{h.Name, h.Value})
	}
	return out
}

func (a *API) getPayload(ctx context.Context, in *jobInput) (*payloadOutput, error) {
	s, err := a.lookUp(ctx, in)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	if s.Job == nil && s.Response == nil {
		return nil, newProblem(ctx, job.Errorf(job.CodeJobNotFound, "the job is %s, and its payload is not kept", s.State))
	}
	v := payloadView{ID: s.ID, Headers: []headerView{}}
	if s.Job != nil {
		r := s.Job.Request
		v.Method, v.Path, v.ContentType, v.Headers, v.bodyView = r.Method, r.Path, r.ContentType, viewHeaders(r.Headers), viewBody(r.Body)
	}
	if r := s.Response; r != nil {
		v.Response = &responsePayloadView{HTTPStatus: r.HTTPStatus, Headers: viewHeaders(r.Headers), Truncated: r.Truncated, bodyView: viewBody(r.Body)}
	}
	return &payloadOutput{Body: v}, nil
}
