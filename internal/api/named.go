package api

import (
	"context"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// namedStore is a store that has lost its memory at times: a destination of the
// file is then not unknown, but about to be there again. Callers that were told
// 404 would give their jobs up.
type namedStore struct {
	Store

	named func(name string) bool
}

// back is err, unless it says that a destination of the file does not exist.
func (s namedStore) back(name string, err error) error {
	if err == nil || job.CodeOf(err) != job.CodeDestinationNotFound || !s.named(name) {
		return err
	}
	return &job.Error{Code: job.CodeUnavailable, Cause: err,
		Detail: "the destination is in the enqueuer's file and not in the store yet, or not any longer; it is being applied"}
}

func (s namedStore) PushDurable(ctx context.Context, name string, d destination.Durability, jobs []*job.Job) ([]queue.PushResult, error) {
	r, err := s.Store.PushDurable(ctx, name, d, jobs)
	return r, s.back(name, err)
}

func (s namedStore) Destination(ctx context.Context, name string) (*queue.Destination, error) {
	d, err := s.Store.Destination(ctx, name)
	return d, s.back(name, err)
}

func (s namedStore) Job(ctx context.Context, name string, id job.ID) (*queue.Status, error) {
	j, err := s.Store.Job(ctx, name, id)
	return j, s.back(name, err)
}

func (s namedStore) Jobs(ctx context.Context, name string, q queue.Query) (*queue.Page, error) {
	p, err := s.Store.Jobs(ctx, name, q)
	return p, s.back(name, err)
}

func (s namedStore) Cancel(ctx context.Context, name string, id job.ID) (*queue.Status, error) {
	j, err := s.Store.Cancel(ctx, name, id)
	return j, s.back(name, err)
}

func (s namedStore) Redrive(ctx context.Context, name string, id job.ID) (*queue.Status, error) {
	j, err := s.Store.Redrive(ctx, name, id)
	return j, s.back(name, err)
}

func (s namedStore) Resolve(ctx context.Context, name string, id job.ID, delivered bool, reason string) (*queue.Status, error) {
	j, err := s.Store.Resolve(ctx, name, id, delivered, reason)
	return j, s.back(name, err)
}

func (s namedStore) Erase(ctx context.Context, name string, id job.ID) (*queue.Status, error) {
	j, err := s.Store.Erase(ctx, name, id)
	return j, s.back(name, err)
}

func (s namedStore) StartOperation(ctx context.Context, r queue.OperationRequest) (*queue.Operation, error) {
	op, err := s.Store.StartOperation(ctx, r)
	return op, s.back(r.Destination, err)
}

// Apply makes no destination of the file: it would be the API's, and the file
// could not take it back.
func (s namedStore) Apply(ctx context.Context, r queue.ApplyRequest) (*queue.Destination, bool, error) {
	if s.named(r.Name) {
		if _, err := s.Destination(ctx, r.Name); job.CodeOf(err) == job.CodeUnavailable {
			return nil, false, err
		}
	}
	return s.Store.Apply(ctx, r)
}

func (s namedStore) DeleteOf(ctx context.Context, set, name string, ifVersion int64, cancelJobs bool) (time.Duration, error) {
	d, err := s.Store.DeleteOf(ctx, set, name, ifVersion, cancelJobs)
	return d, s.back(name, err)
}

func (s namedStore) Pause(ctx context.Context, name, reason string) (time.Duration, error) {
	d, err := s.Store.Pause(ctx, name, reason)
	return d, s.back(name, err)
}

func (s namedStore) Resume(ctx context.Context, name string) (time.Duration, error) {
	d, err := s.Store.Resume(ctx, name)
	return d, s.back(name, err)
}
