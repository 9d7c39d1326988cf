package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"tundish/internal/destination"
	"tundish/internal/idempotency"
	"tundish/internal/job"
	"tundish/internal/redisdb"
)

// MaxPush and MaxPushBytes bound one call of the push script; callers split. All
// such bounds keep a script within about 5 ms on a slow machine: every other
// destination waits for it.
const (
	MaxPush      = 100
	MaxPushBytes = 800 << 10
)

// JobBytes is what a job costs a script beside its body, in bytes of bodies.
const JobBytes = 6 << 10

// PushBytes is what a job counts of MaxPushBytes.
func PushBytes(j *job.Job) int64 { return int64(len(j.Request.Body)) + JobBytes }

// retryAfterFault is what callers are told to wait when Redis cannot serve.
const retryAfterFault = 2 * time.Second

// Store runs the scripts of lanes.
type Store struct {
	db     *redisdb.DB
	counts func(name string, n int64) // may be nil
	seen   seen
}

// New makes a Store over a connected database.
func New(db *redisdb.DB) *Store { return &Store{db: db} }

// Push is PushDurable where Redis' answer is enough.
func (s *Store) Push(ctx context.Context, lane string, jobs []*job.Job) ([]PushResult, error) {
	return s.PushDurable(ctx, lane, destination.Memory, jobs)
}

// PushDurable stores jobs of one destination, in order, each seeing the earlier
// ones. It splits by count and bytes; a failure in a later part leaves the earlier
// parts stored. What Redis has stored and not confirmed to be durable is marked.
func (s *Store) PushDurable(ctx context.Context, lane string, d destination.Durability, jobs []*job.Job) ([]PushResult, error) {
	results := make([]PushResult, 0, len(jobs))
	for len(jobs) > 0 {
		n, bytes := 0, int64(0)
		for n < len(jobs) && n < MaxPush && (n == 0 || bytes+PushBytes(jobs[n]) <= MaxPushBytes) {
			bytes += PushBytes(jobs[n])
			n++
		}
		part, err := s.pushPart(ctx, lane, d, jobs[:n])
		if err != nil {
			return nil, err
		}
		results, jobs = append(results, part...), jobs[n:]
	}
	return results, nil
}

