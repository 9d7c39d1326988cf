package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tundish/internal/job"
	"tundish/internal/redisdb"
)

// MaxLease is how many jobs one turn hands out at most.
const MaxLease = 100

// MaxResults is how many results one turn settles at most.
const MaxResults = 100

// LeaseGrace is what a lease lasts beyond slot, tolerance and timeout. turn.lua
// and lease.lua hold the same figure.
const LeaseGrace = 5 * time.Second

// maxTurnBytes bounds the bodies of one turn; a larger job goes alone.
const maxTurnBytes = 800 << 10

// Kind says what a result does to its job.
type Kind string

// The kinds of results.
const (
	KindDelivered Kind = "delivered"
	KindDead      Kind = "dead"
	KindUnknown   Kind = "unknown"
	KindDoubt     Kind = "doubt"     // wait for Delay, then ask the destination before it is sent again
	KindRetry     Kind = "retry"     // wait for Delay, then go again
	KindThrottled Kind = "throttled" // the destination said "later": in Delay
	KindReturn    Kind = "return"    // back to its place, a request may have left
	KindRelease   Kind = "release"   // back to its place, no byte was written: the slot is given back
)

// Final says whether the job ends with it.
func (k Kind) Final() bool { return k == KindDelivered || k == KindDead || k == KindUnknown }

// Health is what an attempt tells of the destination, for the breaker.
type Health string

// What an attempt can tell.
const (
	HealthNone Health = ""     // nothing: no byte was written, or we broke it off
	HealthOK   Health = "ok"   // it answers, if only to refuse
	HealthSlow Health = "slow" // and takes long
	HealthBad  Health = "bad"  // it fails
)

// Result is what became of one lease.
type Result struct {
	ID      job.ID
	Token   string
	Kind    Kind
	Delay   time.Duration // with KindRetry, KindDoubt and KindThrottled; of an end: how long the destination is to rest
	Outcome string        // of the attempt, or the reason of the end
	Note    []byte        // Note, encoded: what is shown of the job later
	Counts  bool          // uses up one of the job's attempts
	Before  int64         // of a throttled attempt: slot of the one before that drew the same answer, µs; 0: none
	Health  Health        // what the attempt tells of the destination
	Bytes   int           // of the envelope, which the end of a dead or unknown job moves; not sent
}

// Fit is how many of the results one turn settles.
func Fit(results []Result) int {
	bytes := 0
	for i := range results {
		bytes += len(results[i].Note)
		if k := results[i].Kind; k == KindDead || k == KindUnknown {
			bytes += results[i].Bytes + JobBytes
		}
		if i == MaxResults || i > 0 && bytes > maxTurnBytes {
			return i
		}
	}
	return len(results)
}

// LostCall names a turn whose reply never came, by the span of logical time in
// which deadlines of its leases can lie.
type LostCall struct {
	Call     uint64
	From, To int64 // µs
}

// Turn is one call of the turn script for one lane.
type Turn struct {
	Lane   string
	Call   uint64 // of this worker, counted over all lanes
	Lost   []LostCall
	Want   int  // jobs, at most MaxLease; 0 only settles
	Short  bool // Want is less than the worker could use: it has no more senders for the lane
	Keep   bool // the worker will look again by its own timer
	Clock  ClockView
	Lead   time.Duration
	Ahead  time.Duration // horizon: how far ahead slots are granted
	MyLast int64         // last slot granted to this worker on this lane, µs; 0: none
	Late   time.Duration // by which this worker's writes are late, p99
	Result []Result
}

// ClockView is what a worker knows of a shard's logical time when it calls.
type ClockView struct {
	Expect    int64 // earliest logical time at which the call can run, µs; 0: unknown
	Width     int64 // of the bounds, µs
	Slack     int64 // by which calls run later than they could, lately, µs
	Confirmed string
	Move      int64 // with Confirmed: what to add to adj, µs
}

// Lease is a job handed out, with the time at which it may be written.
type Lease struct {
	ID       job.ID
	Token    string
	Slot     int64 // logical µs
	Sent     int   // requests that left or may have left before
	Used     int   // attempts used up before
	Crashes  int   // leases that ran out before
	First    int64 // slot of the first attempt, 0: none
	History  []byte
	Envelope []byte
	InDoubt  bool // it may have arrived: the destination is to be asked
}

// TurnStatus says whether a lane could be turned.
type TurnStatus string

// The statuses of a turn.
const (
	TurnOK     TurnStatus = "ok"
	TurnNoLane TurnStatus = "no_lane"
	TurnFaulty TurnStatus = "faulty"
	// TurnClock: time looks as if it had stepped forward. Nothing was done; the
	// caller compares its bounds with Logical and asks again.
	TurnClock TurnStatus = "clock"
)

// TurnReply is what a turn answered.
type TurnReply struct {
	Status     TurnStatus
	Logical    int64 // µs, when the script ran
	Adj        string
	Stepped    bool
	LostMemory bool
	Epoch      int64
	Version    int64
	Generation int64
	Tolerance  time.Duration
	Timeout    time.Duration
	Look       int64  // logical µs of the next look; 0: none
	Why        string // why it stopped handing out
	Verdicts   []string
	Leases     []Lease
	Held       string           // the limit for which ready jobs stay in the queue; empty: none
	Counted    map[string]int64 // see Counts; nil when nothing was
	Err        error
}

