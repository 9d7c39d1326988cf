package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tundish/internal/job"
)

const (
	// maxOperations is how many operations are kept; the oldest that have ended go first.
	maxOperations = 100
	// operationKept is for how long one is kept that nobody goes on with; act_main.lua holds the same figure.
	operationKept = 30 * 24 * time.Hour
)

// OperationKind says what an operation does with jobs.
type OperationKind string

// The kinds of operations.
const (
	OperationRedrive OperationKind = "redrive" // dead and unknown jobs are sent again
	OperationPurge   OperationKind = "purge"   // live jobs end as cancelled, what is kept of others is erased
)

// OperationState is where an operation stands.
type OperationState string

// The states of an operation; the last three are ends.
const (
	OperationQueued    OperationState = "queued"
	OperationRunning   OperationState = "running"
	OperationWaiting   OperationState = "waiting" // for room in the queue
	OperationDone      OperationState = "done"
	OperationCancelled OperationState = "cancelled"
	OperationFailed    OperationState = "failed"
)

// Ended says whether nothing more is done.
func (s OperationState) Ended() bool {
	return s == OperationDone || s == OperationCancelled || s == OperationFailed
}

// OperationRequest asks for an operation on jobs of one destination.
type OperationRequest struct {
	Kind        OperationKind
	Destination string
	Filter      Filter
	Max         int64 // jobs at most, 0: all
	DryRun      bool  // count only
	By          string
}

// Operation is one as it stands.
type Operation struct {
	ID string
	OperationRequest

	State OperationState
	// Total is how many jobs there were to look at when it began, Seen how many
	// of them were looked at, Matched those that the filter chose. Of these Done
	// were changed, and Failed could not be: Failures says why.
	Total, Seen, Matched, Done, Failed int64
	Failures                           map[string]int64
	Error                              string
	CreatedAt, UpdatedAt, FinishedAt   time.Time

	cursor string
	until  int64 // TIME µs: what ended later is not touched
}

// operationSpec is what is stored of the request. Field names are part of the
// stored format: add, never rename.
type operationSpec struct {
	Filter  Filter `json:"filter"`
	Max     int64  `json:"max,omitempty"`
	DryRun  bool   `json:"dry_run,omitempty"`
	By      string `json:"by,omitempty"`
	Created int64  `json:"created"` // TIME µs
}

// OperationRef names an operation.
type OperationRef struct {
	ID          string `json:"id"`
	Destination string `json:"destination"`
}

func (r OperationRef) member() string { return r.ID + "|" + r.Destination }

func parseRef(member string) OperationRef {
	id, lane, _ := strings.Cut(member, "|")
	return OperationRef{id, lane}
}

// sizes are the positions of the indexes' sizes in the counts that the read script answers.
var sizes = map[string]int{"ready": 1, "waiting": 2, "leased": 3, "dead": 4, "done": 6}

// StartOperation stores an operation. Who works goes on with it; see Advance.
func (s *Store) StartOperation(ctx context.Context, r OperationRequest) (*Operation, error) {
	l, err := s.read(ctx, r.Destination, "")
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(operationSpec{r.Filter, r.Max, r.DryRun, r.By, l.now.UnixMicro()})
	if err != nil {
		return nil, fmt.Errorf("operation: %w", err)
	}
	if err := s.makeRoom(ctx); err != nil {
		return nil, err
	}
	total, list := int64(0), indexesOf(r.Filter.States)
	for _, i := range list {
		total += l.count(sizes[i.name])
	}
	ref := OperationRef{string(job.NewID()), r.Destination}
	key, c := s.db.Keys().Operation(ref.Destination, ref.ID), s.db.Client()
	_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, key, "kind", string(r.Kind), "spec", spec, "state", string(OperationQueued), "cursor", place{index: list[0].name}.String(),
			"gen", number(l.conf, "gen"), "total", total, "beat", l.now.UnixMicro())
		p.PExpire(ctx, key, operationKept)
		p.ZAdd(ctx, s.db.Keys().Operations(), redis.Z{Score: float64(l.now.UnixMilli()), Member: ref.member()})
		return nil
	})
	if err != nil {
		return nil, callerError(err)
	}
	return s.operation(ctx, ref)
}

// makeRoom lets the oldest ended operations go.
func (s *Store) makeRoom(ctx context.Context) error {
	ops, err := s.Operations(ctx)
	if err != nil {
		return err
	}
	over := len(ops) - maxOperations + 1
	for _, op := range slices.Backward(ops) { // the newest stand first
		if over <= 0 {
			return nil
		}
		if op.State.Ended() {
			over--
			s.forget(ctx, OperationRef{op.ID, op.Destination})
		}
	}
	if over > 0 {
		return &job.Error{Code: job.CodeOverloaded, Detail: fmt.Sprintf("%d operations are under way; cancel some or wait", len(ops)), RetryAfter: 30 * time.Second}
	}
	return nil
}

