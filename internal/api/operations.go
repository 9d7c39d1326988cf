package api

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// operator is what the door needs for work on many jobs.
type operator interface {
	StartOperation(ctx context.Context, r queue.OperationRequest) (*queue.Operation, error)
	Operations(ctx context.Context) ([]*queue.Operation, error)
	Operation(ctx context.Context, id string) (*queue.Operation, error)
	CancelOperation(ctx context.Context, id string) (*queue.Operation, error)
}

// filterSchema describes a filter to readers: the names of the list of jobs.
type filterSchema struct {
	_ struct{} `json:"-" additionalProperties:"false"`

	State        string `json:"state,omitempty" doc:"Of a redrive: dead (when left out) or unknown"`
	Outcome      string `json:"outcome,omitempty"`
	Tenant       string `json:"tenant,omitempty"`
	Producer     string `json:"producer,omitempty"`
	CreatedAfter string `json:"created_after,omitempty" format:"date-time"`
}

type redriveSchema struct {
	_ struct{} `json:"-" additionalProperties:"false"`

	Filter filterSchema `json:"filter,omitempty"`
	Max    int64        `json:"max,omitempty" minimum:"1" doc:"Jobs at most; all when left out"`
	DryRun bool         `json:"dry_run,omitempty" doc:"Count only"`
}

type purgeSchema struct {
	_ struct{} `json:"-" additionalProperties:"false"`

	Confirm string       `json:"confirm,omitempty" doc:"The name of the destination; not needed to count"`
	States  []string     `json:"states" doc:"ready, waiting and scheduled jobs end as cancelled; what is kept of dead, unknown, delivered, expired and cancelled ones is erased"`
	Filter  filterSchema `json:"filter,omitempty"`
	Max     int64        `json:"max,omitempty" minimum:"1" doc:"Jobs at most; all when left out"`
	DryRun  bool         `json:"dry_run,omitempty" doc:"Count only"`
}

type operationOutput struct {
	Location string `header:"Location"`
	Body     operationView
}

// operationView is an operation as callers see it.
type operationView struct {
	ID          string           `json:"id"`
	Kind        string           `json:"kind" doc:"redrive or purge"`
	Destination string           `json:"destination"`
	State       string           `json:"state" doc:"queued, running, waiting (for room in the queue), done, cancelled, failed"`
	DryRun      bool             `json:"dry_run"`
	Max         int64            `json:"max,omitempty"`
	Total       int64            `json:"total" doc:"Jobs to look at, as many as there were when it began"`
	Seen        int64            `json:"seen" doc:"Jobs looked at"`
	Matched     int64            `json:"matched" doc:"Jobs that the filter chose"`
	Done        int64            `json:"done" doc:"Jobs that were changed"`
	Failed      int64            `json:"failed" doc:"Jobs that could not be"`
	Failures    map[string]int64 `json:"failures,omitempty" doc:"Why not: expired, unreadable, too_large"`
	Error       string           `json:"error,omitempty"`
	CreatedBy   string           `json:"created_by,omitempty"`
	CreatedAt   *string          `json:"created_at" format:"date-time"`
	UpdatedAt   *string          `json:"updated_at" format:"date-time"`
	FinishedAt  *string          `json:"finished_at" format:"date-time"`
}

func viewOperation(op *queue.Operation) operationView {
	return operationView{
		ID: op.ID, Kind: string(op.Kind), Destination: op.Destination, State: string(op.State), DryRun: op.DryRun, Max: op.Max,
		Total: op.Total, Seen: op.Seen, Matched: op.Matched, Done: op.Done, Failed: op.Failed, Failures: op.Failures,
		Error: op.Error, CreatedBy: op.By, CreatedAt: stamp(op.CreatedAt), UpdatedAt: stamp(op.UpdatedAt), FinishedAt: stamp(op.FinishedAt),
	}
}

// maxOf is more than any queue or history holds.
const maxOf = 1_000_000_000

// manyFields are what all operations take.
func manyFields(r *queue.OperationRequest, allowed []job.State) fields {
	return fields{
		"filter": func(f *fieldErrors, at string, raw json.RawMessage) {
			f.object(at, raw, filterFields(&r.Filter, allowed))
		},
		"dry_run": func(f *fieldErrors, at string, raw json.RawMessage) { f.yes(at, raw, &r.DryRun) },
		"max": func(f *fieldErrors, at string, raw json.RawMessage) {
			n, _ := f.whole(at, raw, 1, maxOf)
			r.Max = int64(n)
		},
	}
}

// redriveJobs sends dead jobs again. Of unknown ones nobody knows whether they
// arrived: they are redriven only where the filter says so.
func (a *API) redriveJobs(ctx context.Context, in *DestinationPath) (*operationOutput, error) {
	r := queue.OperationRequest{Kind: queue.OperationRedrive, Destination: in.Destination}
	if err := readFields(ctx, manyFields(&r, []job.State{job.Dead, job.Unknown})); err != nil {
		return nil, newProblem(ctx, err)
	}
	if len(r.Filter.States) == 0 {
		r.Filter.States = []job.State{job.Dead}
	}
	return a.begin(ctx, r)
}

