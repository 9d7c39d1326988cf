package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// minDoneKept is how long the id of a finished job is kept at least, so that a
// repeated push is harmless.
const minDoneKept = 15 * time.Minute

// minTombstone is how long a deleted lane's slots are remembered at least.
const minTombstone = 24 * time.Hour

// compile turns a contract into the fields of the conf hash that scripts read.
func compile(c *destination.Contract, written []byte) ([]any, error) {
	weights := ""
	if len(c.Tenants.Weights) > 0 {
		text, err := json.Marshal(c.Tenants.Weights)
		if err != nil {
			return nil, fmt.Errorf("weights: %w", err)
		}
		weights = string(text)
	}
	share := 0.0 // s/(1-s) of the free places
	if c.Tenants.Share > 0 && c.Tenants.Share < 1 {
		share = c.Tenants.Share / (1 - c.Tenants.Share)
	}
	return []any{
		"doc", written,
		"limits", compileLimits(c.Limits),
		"guard_us", c.Tolerance().Microseconds(),
		"cap", c.MaxInFlight,
		"class", c.Class,
		"timeout", c.Timeout().Microseconds(),
		"capacity", c.Queue.Capacity,
		"max_bytes", c.Queue.MaxBytes,
		"max_history", c.Queue.MaxHistoryBytes,
		"share", strconv.FormatFloat(share, 'g', -1, 64),
		"weights", weights,
		"aging", c.Queue.Aging.Microseconds(),
		"when_paused", string(c.Queue.WhenPaused),
		"paused", flag(c.Paused),
		"keep_keys", c.Retention.Idempotency.Microseconds(),
		"keep_done", max(c.Retention.Finished, minDoneKept).Microseconds(),
		"keep_dead", c.Retention.Dead.Microseconds(),
		"dead_max", c.Retention.DeadMax,
		"delivery", string(c.Delivery),
		"adaptive", adaptiveFloor(c),
		"verify", flag(c.Verify != ""),
		"breaker", fmt.Sprintf("%d|%d|%d", c.Breaker.Failures, c.Breaker.OpenFor.Microseconds(), c.Breaker.MaxOpenFor.Microseconds()),
	}, nil
}

// adaptiveFloor is the floor as a share of the limit that sets the pace, in ppm; empty when the rate is fixed.
func adaptiveFloor(c *destination.Contract) string {
	if !c.Adaptive.Enabled {
		return ""
	}
	l := c.Pace()
	return strconv.FormatInt(max(1, int64(c.Adaptive.Floor*1e6/float64(l.Rate))), 10)
}

func compileLimits(limits []destination.Limit) string {
	var b strings.Builder
	for _, l := range limits {
		fmt.Fprintf(&b, "%s,%s,%d,%d,%d;", l.Name, l.Algorithm, l.Rate, l.Per.Microseconds(), max(l.Burst, 1))
	}
	return b.String()
}

// Apply stores a contract. It answers the destination as it stands afterwards.
func (s *Store) Apply(ctx context.Context, r ApplyRequest) (*Destination, bool, error) {
	warnings, err := s.canBeDurable(ctx, r)
	if err != nil {
		return nil, false, err
	}
	verdict, effective, err := s.applyWithSecrets(ctx, r)
	if err != nil {
		return nil, false, err
	}
	switch verdict {
	case "created", "updated", "unchanged":
	case "version_mismatch":
		return nil, false, job.Errorf(job.CodeVersionMismatch, "the stored version of %q is another", r.Name)
	case "owned_by_file":
		return nil, false, job.Errorf(job.CodeOwnedByFile, "a file owns %q; change it there, or put it with the file's set and revision", r.Name)
	case "owned_by_other":
		return nil, false, job.Errorf(job.CodeOwnedByFile, "%q was made by the API or another set of files", r.Name)
	case "older":
		return nil, false, job.Errorf(job.CodeVersionMismatch, "a newer revision than %d of the set %s was applied to %q", r.Source.Revision, r.Source.Set, r.Name)
	default:
		return nil, false, fmt.Errorf("apply: unknown verdict %q", verdict)
	}
	if r.DryRun {
		return &Destination{Name: r.Name, Source: r.Source, Written: r.Written, Contract: r.Contract, Warnings: warnings}, verdict == "created", nil
	}
	d, err := s.Destination(ctx, r.Name)
	if err != nil {
		return nil, false, err
	}
	d.EffectiveIn, d.Warnings = effective, warnings
	return d, verdict == "created", nil
}

