package queue

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"tundish/internal/redisdb"
)

const (
	// surveyLanes is how many lanes one script looks at, and surveyCalls how many
	// scripts go in one pipeline: they must not hold up the turns of others.
	surveyLanes = 16
	surveyCalls = 4
	// surveyWhole is how often a lane without jobs is looked at whole: its data may
	// have been damaged, and what its workers need changes slowly.
	surveyWhole = 16
)

// seen is what the last survey saw.
type seen struct {
	mu    sync.Mutex
	lanes map[string]Lane
	turn  int
}

// known is what a call says of a lane: the version that was seen whole.
func (s *seen) known(name string) string {
	if (redisdb.ShardOf(name)+s.turn)%surveyWhole == 0 {
		return ""
	}
	return s.lanes[name].version
}

// surveyKeys are the keys of a lane that the script looks at; survey_args.lua
// holds the same list.
var surveyKeys = []string{"conf", "state", "jobs", "ready", "tenants", "waiting", "leased", "tries", "dead"}

// Lane is what gauges say of a destination: its lane as it stands now.
type Lane struct {
	Name  string
	Class string // empty: none
	State string // see LaneStates
	Depth int64  // live jobs
	// Ready, Waiting and Leased are the parts of Depth; Dead and Unknown are beside it.
	Ready, Waiting, Leased, Dead, Unknown int64

	SizeBytes          int64
	Capacity, MaxBytes int64
	// OldestAge is that of the oldest job that does not wait for its own time.
	OldestAge time.Duration
	// Occupied is for how long a job holds a sender, from its slot to its result; 0: none has.
	Occupied time.Duration
	Limits   []LaneLimit // none where the contract cannot be read

	version string // and generation, seen whole; empty: it must be again
	stopped bool   // by its contract
}

// LaneLimit is a limit, in requests per second.
type LaneLimit struct {
	Name    string
	Rate    float64 // as written
	Granted float64 // by the tolerance that workers need now
}

// LaneStates lists the states a lane is in, one at a time.
func LaneStates() []string {
	return []string{StateRunning, stateCooling, stateBreaker, statePaused, faultyState}
}

// The states of a lane, one at a time.
const (
	StateRunning = "running"
	stateCooling = "cooling_down" // the destination said "later"
	stateBreaker = "breaker_open" // it failed, and is only probed
	statePaused  = "paused"
	faultyState  = "faulty"
)

// Stopped says that nobody expects the lane to send.
func (l *Lane) Stopped() bool { return l.State == statePaused || l.State == faultyState }

// Rate is what all limits together let through, per second; 0 when there are none.
func (l *Lane) Rate() float64 {
	rate := 0.0
	for i, limit := range l.Limits {
		if i == 0 || limit.Granted < rate {
			rate = limit.Granted
		}
	}
	return rate
}

// Drain is how long the live jobs take at that rate.
func (l *Lane) Drain() time.Duration {
	rate := l.Rate()
	if rate <= 0 {
		return 0
	}
	return time.Duration(float64(l.Depth) / rate * float64(time.Second))
}

// Survey looks at all lanes, sorted by name, some at a time. It reads no
// contract and no job, so that it stays cheap with many.
func (s *Store) Survey(ctx context.Context) ([]Lane, error) {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	names, err := s.Names(ctx)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		_, ok := s.db.Keys().Some(nil, name, nil)
		return !ok // no script makes such a lane
	})
	lanes := make([]Lane, len(names))
	chunks := surveyChunks(names)
	for len(chunks) > 0 {
		n := min(surveyCalls, len(chunks))
		if err := s.survey(ctx, names, chunks[:n], lanes); err != nil {
			return nil, err
		}
		chunks = chunks[n:]
	}
	s.seen.turn++
	s.seen.lanes = make(map[string]Lane, len(lanes))
	kept := lanes[:0]
	for i := range lanes {
		if lanes[i].State != "" {
			s.seen.lanes[lanes[i].Name] = lanes[i]
			kept = append(kept, lanes[i])
		}
	}
	return kept, nil
}

// surveyChunks divides names, by position, into parts of one shard each.
func surveyChunks(names []string) [][]int {
	var shards [redisdb.Shards][]int
	for i, name := range names {
		shard := redisdb.ShardOf(name)
		shards[shard] = append(shards[shard], i)
	}
	var chunks [][]int
	for _, all := range shards {
		for len(all) > 0 {
			n := min(surveyLanes, len(all))
			chunks, all = append(chunks, all[:n]), all[n:]
		}
	}
	return chunks
}