// Turns sends turns in one pipeline, each executed at most once. Replies come by position.
func (s *Store) Turns(ctx context.Context, worker string, turns []Turn) []TurnReply {
	var calls []redisdb.Call
	var sent []int
	replies := make([]TurnReply, len(turns))
	for i := range turns {
		keys, err := s.db.Keys().Lane(turns[i].Lane)
		if err != nil {
			replies[i].Err = err
			continue
		}
		calls = append(calls, redisdb.Call{Script: turnScript, Keys: keys, Args: s.turnArgs(worker, &turns[i]), Once: true})
		sent = append(sent, i)
	}
	for k, r := range s.db.Pipeline(ctx, calls) {
		i := sent[k]
		if r.Err != nil {
			replies[i].Err = r.Err
			continue
		}
		replies[i] = parseTurn(r.Value)
		s.tell(replies[i].Counted)
	}
	return replies
}

func (s *Store) turnArgs(worker string, t *Turn) []any {
	args := make([]any, 0, 19+8*len(t.Result))
	args = append(args, t.Lane, s.db.Keys().Wake(), worker, t.Call, lostCalls(t.Lost), min(t.Want, MaxLease), flag(t.Short), flag(t.Keep),
		t.Clock.Expect, t.Clock.Width, t.Clock.Slack, t.Clock.Confirmed, t.Clock.Move, t.Lead.Microseconds(), t.Ahead.Microseconds(),
		maxTurnBytes, t.MyLast, t.Late.Microseconds(), len(t.Result))
	for i := range t.Result {
		r := &t.Result[i]
		args = append(args, string(r.ID), r.Token, string(r.Kind), r.Delay.Microseconds(), r.Outcome, r.Note, r.counts(), string(r.Health))
	}
	return args
}

// counts is the seventh argument of a result; see settle.lua.
func (r *Result) counts() any {
	if r.Kind == KindThrottled || r.Kind.Final() {
		return r.Before
	}
	return flag(r.Counts)
}

func lostCalls(lost []LostCall) string {
	var b strings.Builder
	for _, l := range lost {
		fmt.Fprintf(&b, "%d,%d,%d;", l.Call, l.From, l.To)
	}
	return b.String()
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

func parseTurn(v any) TurnReply {
	p := parser{}
	list := p.list(v)
	r := TurnReply{Status: TurnStatus(p.text(list, 0))}
	switch r.Status {
	case TurnNoLane, TurnFaulty:
		r.Verdicts = p.texts(p.at(list, 1))
	case TurnClock:
		r.Logical, r.Adj = p.number(list, 1), p.text(list, 2)
	case TurnOK:
		r.Logical, r.Adj = p.number(list, 1), p.text(list, 2)
		r.Stepped, r.LostMemory = p.number(list, 3) == 1, p.number(list, 4) == 1
		r.Epoch, r.Version, r.Generation = p.number(list, 5), p.number(list, 6), p.number(list, 7)
		r.Tolerance, r.Timeout = p.micros(list, 8), p.micros(list, 9)
		if p.text(list, 10) != "" {
			r.Look = p.number(list, 10)
		}
		r.Why, r.Verdicts = p.text(list, 11), p.texts(p.at(list, 12))
		for _, item := range p.list(p.at(list, 13)) {
			r.Leases = append(r.Leases, p.lease(item))
		}
		r.Held, r.Counted = p.text(list, 14), p.counted(list, 15)
	default:
		p.fail("unknown status %q", r.Status)
	}
	r.Err = p.err
	return r
}

func (p *parser) lease(v any) Lease {
	l := p.list(v)
	return Lease{
		ID: job.ID(p.text(l, 0)), Token: p.text(l, 1), Slot: p.number(l, 2), Sent: int(p.number(l, 3)), Used: int(p.number(l, 4)),
		Crashes: int(p.number(l, 5)), First: p.number(l, 6), History: []byte(p.text(l, 7)), Envelope: []byte(p.text(l, 8)), InDoubt: p.number(l, 9) == 1,
	}
}

// parser reads a script's reply and keeps the first thing that is not as it
// should be: a reply of another shape is a bug, not a wrong value.
type parser struct{ err error }

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("reply of a script: "+format, args...)
	}
}

func (p *parser) list(v any) []any {
	l, ok := v.([]any)
	if !ok {
		p.fail("%T, want a list", v)
	}
	return l
}

func (p *parser) at(l []any, i int) any {
	if i >= len(l) {
		p.fail("%d elements, want more than %d", len(l), i)
		return nil
	}
	return l[i]
}

func (p *parser) text(l []any, i int) string {
	switch v := p.at(l, i).(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case nil:
		return ""
	default:
		p.fail("element %d is %T", i, v)
		return ""
	}
}

func (p *parser) number(l []any, i int) int64 {
	n, err := strconv.ParseInt(p.text(l, i), 10, 64)
	if err != nil {
		p.fail("element %d: %v", i, err)
	}
	return n
}

func (p *parser) micros(l []any, i int) time.Duration {
	return time.Duration(p.number(l, i)) * time.Microsecond
}

func (p *parser) texts(v any) []string {
	l := p.list(v)
	out := make([]string, len(l))
	for i := range l {
		out[i] = p.text(l, i)
	}
	return out
}
