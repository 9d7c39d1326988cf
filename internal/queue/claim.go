package queue

import (
	"context"
	"fmt"
	"time"

	"tundish/internal/destination"
	"tundish/internal/redisdb"
)

// MaxClaim is how many lanes one claim takes.
const MaxClaim = 64

// Claim is what a claim answered.
type Claim struct {
	Lanes []string
	// Logical is the logical time of each shard when the claim ran, µs, and Adj
	// what of it was added to the time of Redis.
	Logical [redisdb.Shards]int64
	Adj     [redisdb.Shards]string
	// Wait is how long until the next entry of any shard; negative: there is none.
	Wait time.Duration
}

// Groups are the shards that one claim may look through: all of them on one
// server, each by itself in a Cluster, where a dead node must not hold up the
// lanes of the others.
func (s *Store) Groups() [][]int {
	var all []int
	var single [][]int
	for i := range redisdb.Shards {
		all = append(all, i)
		single = append(single, []int{i})
	}
	if s.db.Mode() == redisdb.Cluster {
		return single
	}
	return [][]int{all}
}

// Claim takes due lanes of a group of shards, beginning with its shard at first. views
// holds where the caller expects each shard's logical time.
func (s *Store) Claim(ctx context.Context, shards []int, first, limit int, views *[redisdb.Shards]ClockView) (Claim, error) {
	keys := make([]string, 0, 2*len(shards))
	args := []any{limit, first}
	for _, i := range shards {
		due, clock, _ := s.db.Keys().Shard(i)
		keys = append(keys, due, clock)
		v := &views[i]
		args = append(args, v.Expect, v.Width, v.Slack, v.Confirmed, v.Move)
	}
	claim := Claim{Wait: -1}
	reply, err := s.db.RunOnce(ctx, claimScript, keys, args...)
	if err != nil {
		return claim, err
	}
	return claim, claim.add(shards, reply)
}

func (c *Claim) add(shards []int, reply any) error {
	p := parser{}
	list := p.list(reply)
	raw, adjs := p.number(list, 0), p.list(p.at(list, 2))
	for i, shard := range shards {
		c.Logical[shard], c.Adj[shard] = raw+p.number(adjs, i), p.text(adjs, i)
	}
	if p.text(list, 1) != "" {
		if wait := p.micros(list, 1); c.Wait < 0 || wait < c.Wait {
			c.Wait = wait
		}
	}
	lanes := p.texts(p.at(list, 3))
	for i := 0; i+1 < len(lanes); i += 2 {
		c.Lanes = append(c.Lanes, lanes[i+1])
	}
	return p.err
}

// Contract reads the contract in force; the error says when it cannot be used.
func (s *Store) Contract(ctx context.Context, lane string) (c *destination.Contract, version int64, err error) {
	keys, err := s.db.Keys().Lane(lane)
	if err != nil {
		return nil, 0, err
	}
	values, err := s.db.Client().HMGet(ctx, keys.Conf(), "doc", "version", fieldSealed).Result()
	if err != nil {
		return nil, 0, err
	}
	p := parser{}
	doc, version := p.text(values, 0), p.number(values, 1)
	if p.err != nil {
		return nil, 0, noLane(lane)
	}
	c, _, err = destination.ParseContract(lane, []byte(doc))
	if err != nil {
		return nil, version, &DamagedError{Lane: lane, Cause: err}
	}
	c.Sealed = readSealed(p.text(values, 2))
	return c, version, nil
}

// DamagedError says that a stored contract cannot be used.
type DamagedError struct {
	Lane  string
	Cause error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the stored contract of %q is damaged: %v", e.Lane, e.Cause)
}

func (e *DamagedError) Unwrap() error { return e.Cause }

// MarkFaulty keeps every worker from the lane until another version is applied.
func (s *Store) MarkFaulty(ctx context.Context, lane string, version int64) error {
	keys, err := s.db.Keys().Lane(lane)
	if err != nil {
		return err
	}
	return s.db.Client().HSet(ctx, keys.State(), "faulty", version).Err()
}