// purgeable are the states in which jobs can be purged: no worker holds them.
var purgeable = []job.State{job.Scheduled, job.Ready, job.Waiting, job.Delivered, job.Dead, job.Unknown, job.Expired, job.Cancelled}

func (a *API) purgeJobs(ctx context.Context, in *DestinationPath) (*operationOutput, error) {
	r, confirm, named := queue.OperationRequest{Kind: queue.OperationPurge, Destination: in.Destination}, "", false
	table := manyFields(&r, nil)
	table["confirm"] = func(f *fieldErrors, at string, raw json.RawMessage) { confirm, _ = f.text(at, raw) }
	table["states"] = func(f *fieldErrors, at string, raw json.RawMessage) {
		var names []string
		if json.Unmarshal(raw, &names) != nil || len(names) == 0 {
			f.bad(at, "give a list of states")
		}
		named, r.Filter.States = true, f.states(at, names, purgeable)
	}
	problems, err := problemsOf(readFields(ctx, table))
	if err == nil && !named {
		problems.bad("/states", "give a list of states")
	}
	if err == nil && confirm != in.Destination && !r.DryRun {
		err = notConfirmed(problems)
	}
	if err = cmp.Or(err, invalid(problems)); err != nil {
		return nil, newProblem(ctx, err)
	}
	return a.begin(ctx, r)
}

// notConfirmed is told of a purge without its confirmation, with what else is wrong.
func notConfirmed(others fieldErrors) error {
	all := slices.Concat(others, fieldErrors{{Pointer: "/confirm", Detail: "repeat the name of the destination", Code: job.CodeInvalid}})
	if len(others) > 0 {
		return invalid(all)
	}
	return &job.Error{Code: job.CodeConfirmationMissing, Detail: "a purge cannot be undone; repeat the name of the destination as confirm", Fields: all}
}

// begin stores the operation and hands it over. One that is not handed over
// now is found by the workers a little later.
func (a *API) begin(ctx context.Context, r queue.OperationRequest) (*operationOutput, error) {
	if destination.ValidName(r.Destination) != nil {
		return nil, newProblem(ctx, noDestination(r.Destination))
	}
	r.By = producerName(ctx)
	sctx, cancel := writeContext(ctx)
	defer cancel()
	op, err := a.cfg.Store.StartOperation(sctx, r)
	if err != nil {
		return nil, a.problem(ctx, storeError(sctx, err))
	}
	if a.cfg.Begin != nil {
		if err := a.cfg.Begin(sctx, queue.OperationRef{ID: op.ID, Destination: op.Destination}); err != nil {
			a.cfg.Log.Warn("an operation begins late", "operation", op.ID, "error", err)
		}
	}
	return &operationOutput{Location: "/v1/operations/" + op.ID, Body: viewOperation(op)}, nil
}

type operationsOutput struct {
	Body struct {
		Operations []operationView `json:"operations"`
	}
}

func (a *API) listOperations(ctx context.Context, _ *struct{}) (*operationsOutput, error) {
	sctx, cancel := storeContext(ctx)
	defer cancel()
	ops, err := a.cfg.Store.Operations(sctx)
	if err != nil {
		return nil, a.problem(ctx, storeError(sctx, err))
	}
	out := &operationsOutput{}
	out.Body.Operations = []operationView{}
	for _, op := range ops {
		if callOf(ctx).producer.sees(op.Destination) {
			out.Body.Operations = append(out.Body.Operations, viewOperation(op))
		}
	}
	return out, nil
}

type operationInput struct {
	ID string `path:"id" doc:"Id of the operation"`
}

func (a *API) getOperation(ctx context.Context, in *operationInput) (*operationOutput, error) {
	sctx, cancel := storeContext(ctx)
	defer cancel()
	op, err := a.findOperation(sctx, in.ID)
	if err != nil {
		return nil, a.problem(ctx, storeError(sctx, err))
	}
	return &operationOutput{Body: viewOperation(op)}, nil
}

// findOperation finds one whose destination the caller sees.
func (a *API) findOperation(ctx context.Context, id string) (*queue.Operation, error) {
	op, err := a.cfg.Store.Operation(ctx, id)
	if err == nil && !callOf(ctx).producer.sees(op.Destination) {
		return nil, job.Errorf(job.CodeOperationNotFound, "there is no operation %q, or it is no longer kept", clip(id, 40))
	}
	return op, err
}

func (a *API) cancelOperation(ctx context.Context, in *operationInput) (*operationOutput, error) {
	if err := readFields(ctx, fields{}); err != nil {
		return nil, newProblem(ctx, err)
	}
	sctx, cancel := writeContext(ctx)
	defer cancel()
	op, err := a.findOperation(sctx, in.ID)
	if err == nil {
		op, err = a.cfg.Store.CancelOperation(sctx, op.ID)
	}
	if err != nil {
		return nil, a.problem(ctx, storeError(sctx, err))
	}
	return &operationOutput{Body: viewOperation(op)}, nil
}
