package queue

import (
	"context"
	"fmt"
	"time"

	"tundish/internal/job"
)

// reasonCrashed is the outcome of a job whose worker was lost maxCrashes times
// while it was being sent; recover.lua holds both.
const (
	reasonCrashed = "worker_crashed"
	maxCrashes    = 3
)

// verb is what the act script does with jobs.
type verb string

const (
	verbCancel  verb = "cancel"
	verbRedrive verb = "redrive"
	verbDeliver verb = "deliver"
	verbErase   verb = "erase"
)

// Verdicts of the act script, beside those of a push for a full queue.
const (
	actOK         = "ok"
	actAgain      = "again"
	actInFlight   = "in_flight"
	actLive       = "live"
	actFinished   = "finished"
	actNotUnknown = "not_unknown"
	actChanged    = "changed"
	actExpired    = "expired"
	actUnreadable = "unreadable"
	actTooLarge   = "too_large"
	actFull       = "full"
	actBytesFull  = "bytes_full"
	actGone       = "gone"
)

// actTries is how often a job may change just while a person changes it.
const actTries = 5

// target is one job of a call: as it was read, and what is kept of it afterwards.
type target struct {
	status *Status
	note   *Note
	cursor string // of an operation: behind the job
	seen   int    // of an operation: jobs looked at up to it
}

// step is what a call tells of its operation; nil when it is of none.
type step struct {
	key           string
	from, to      string
	seen, matched int
	state         string
}

// acted is what a call answers.
type acted struct {
	status   string // ok, moved, cancelled, deleted
	verdicts []string
	wait     time.Duration // until a place is free
}

// fillAll is how far a single job may fill the queue, in percent.
const fillAll = 100

func (s *Store) act(ctx context.Context, lane string, v verb, fill int, targets []target, st *step) (*acted, error) {
	keys, err := s.db.Keys().Lane(lane)
	if err != nil {
		return nil, noLane(lane)
	}
	args := []any{lane, s.db.Keys().Wake(), string(v), fill, 0, "", "", 0, 0, ""}
	all := []string(keys)
	if st != nil {
		all = append(append(make([]string, 0, len(keys)+1), keys...), st.key)
		args = []any{lane, s.db.Keys().Wake(), string(v), fill, 1, st.from, st.to, st.seen, st.matched, st.state}
	}
	for _, t := range targets {
		sent := t.status.sent
		args = append(args, string(t.status.ID), t.status.mark, sent, t.note.Encode(), t.cursor, t.seen)
	}
	reply, err := s.runKeys(ctx, actScript, lane, all, args)
	if err != nil {
		return nil, err
	}
	p := parser{}
	list := p.list(reply)
	a := &acted{status: p.text(list, 0)}
	switch a.status {
	case "no_lane":
		return nil, noLane(lane)
	case "faulty":
		return nil, faulty(lane)
	case "ok":
		a.verdicts, a.wait = p.texts(p.at(list, 1)), p.micros(list, 2)
		s.tell(p.counted(list, 3))
		if len(a.verdicts) != len(targets) {
			p.fail("%d verdicts for %d jobs", len(a.verdicts), len(targets))
		}
	}
	return a, p.err
}

// noteOf is what is kept of a job as it stands.
func noteOf(st *Status) *Note {
	n := &Note{Producer: st.Producer, Tenant: st.Tenant, Priority: st.Priority, Created: st.CreatedAt, Deliver: st.DeliverAt,
		Expires: st.ExpiresAt, Metadata: st.Metadata}
	n.carry(&Note{Attempts: st.Attempts, Response: st.Response, Redrives: st.Redrives, Reason: st.Reason})
	return n
}

// redriven is what is kept of a job that is sent again.
func redriven(st *Status, reason string) *Note {
	n := noteOf(st)
	n.Redrives++
	if reason != "" {
		n.Reason = reason
	}
	return n
}

// actOne does something with one job, as often as it changes in between. It
// answers the job as it was before.
func (s *Store) actOne(ctx context.Context, lane string, id job.ID, v verb, note func(*Status) *Note) (*Status, *acted, error) {
	for range actTries {
		st, err := s.Job(ctx, lane, id)
		if err != nil {
			return nil, nil, err
		}
		a, err := s.act(ctx, lane, v, fillAll, []target{{status: st, note: note(st)}}, nil)
		if err != nil {
			return nil, nil, err
		}
		if a.verdicts[0] != actChanged {
			return st, a, nil
		}
	}
	return nil, nil, changesAllTheTime(id)
}

func changesAllTheTime(id job.ID) error {
	return &job.Error{Code: job.CodeUnavailable, Detail: fmt.Sprintf("job %s changes all the time", id), RetryAfter: time.Second}
}

