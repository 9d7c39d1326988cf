package drain

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"tundish/internal/destination"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

var (
	errRefused = &net.OpError{Op: "dial", Err: errors.New("connection refused")} // never ran
	errNoReply = context.DeadlineExceeded                                        // may have run
)

// replyError is an error that Redis itself answered.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

// seen is one call as the fake got it.
type seen struct {
	at     time.Time
	op     string // claim, turn, contract, start, mark
	lane   string
	turn   queue.Turn
	status queue.TurnStatus
	leases int
	failed bool
}

// fakeStore holds lanes in memory, with a clock of its own that can be set.
type fakeStore struct {
	mu     sync.Mutex
	lanes  map[string]*fakeLane
	offset int64 // µs: TIME minus the time of the bubble
	adj    [redisdb.Shards]int64
	steps  int
	wake   chan string
	calls  []seen

	latency time.Duration        // each way
	back    time.Duration        // more on the way back
	jitter  func() time.Duration // more on each way
	// before is asked ahead of each call: an error keeps it from running.
	before func(op, lane string) error
	// after is asked behind each call: an error loses the reply.
	after func(op, lane string) error
	// groups are the shards that a claim may look through; nil: all.
	groups [][]int
	// each is how long Redis is busy with a turn, one after the other.
	each time.Duration
	free time.Time // when it has done all that were asked for
	// stall is how long a call waits in front of Redis. The lane of a claim is its first shard.
	stall func(op, lane string) time.Duration
}

func (s *fakeStore) raw() int64 { return time.Now().UnixMicro() + s.offset }

// call runs f as Redis would: in order, at one moment, between two ways.
func (s *fakeStore) call(op, lane string, f func() seen) error {
	s.there(op, lane)
	err := s.run(op, lane, f)
	s.comeBack()
	return err
}

// there is the way of a call to Redis.
func (s *fakeStore) there(op, lane string) {
	s.mu.Lock()
	wait := s.latency
	if s.stall != nil {
		wait += s.stall(op, lane)
	}
	if s.jitter != nil {
		wait += s.jitter()
	}
	s.mu.Unlock()
	if wait > 0 {
		pass(wait)
	}
}

func (s *fakeStore) comeBack() {
	s.mu.Lock()
	wait := s.latency + s.back
	if s.jitter != nil {
		wait += s.jitter()
	}
	s.mu.Unlock()
	if wait > 0 {
		pass(wait)
	}
}

func (s *fakeStore) run(op, lane string, f func() seen) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := seen{}
	if s.before != nil {
		err = s.before(op, lane)
	}
	if err == nil {
		c = f()
		if s.after != nil {
			err = s.after(op, lane)
		}
	}
	c.at, c.op, c.lane, c.failed = time.Now(), op, lane, err != nil
	s.calls = append(s.calls, c)
	return err
}

// work waits for the turns before these, and for as long as they take.
func (s *fakeStore) work(turns int) {
	s.mu.Lock()
	if now := time.Now(); s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(time.Duration(turns) * s.each)
	wait := time.Until(s.free)
	s.mu.Unlock()
	if wait > 0 {
		pass(wait)
	}
}

func (s *fakeStore) Groups() [][]int {
	if s.groups != nil {
		return s.groups
	}
	return [][]int{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}
}

func (s *fakeStore) Claim(_ context.Context, shards []int, _, limit int, views *[redisdb.Shards]queue.ClockView) (queue.Claim, error) {
	claim := queue.Claim{Wait: -1}
	err := s.call("claim", fmt.Sprint(shards[0]), func() seen {
		for _, i := range shards {
			claim.Logical[i], _, _ = s.read(i, &views[i])
			claim.Adj[i] = fmt.Sprint(s.adj[i])
		}
		for name, l := range s.lanes {
			if !slices.Contains(shards, redisdb.ShardOf(name)) {
				continue
			}
			now := claim.Logical[redisdb.ShardOf(name)]
			if l.due != 0 && l.due <= now && len(claim.Lanes) < limit {
				l.due = now + 1_000_000
				claim.Lanes = append(claim.Lanes, name)
			}
			wait := time.Duration(max(0, l.due-now)) * time.Microsecond
			if l.due != 0 && (claim.Wait < 0 || wait < claim.Wait) {
				claim.Wait = wait
			}
		}
		return seen{leases: len(claim.Lanes)}
	})
	if err != nil {
		return queue.Claim{}, err
	}
	return claim, nil
}