// canBeDurable refuses a contract to which this Redis can never keep, and warns
// where it keeps to it late.
func (s *Store) canBeDurable(ctx context.Context, r ApplyRequest) (warnings []string, err error) {
	if r.Contract.Durability != destination.AOF {
		return nil, nil
	}
	keys, err := s.db.Keys().Lane(r.Name)
	if err != nil {
		return nil, noLane(r.Name)
	}
	can, late, err := s.db.CanSync(ctx, keys)
	if late != "" {
		warnings = []string{"durability: aof: " + late}
	}
	if err != nil || can {
		return warnings, callerError(err)
	}
	e := job.Errorf(job.CodeInvalid, "the destination cannot be as durable as it asks")
	e.Fields = []job.FieldError{{Pointer: "/durability", Code: job.CodeInvalid,
		Detail: "durability: aof needs a Redis with appendonly yes, and before version 7.2 with appendfsync always"}}
	return nil, e
}

func (s *Store) apply(ctx context.Context, r ApplyRequest, more ...any) (verdict string, effective time.Duration, err error) {
	fields, err := compile(r.Contract, r.Written)
	if err != nil {
		return "", 0, err
	}
	fields = append(fields, more...)
	kind := r.Source.Kind
	if kind == "" {
		kind = "api"
	}
	args := append([]any{r.Name, s.db.Keys().Wake(), r.IfVersion, flag(r.IfNone), flag(r.DryRun), kind, r.Source.Set, r.Source.Revision,
		flag(r.MemoryLost)}, fields...)
	reply, err := s.run(ctx, applyScript, r.Name, args)
	if err != nil {
		return "", 0, err
	}
	p := parser{}
	list := p.list(reply)
	return p.text(list, 0), p.micros(list, 3), p.err
}

func tombstone(c *destination.Contract) time.Duration { return max(minTombstone, c.LongestWindow()) }

// Delete ends a destination that no file owns. Live jobs refuse it unless
// cancelJobs ends them as cancelled.
func (s *Store) Delete(ctx context.Context, name string, ifVersion int64, cancelJobs bool) (effective time.Duration, err error) {
	return s.DeleteOf(ctx, "", name, ifVersion, cancelJobs)
}

// DeleteOf is Delete for who speaks for a set of files: it ends what the set
// owns or has let go, and nothing else.
func (s *Store) DeleteOf(ctx context.Context, set, name string, ifVersion int64, cancelJobs bool) (effective time.Duration, err error) {
	keep, owner := minTombstone, ""
	if d, err := s.Destination(ctx, name); err == nil {
		owner = d.Source.Set
		if d.Contract != nil {
			keep = tombstone(d.Contract)
		}
	}
	reply, err := s.run(ctx, deleteScript, name, []any{name, ifVersion, flag(cancelJobs), keep.Microseconds(), set})
	if err != nil {
		return 0, err
	}
	p := parser{}
	list := p.list(reply)
	switch verdict := p.text(list, 0); verdict {
	case "deleted":
		return p.micros(list, 1), p.err
	case "no_lane":
		return 0, noLane(name)
	case "version_mismatch":
		return 0, job.Errorf(job.CodeVersionMismatch, "the stored version of %q is another", name)
	case "owned_by_file":
		return 0, job.Errorf(job.CodeOwnedByFile, "a file of the set %s owns %q; remove it there and prune, or delete it with set=%s", owner, name, owner)
	case "owned_by_other":
		return 0, job.Errorf(job.CodeOwnedByFile, "the set %s does not own %q: the API or another set made it", set, name)
	case "not_empty":
		return 0, job.Errorf(job.CodeDestinationNotEmpty, "%q still has live jobs; let them go, or delete with cancel_jobs=true", name)
	default:
		return 0, fmt.Errorf("delete: unknown verdict %q", verdict)
	}
}

// pauseMark is what is stored of an operator's pause.
type pauseMark struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

func pauseReason(reason string, at time.Time) (string, error) {
	text, err := json.Marshal(pauseMark{reason, at.UTC()})
	return string(text), err
}
