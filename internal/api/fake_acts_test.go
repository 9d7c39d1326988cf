package api

import (
	"context"
	"fmt"

	"tundish/internal/job"
	"tundish/internal/queue"
)

// did notes what was done with a job, and answers the one job there is.
func (s *fakeStore) did(what, name string, id job.ID) (*queue.Status, error) {
	s.acts = append(s.acts, what)
	return s.Job(context.Background(), name, id)
}

func (s *fakeStore) Jobs(_ context.Context, name string, q queue.Query) (*queue.Page, error) {
	s.query = q
	if err := s.found(name); err != nil {
		return nil, err
	}
	page := &queue.Page{Next: "dead|x|1"}
	if s.status != nil {
		page.Jobs = append(page.Jobs, s.status)
	}
	return page, nil
}

func (s *fakeStore) Cancel(_ context.Context, name string, id job.ID) (*queue.Status, error) {
	return s.did("cancel", name, id)
}

func (s *fakeStore) Redrive(_ context.Context, name string, id job.ID) (*queue.Status, error) {
	return s.did("redrive", name, id)
}

func (s *fakeStore) Resolve(_ context.Context, name string, id job.ID, delivered bool, reason string) (*queue.Status, error) {
	return s.did(fmt.Sprintf("resolve %v %s", delivered, reason), name, id)
}

func (s *fakeStore) Erase(_ context.Context, name string, id job.ID) (*queue.Status, error) {
	return s.did("erase", name, id)
}

func (s *fakeStore) StartOperation(_ context.Context, r queue.OperationRequest) (*queue.Operation, error) {
	if err := s.found(r.Destination); err != nil {
		return nil, err
	}
	s.operation = &queue.Operation{ID: "op-1", OperationRequest: r, State: queue.OperationQueued}
	return s.operation, nil
}

func (s *fakeStore) Operations(context.Context) ([]*queue.Operation, error) {
	if s.operation == nil || s.err != nil {
		return nil, s.err
	}
	return []*queue.Operation{s.operation}, nil
}

func (s *fakeStore) Operation(_ context.Context, id string) (*queue.Operation, error) {
	if s.operation == nil || s.operation.ID != id {
		return nil, job.Errorf(job.CodeOperationNotFound, "no such operation")
	}
	return s.operation, s.err
}

func (s *fakeStore) CancelOperation(_ context.Context, id string) (*queue.Operation, error) {
	s.acts = append(s.acts, "cancel "+id)
	return s.Operation(context.Background(), id)
}
