package queue

import (
	"context"
	"errors"
	"time"

	"tundish/internal/job"
)

const (
	// redriveFill is how far an operation may fill the queue, in percent: the
	// rest is for producers.
	redriveFill = 90
	// newcomers is for how long after its start an operation takes jobs that are
	// pushed meanwhile: clocks of enqueuers differ, and it must come to its end.
	newcomers = time.Minute
)

// Progress is what one step of an operation has come to.
type Progress struct {
	Ended   bool
	Waiting bool // for room in the queue
	Moved   bool // some jobs were changed
}

// Advance makes the next step of an operation, some jobs at a time. Each step
// is whole or not at all, so it may be made by several at once, and again.
func (s *Store) Advance(ctx context.Context, ref OperationRef) (Progress, error) {
	op, err := s.operation(ctx, ref)
	if job.CodeOf(err) == job.CodeOperationNotFound && err != nil {
		return Progress{Ended: true}, nil //nolint:nilerr // one that is no longer kept has ended
	}
	if err != nil || op.State.Ended() {
		return Progress{Ended: err == nil}, err
	}
	p, err := s.advance(ctx, op)
	if errors.Is(err, errDeleted) || job.CodeOf(err) == job.CodeDestinationNotFound && err != nil {
		return Progress{Ended: true}, s.fail(ctx, ref, "the destination was deleted")
	}
	return p, err
}

// errDeleted says that the destination is another one of the same name.
var errDeleted = errors.New("the destination was deleted and made anew")

func (s *Store) fail(ctx context.Context, ref OperationRef, why string) error {
	key := s.db.Keys().Operation(ref.Destination, ref.ID)
	return callerError(s.db.Client().HSet(ctx, key, "state", string(OperationFailed), "error", why, "beat", time.Now().UnixMicro()).Err())
}

func (s *Store) advance(ctx context.Context, op *Operation) (Progress, error) {
	at, ok := parsePlace(op.cursor)
	if !ok {
		return Progress{Ended: true}, s.fail(ctx, OperationRef{op.ID, op.Destination}, "its place in the queue cannot be read")
	}
	st := &step{key: s.db.Keys().Operation(op.Destination, op.ID), from: op.cursor, to: op.cursor, state: string(OperationDone)}
	var targets []target
	v, left := verbErase, op.left()
	if left != 0 {
		var err error
		if targets, v, err = s.gather(ctx, op, at, left, st); err != nil {
			return Progress{}, err
		}
	}
	if op.DryRun {
		targets = nil
	}
	a, err := s.act(ctx, op.Destination, v, redriveFill, targets, st)
	if err != nil {
		return Progress{}, err
	}
	if a.status == "deleted" {
		return Progress{}, errDeleted
	}
	p := Progress{Ended: a.status == "cancelled" || a.status == "ok" && st.state == string(OperationDone)}
	for _, verdict := range a.verdicts {
		switch verdict {
		case actOK:
			p.Moved = true
		case actFull, actBytesFull:
			p.Ended, p.Waiting = false, true
		}
	}
	return p, nil
}

// left is how many jobs it may still take, -1: all.
func (op *Operation) left() int64 {
	taken := op.Done
	if op.DryRun {
		taken = op.Matched
	}
	if op.Max == 0 {
		return -1
	}
	return max(0, op.Max-taken)
}

// gather reads what is next of an index and chooses from it. It tells the step
// where it leads.
func (s *Store) gather(ctx context.Context, op *Operation, at place, left int64, st *step) ([]target, verb, error) {
	list := indexesOf(op.Filter.States)
	here := 0
	for n, i := range list {
		if i.name == at.index {
			here = n
		}
	}
	i, until := list[here], int64(-1)
	if i.name == "dead" {
		until = op.until
	}
	c, err := s.chunk(ctx, op.Destination, i, at, chunkOptions{until: until, n: listChunk})
	if err != nil {
		return nil, "", err
	}
	v, note := op.deed(i)
	var targets []target
	for n, e := range c.entries {
		st.to, st.seen, st.state = e.place.String(), n+1, string(OperationRunning)
		if !op.chooses(i, e) {
			continue
		}
		targets = append(targets, target{status: e.status, note: note(e.status), cursor: st.to, seen: n + 1})
		if st.matched = len(targets); int64(st.matched) == left {
			return targets, v, nil
		}
	}
	switch {
	case c.more && len(c.entries) > 0:
	case here+1 < len(list):
		st.to, st.state = place{index: list[here+1].name}.String(), string(OperationRunning)
	default:
		st.state = string(OperationDone)
	}
	return targets, v, nil
}

// deed is what is done with jobs of an index, and what is kept of them then.
func (op *Operation) deed(i index) (verb, func(*Status) *Note) {
	switch {
	case op.Kind == OperationRedrive:
		return verbRedrive, func(st *Status) *Note { return redriven(st, "") }
	case i.ends():
		return verbErase, func(*Status) *Note { return &Note{} }
	}
	return verbCancel, noteOf
}

func (op *Operation) chooses(i index, e entry) bool {
	switch {
	case !op.Filter.takes(e.status):
		return false
	case i.ends():
		return !e.status.FinishedAt.After(op.CreatedAt)
	}
	return e.status.ID.Time().Before(op.CreatedAt.Add(newcomers))
}