func (s *Store) pushPart(ctx context.Context, lane string, d destination.Durability, jobs []*job.Job) ([]PushResult, error) {
	args := []any{lane, s.db.Keys().Wake(), len(jobs)}
	for _, j := range jobs {
		if j.DownstreamKey == "" {
			j.DownstreamKey = idempotency.Downstream("", j)
		}
		body, err := encodeBody(j)
		if err != nil {
			return nil, err
		}
		args = append(args, string(j.ID), j.Priority, j.Tenant, idempotency.KeyHash(j.Producer, j.IdempotencyKey),
			idempotency.Fingerprint(j), j.Delay.Microseconds(), micros(j.DeliverAt), expiryArg(j), body, noteArg(j))
	}
	reply, confirmed, err := s.runDurable(ctx, d, pushScript, lane, args)
	if err != nil {
		return nil, err
	}
	results, counted, err := parsePush(lane, reply, len(jobs))
	for i := range results {
		results[i].Unconfirmed = !confirmed && (results[i].Verdict == Accepted || results[i].Verdict == Replayed)
	}
	s.tell(counted)
	return results, err
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// expiryArg is "+µs" from now or µs in Redis' own time; 0 is never.
func expiryArg(j *job.Job) string {
	if j.ExpiresIn > 0 {
		return "+" + strconv.FormatInt(j.ExpiresIn.Microseconds(), 10)
	}
	return strconv.FormatInt(micros(j.ExpiresAt), 10)
}

// noteArg is what is shown of a job that expires: the script that ends it reads no more of it.
func noteArg(j *job.Job) []byte {
	if j.ExpiresIn <= 0 && j.ExpiresAt.IsZero() {
		return nil
	}
	n := FinalNote(j, nil)
	if n.Expires.IsZero() {
		n.Expires = j.CreatedAt.Add(j.ExpiresIn)
	}
	return n.Encode()
}

func parsePush(lane string, reply any, n int) ([]PushResult, map[string]int64, error) {
	p := parser{}
	list := p.list(reply)
	switch status := p.text(list, 0); status {
	case "ok":
	case "no_lane":
		return nil, nil, noLane(lane)
	case "faulty":
		return nil, nil, faulty(lane)
	case "paused":
		return nil, nil, &job.Error{Code: job.CodeDestinationPaused, Detail: "the destination is paused and its contract refuses jobs meanwhile",
			RetryAfter: 30 * time.Second}
	default:
		p.fail("unknown status %q", status)
	}
	capacity := p.number(list, 1)
	rate, err := strconv.ParseFloat(p.text(list, 2), 64)
	if err != nil {
		p.fail("rate: %v", err)
	}
	items := p.list(p.at(list, 4))
	if len(items) != n {
		p.fail("%d results for %d jobs", len(items), n)
	}
	out := make([]PushResult, 0, n)
	for _, item := range items {
		l := p.list(item)
		r := PushResult{Verdict: Verdict(p.text(l, 0)), ID: job.ID(p.text(l, 1)), State: job.State(p.text(l, 2)), Depth: p.number(l, 3),
			Capacity: capacity, RetryAfter: p.micros(l, 5), DrainPerSecond: rate}
		if p.text(l, 4) != "" {
			r.EstimatedSendAt = time.UnixMicro(p.number(l, 4)).UTC()
		}
		out = append(out, r)
	}
	counted := p.counted(list, 5)
	return out, counted, p.err
}

// Pause sets the operator's pause; effective is when slots granted before are over.
func (s *Store) Pause(ctx context.Context, lane, reason string) (effective time.Duration, err error) {
	text, err := pauseReason(reason, time.Now())
	if err != nil {
		return 0, err
	}
	return s.setPause(ctx, lane, text)
}

// Resume clears the operator's pause, not the contract's own.
func (s *Store) Resume(ctx context.Context, lane string) (effective time.Duration, err error) {
	return s.setPause(ctx, lane, "")
}

func (s *Store) setPause(ctx context.Context, lane, text string) (time.Duration, error) {
	reply, err := s.run(ctx, pauseScript, lane, []any{lane, s.db.Keys().Wake(), text})
	if err != nil {
		return 0, err
	}
	p := parser{}
	list := p.list(reply)
	if p.text(list, 0) == "no_lane" {
		return 0, noLane(lane)
	}
	return p.micros(list, 1), p.err
}

// Start marks leased jobs as started, so that a lease that runs out counts as a
// crash of its job, or makes it unknown where it may be sent once. It answers, by
// position, whether each is still held, and durably started where that is asked.
func (s *Store) Start(ctx context.Context, lane string, d destination.Durability, leases []Lease) ([]bool, error) {
	args := make([]any, 0, 2*len(leases))
	for _, l := range leases {
		args = append(args, string(l.ID), l.Token)
	}
	keys, err := s.db.Keys().Lane(lane)
	if err != nil {
		return nil, err
	}
	reply, confirmed, err := s.db.RunConfirmed(ctx, asked(d), confirmWithin, startScript, keys, args...)
	if err != nil || !confirmed {
		return make([]bool, len(leases)), err
	}
	p := parser{}
	held := make([]bool, len(leases))
	for i, v := range p.texts(reply) {
		held[i] = v == "1"
	}
	return held, p.err
}

// run sends a script that may be repeated, and turns failures of Redis into
// an Error that callers may be told.
func (s *Store) run(ctx context.Context, script *redisdb.Script, lane string, args []any) (any, error) {
	keys, err := s.db.Keys().Lane(lane)
	if err != nil {
		return nil, noLane(lane)
	}
	return s.runKeys(ctx, script, lane, keys, args)
}

func (s *Store) runKeys(ctx context.Context, script *redisdb.Script, lane string, keys []string, args []any) (any, error) {
	reply, err := s.db.Run(ctx, script, keys, args...)
	return reply, laneError(lane, err)
}

// runDurable is run for what must be durable before somebody relies on it.
func (s *Store) runDurable(ctx context.Context, d destination.Durability, script *redisdb.Script, lane string, args []any) (reply any, confirmed bool, err error) {
	if d == destination.Memory {
		reply, err = s.run(ctx, script, lane, args)
		return reply, err == nil, err
	}
	keys, err := s.db.Keys().Lane(lane)
	if err != nil {
		return nil, false, noLane(lane)
	}
	reply, confirmed, err = s.db.RunConfirmed(ctx, asked(d), confirmWithin, script, keys, args...)
	return reply, confirmed, laneError(lane, err)
}

func laneError(lane string, err error) error {
	if err = callerError(err); job.CodeOf(err) == job.CodeInternal && err != nil {
		// A script that fails on one lane and not on others has met data that no
		// script wrote: the lane is at fault, not the service.
		return &job.Error{Code: job.CodeDestinationFaulty, RetryAfter: 30 * time.Second, Cause: err,
			Detail: fmt.Sprintf("the data of %q in Redis is damaged", lane)}
	}
	return err
}

// confirmWithin is how long Redis may take to make a write durable before it
// counts as unconfirmed.
const confirmWithin = 500 * time.Millisecond

// asked is what a contract asks of Redis.
func asked(d destination.Durability) redisdb.Durability {
	switch d {
	case destination.Replica:
		return redisdb.Replicated
	case destination.AOF:
		return redisdb.Synced
	}
	return redisdb.Answered
}

func callerError(err error) error {
	switch {
	case err == nil:
		return nil
	case redisdb.Unavailable(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &job.Error{Code: job.CodeUnavailable, Detail: "Redis cannot serve now (" + redisdb.Kind(err) + ")", RetryAfter: retryAfterFault, Cause: err}
	}
	return &job.Error{Code: job.CodeInternal, Cause: err}
}

func noLane(lane string) error {
	return job.Errorf(job.CodeDestinationNotFound, "there is no destination %q", lane)
}

func faulty(lane string) error {
	return &job.Error{Code: job.CodeDestinationFaulty, RetryAfter: 30 * time.Second,
		Detail: fmt.Sprintf("the stored contract of %q cannot be read; apply it again", lane)}
}