func (s *fakeStore) Turns(_ context.Context, worker string, turns []queue.Turn) []queue.TurnReply {
	replies := make([]queue.TurnReply, len(turns))
	s.there("turn", turns[0].Lane)
	s.work(len(turns))
	for i := range turns {
		t := &turns[i]
		exec := func() seen {
			replies[i] = s.turn(worker, t)
			return seen{turn: *t, status: replies[i].Status, leases: len(replies[i].Leases)}
		}
		if err := s.run("turn", t.Lane, exec); err != nil {
			replies[i] = queue.TurnReply{Err: err}
		}
	}
	s.comeBack()
	return replies
}

// read is the clock part of the scripts.
func (s *fakeStore) read(shard int, v *queue.ClockView) (now int64, ok, stepped bool) {
	raw, off, move := s.raw(), int64(0), int64(0)
	if v.Expect > 0 {
		off = raw + s.adj[shard] - v.Expect
	}
	if off < -50_000-v.Width {
		move = v.Width/2 - off
	} else if off > 50_000+v.Width+v.Slack {
		if v.Confirmed != fmt.Sprint(s.adj[shard]) {
			return raw + s.adj[shard], false, false
		}
		move = v.Move
	}
	s.adj[shard] += move
	if move != 0 {
		s.steps++
	}
	return raw + s.adj[shard], true, move != 0
}

func (s *fakeStore) turn(worker string, t *queue.Turn) queue.TurnReply {
	shard := redisdb.ShardOf(t.Lane)
	now, ok, stepped := s.read(shard, &t.Clock)
	r := queue.TurnReply{Status: queue.TurnOK, Logical: now, Adj: fmt.Sprint(s.adj[shard]), Stepped: stepped}
	l := s.lanes[t.Lane]
	switch {
	case !ok:
		r.Status = queue.TurnClock
		return r
	case l == nil:
		r.Status = queue.TurnNoLane
		for range t.Result {
			r.Verdicts = append(r.Verdicts, "gone")
		}
		return r
	case l.unreadable:
		l.due = now + 60_000_000
		return queue.TurnReply{Status: queue.TurnFaulty}
	}
	tolerance := max(5000, t.Clock.Width+2000)
	r.LostMemory, l.lostMemory = l.lostMemory, false
	if len(t.Result) > 0 {
		r.Counted, l.counted = l.counted, nil
	}
	r.Verdicts = l.settle(t.Result, now)
	l.takeBack(worker, t.Lost)
	l.move(now)
	r.Why = "paused"
	if l.running() {
		r.Leases, r.Why = l.lease(worker, t, now, tolerance)
	}
	r.Look = l.look(t, now, r.Why)
	if t.Want > 0 || t.Short {
		l.planTurn(r.Look, t.Keep && r.Why != "senders")
	} else if l.planEarlier(r.Look, now) {
		s.tell(l.name)
	}
	r.Epoch, r.Version, r.Generation = l.epoch, l.version, l.generation
	r.Tolerance, r.Timeout = time.Duration(tolerance)*time.Microsecond, l.timeout
	return r
}

func (s *fakeStore) tell(lane string) {
	select {
	case s.wake <- lane:
	default:
	}
}

func (s *fakeStore) Contract(_ context.Context, lane string) (c *destination.Contract, version int64, err error) {
	failed := s.call("contract", lane, func() seen {
		l := s.lanes[lane]
		switch {
		case l == nil:
			err = errors.New("no such lane")
		case l.damaged:
			version, err = l.version, &queue.DamagedError{Lane: lane, Cause: errors.New("damaged")}
		default:
			copied := *l.contract
			c, version = &copied, l.version
		}
		return seen{}
	})
	if failed != nil {
		return nil, 0, failed
	}
	return c, version, err
}

func (s *fakeStore) Start(_ context.Context, lane string, _ destination.Durability, leases []queue.Lease) ([]bool, error) {
	held := make([]bool, len(leases))
	err := s.call("start", lane, func() seen {
		for i, lease := range leases {
			if l := s.lanes[lane]; l != nil && l.jobs[lease.ID] != nil {
				held[i] = l.jobs[lease.ID].token == lease.Token
			}
		}
		return seen{}
	})
	return held, err
}

func (s *fakeStore) MarkUnfit(_ context.Context, lane, reason string, _ time.Duration) error {
	return s.call("unfit", lane, func() seen {
		s.lanes[lane].unfit = reason
		return seen{}
	})
}

func (s *fakeStore) MarkFaulty(_ context.Context, lane string, version int64) error {
	return s.call("mark", lane, func() seen {
		s.lanes[lane].marked = version
		return seen{}
	})
}