// Cancel ends a job that no worker holds.
func (s *Store) Cancel(ctx context.Context, lane string, id job.ID) (*Status, error) {
	_, a, err := s.actOne(ctx, lane, id, verbCancel, noteOf)
	return s.settled(ctx, lane, id, a, err)
}

// Redrive sends a dead or unknown job again, behind those that are there.
func (s *Store) Redrive(ctx context.Context, lane string, id job.ID) (*Status, error) {
	_, a, err := s.actOne(ctx, lane, id, verbRedrive, func(st *Status) *Note { return redriven(st, "") })
	return s.settled(ctx, lane, id, a, err)
}

// Resolve says of a job of which nobody knows whether it arrived that it did,
// or that it is to be sent again.
func (s *Store) Resolve(ctx context.Context, lane string, id job.ID, delivered bool, reason string) (*Status, error) {
	v, note := verbRedrive, func(st *Status) *Note { return redriven(st, reason) }
	if delivered {
		v, note = verbDeliver, func(st *Status) *Note { n := noteOf(st); n.Reason = reason; return n }
	}
	for range actTries {
		st, err := s.Job(ctx, lane, id)
		if err != nil {
			return nil, err
		}
		if st.State != job.Unknown {
			return resolvedBefore(st, delivered)
		}
		a, err := s.act(ctx, lane, v, fillAll, []target{{status: st, note: note(st)}}, nil)
		if err != nil {
			return nil, err
		}
		switch verdict := a.verdicts[0]; verdict {
		case actOK:
			return s.Job(ctx, lane, id)
		case actExpired, actUnreadable, actTooLarge, actFull, actBytesFull:
			return nil, refusal(id, verdict, a.wait)
		}
	}
	return nil, changesAllTheTime(id)
}

// outcomeResolved is the outcome of a job of which a person said that it was delivered.
const outcomeResolved = "resolved"

// resolvedBefore lets the same be said twice.
func resolvedBefore(st *Status, delivered bool) (*Status, error) {
	if delivered && st.State == job.Delivered && st.Outcome == outcomeResolved || !delivered && st.Redrives > 0 && st.State.Live() {
		return st, nil
	}
	return nil, job.Errorf(job.CodeJobNotUnknown, "job %s is %s", st.ID, st.State)
}

// Erase removes what is kept of a job that has ended, its payload too. It
// answers the job as it was.
func (s *Store) Erase(ctx context.Context, lane string, id job.ID) (*Status, error) {
	st, a, err := s.actOne(ctx, lane, id, verbErase, noteOf)
	if err != nil {
		return nil, err
	}
	switch v := a.verdicts[0]; v {
	case actOK, actGone:
		return st, nil
	default:
		return nil, refusal(id, v, a.wait)
	}
}

// settled is the job after a verdict that lets it be as it was asked for.
func (s *Store) settled(ctx context.Context, lane string, id job.ID, a *acted, err error) (*Status, error) {
	if err != nil {
		return nil, err
	}
	if v := a.verdicts[0]; v != actOK && v != actAgain {
		return nil, refusal(id, v, a.wait)
	}
	return s.Job(ctx, lane, id)
}

// refusal turns a verdict into what a caller is told.
func refusal(id job.ID, verdict string, wait time.Duration) error {
	switch verdict {
	case actInFlight:
		return job.Errorf(job.CodeJobInFlight, "a worker holds job %s; ask again when its attempt has ended", id)
	case actLive:
		return job.Errorf(job.CodeJobInFlight, "job %s has not ended; cancel it first", id)
	case actFinished:
		return job.Errorf(job.CodeJobFinished, "job %s has ended: cancelled are only jobs that have not, and sent again only dead and unknown ones", id)
	case actExpired:
		return job.Errorf(job.CodeJobFinished, "job %s must not be sent any longer: the time of its expiry is past", id)
	case actUnreadable:
		return job.Errorf(job.CodeJobFinished, "job %s cannot be read by this version", id)
	case actNotUnknown:
		return job.Errorf(job.CodeJobNotUnknown, "job %s is not unknown", id)
	case actTooLarge:
		return job.Errorf(job.CodeTooLarge, "job %s is larger than the whole queue may be now", id)
	case actFull:
		return &job.Error{Code: job.CodeQueueFull, Detail: "the queue is full; the job stays where it is", RetryAfter: wait}
	case actBytesFull:
		return &job.Error{Code: job.CodeQueueBytesFull, Detail: "the queue is full by bytes; the job stays where it is", RetryAfter: wait}
	}
	return job.Errorf(job.CodeJobNotFound, "there is no job %q, or what was kept of it is gone", id)
}