func (s *Store) survey(ctx context.Context, names []string, chunks [][]int, lanes []Lane) error {
	calls := make([]redisdb.Call, len(chunks))
	for i, chunk := range chunks {
		args := []any{len(chunk)}
		for _, at := range chunk {
			args = append(args, s.seen.known(names[at]))
		}
		calls[i] = redisdb.Call{Script: surveyScript, Keys: s.surveyed(names, chunk), Args: args}
	}
	for i, r := range s.db.Pipeline(ctx, calls) {
		if r.Err != nil {
			return callerError(r.Err)
		}
		p := parser{}
		list := p.list(r.Value)
		for k, at := range chunks[i] {
			lanes[at] = p.laneOf(names[at], p.list(p.at(list, k)), s.seen.lanes[names[at]])
		}
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

// surveyed makes the keys of a call for lanes of one shard.
func (s *Store) surveyed(names []string, chunk []int) []string {
	_, clock, _ := s.db.Keys().Shard(redisdb.ShardOf(names[chunk[0]]))
	keys := append(make([]string, 0, 1+len(chunk)*len(surveyKeys)), clock)
	for _, at := range chunk {
		keys, _ = s.db.Keys().Some(keys, names[at], surveyKeys) // Survey has looked at the name
	}
	return keys
}

// laneOf reads what the script says of one lane; one that is no more has no state.
func (p *parser) laneOf(name string, l []any, before Lane) Lane {
	lane := Lane{Name: name}
	switch status := p.text(l, 0); status {
	case "no_lane":
	case "idle":
		lane = before.idle(p.number(l, 1) == 1, p.number(l, 2), p.number(l, 3))
	case "damaged":
		lane.State = faultyState
	default:
		p.whole(&lane, status, l)
	}
	return lane
}

// idle is a lane that was seen before, now without jobs.
func (l Lane) idle(paused bool, dead, unknown int64) Lane {
	l.Depth, l.Ready, l.Waiting, l.Leased, l.SizeBytes, l.OldestAge = 0, 0, 0, 0, 0, 0
	l.Dead, l.Unknown, l.State = dead, unknown, StateRunning
	if paused || l.stopped {
		l.State = statePaused
	}
	return l
}

func (p *parser) whole(lane *Lane, status string, l []any) {
	held := p.number(l, 2)
	lane.stopped, lane.State = held == 2, StateRunning
	switch {
	case status == faultyState, held == 5:
		lane.State = faultyState
	case held == 1, held == 2:
		lane.State = statePaused
	case held == 3:
		lane.State = stateBreaker
	case held == 4:
		lane.State = stateCooling
	}
	lane.Class, lane.Depth, lane.Ready, lane.Waiting, lane.Leased = p.text(l, 1), p.number(l, 3), p.number(l, 4), p.number(l, 5), p.number(l, 6)
	lane.Dead, lane.Unknown, lane.SizeBytes = p.number(l, 7), p.number(l, 8), p.number(l, 9)
	if status == faultyState {
		return
	}
	if p.text(l, 10) != "" {
		lane.OldestAge = p.micros(l, 10)
	}
	lane.Capacity, lane.MaxBytes, lane.Occupied, lane.version = p.number(l, 11), p.number(l, 12), p.micros(l, 13), p.text(l, 14)
	for i := 15; i < len(l); i += 4 {
		rate := float64(p.number(l, i+1))
		lane.Limits = append(lane.Limits, LaneLimit{Name: p.text(l, i), Rate: rate / p.micros(l, i+2).Seconds(), Granted: rate / p.micros(l, i+3).Seconds()})
	}
}

// keySenders is the field of the installation that says how many senders a worker has.
const keySenders = "senders"

// DefaultSenders is how many senders a worker is taken to have when none has told.
const DefaultSenders = 1000

// SetSenders says how many senders the workers of this installation have; the
// worker that started last is believed.
func (s *Store) SetSenders(ctx context.Context, n int) error {
	return callerError(s.db.Client().HSet(ctx, s.db.Keys().Meta(), keySenders, n).Err())
}

// Senders is how many senders a worker has.
func (s *Store) Senders(ctx context.Context) (int, error) {
	values, err := s.db.Client().HMGet(ctx, s.db.Keys().Meta(), keySenders).Result()
	if err != nil {
		return 0, callerError(err)
	}
	text, _ := values[0].(string)
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return n, nil
	}
	return DefaultSenders, nil
}