// forget removes an operation; where it fails, a later call tries again.
func (s *Store) forget(ctx context.Context, ref OperationRef) {
	if s.db.Client().Del(ctx, s.db.Keys().Operation(ref.Destination, ref.ID)).Err() == nil {
		_ = s.db.Client().ZRem(ctx, s.db.Keys().Operations(), ref.member()).Err()
	}
}

func (s *Store) refs(ctx context.Context) ([]OperationRef, error) {
	members, err := s.db.Client().ZRevRange(ctx, s.db.Keys().Operations(), 0, 2*maxOperations).Result()
	if err != nil {
		return nil, callerError(err)
	}
	refs := make([]OperationRef, len(members))
	for i, m := range members {
		refs[i] = parseRef(m)
	}
	return refs, nil
}

// Operations lists what is kept, the newest first.
func (s *Store) Operations(ctx context.Context) ([]*Operation, error) {
	refs, err := s.refs(ctx)
	if err != nil || len(refs) == 0 {
		return nil, err
	}
	cmds := make([]*redis.MapStringStringCmd, len(refs))
	_, err = s.db.Client().Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, ref := range refs {
			cmds[i] = p.HGetAll(ctx, s.db.Keys().Operation(ref.Destination, ref.ID))
		}
		return nil
	})
	if err != nil {
		return nil, callerError(err)
	}
	ops := make([]*Operation, 0, len(refs))
	for i, cmd := range cmds {
		if len(cmd.Val()) == 0 {
			s.forget(ctx, refs[i]) // its time was over
			continue
		}
		ops = append(ops, readOperation(refs[i], cmd.Val()))
	}
	return ops, nil
}

// Operation finds one by its id.
func (s *Store) Operation(ctx context.Context, id string) (*Operation, error) {
	refs, err := s.refs(ctx)
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if ref.ID == id {
			return s.operation(ctx, ref)
		}
	}
	return nil, noOperation(id)
}

func (s *Store) operation(ctx context.Context, ref OperationRef) (*Operation, error) {
	fields, err := s.db.Client().HGetAll(ctx, s.db.Keys().Operation(ref.Destination, ref.ID)).Result()
	if err != nil {
		return nil, callerError(err)
	}
	if len(fields) == 0 {
		return nil, noOperation(ref.ID)
	}
	return readOperation(ref, fields), nil
}

func noOperation(id string) error {
	return job.Errorf(job.CodeOperationNotFound, "there is no operation %.40q, or it is no longer kept", id)
}

func readOperation(ref OperationRef, m map[string]string) *Operation {
	var spec operationSpec
	op := &Operation{ID: ref.ID, State: OperationState(m["state"]), Error: m["error"], cursor: m["cursor"], Failures: map[string]int64{}}
	if err := json.Unmarshal([]byte(m["spec"]), &spec); err != nil {
		op.State, op.Error = OperationFailed, "what is stored of it cannot be read"
	}
	op.OperationRequest = OperationRequest{OperationKind(m["kind"]), ref.Destination, spec.Filter, spec.Max, spec.DryRun, spec.By}
	for name, into := range map[string]*int64{"total": &op.Total, "seen": &op.Seen, "matched": &op.Matched, "done": &op.Done, "failed": &op.Failed} {
		*into = number(m, name)
	}
	for name := range m {
		if why, ok := strings.CutPrefix(name, "failed:"); ok {
			op.Failures[why] = number(m, name)
		}
	}
	if m["cancel"] == "1" && !op.State.Ended() { // no step of it goes through any longer
		op.State = OperationCancelled
	}
	op.until, op.CreatedAt = spec.Created, time.UnixMicro(spec.Created).UTC()
	op.UpdatedAt = time.UnixMicro(number(m, "beat")).UTC()
	if op.State.Ended() {
		op.FinishedAt = op.UpdatedAt
	}
	return op
}

// CancelOperation ends an operation: no further step of it goes through. What was done stays done.
func (s *Store) CancelOperation(ctx context.Context, id string) (*Operation, error) {
	op, err := s.Operation(ctx, id)
	if err != nil || op.State.Ended() {
		return op, err
	}
	key := s.db.Keys().Operation(op.Destination, op.ID)
	if err := s.db.Client().HSet(ctx, key, "cancel", "1").Err(); err != nil {
		return nil, callerError(err)
	}
	_ = s.db.Client().PExpire(ctx, key, operationKept).Err() // it was there a moment ago, and had one
	return s.Operation(ctx, id)
}

// IdleOperations lists those that have not ended and of which nothing was heard
// for so long, with the moment of the last word as the name of that standstill.
func (s *Store) IdleOperations(ctx context.Context, idle time.Duration) (map[OperationRef]string, error) {
	ops, err := s.Operations(ctx)
	if err != nil || len(ops) == 0 {
		return nil, err
	}
	now, err := s.db.Client().Time(ctx).Result()
	if err != nil {
		return nil, callerError(err)
	}
	list := map[OperationRef]string{}
	for _, op := range ops {
		if !op.State.Ended() && now.Sub(op.UpdatedAt) >= idle {
			list[OperationRef{op.ID, op.Destination}] = strconv.FormatInt(op.UpdatedAt.UnixMicro(), 10)
		}
	}
	return list, nil
}
