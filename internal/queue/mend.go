package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"tundish/internal/redisdb"
)

// Repairs is what a sweep found amiss and mended. More than nothing is an alert.
type Repairs struct {
	Entries    int64 // lanes whose due entry was missing or late
	Leases     int64 // jobs whose lease entry was missing
	Tombstones int64 // deleted lanes whose time was over; this is no fault
}

const (
	// glanceLanes is how many lanes one call glances at: it takes about a
	// millisecond at most, and turns of others wait no longer.
	glanceLanes = 100
	namesPage   = 500
	// mendCalls is how often a sweep mends one lane that has more to trim: what a sweep
	// removes is bounded, so that it comes to an end and the next begins elsewhere.
	mendCalls = 100
)

// Sweep compares every lane with its due entry, mends, trims, and spreads that
// over a time, so that it is a small part of what Redis does at any moment.
func (s *Store) Sweep(ctx context.Context, within time.Duration) (Repairs, error) {
	var all Repairs
	var failed []error
	total := s.lanes(ctx)
	share := func(lanes int) time.Duration {
		return time.Duration(float64(within) * float64(lanes) / float64(max(total, 1)))
	}
	first := rand.IntN(redisdb.Shards) // a sweep that is cut short must not always leave out the same
	for i := range redisdb.Shards {
		shard := (first + i) % redisdb.Shards
		err := s.eachLanes(ctx, shard, func(names []listed) error {
			end := time.After(share(len(names)))
			if err := s.sweep(ctx, names, &all); err != nil {
				failed = append(failed, err)
			}
			select {
			case <-end:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil {
			failed = append(failed, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return all, errors.Join(failed...)
}

// lanes counts the lanes of all shards that can be read, deleted ones included.
func (s *Store) lanes(ctx context.Context) (total int64) {
	for shard := range redisdb.Shards {
		_, _, key := s.db.Keys().Shard(shard)
		n, _ := s.db.Client().HLen(ctx, key).Result() // an error shows when the lanes are read
		total += n
	}
	return total
}

// listed is a lane as its shard lists it.
type listed struct {
	name    string
	deleted bool
}

// eachLanes calls fn with the lanes of a shard, deleted ones included, some at a time.
func (s *Store) eachLanes(ctx context.Context, shard int, fn func(names []listed) error) error {
	_, _, key := s.db.Keys().Shard(shard)
	for cursor := uint64(0); ; {
		page, next, err := s.db.Client().HScan(ctx, key, cursor, "", namesPage).Result()
		if err != nil {
			return callerError(err)
		}
		names := make([]listed, 0, len(page)/2)
		for i := 0; i+1 < len(page); i += 2 {
			names = append(names, listed{page[i], strings.Contains(page[i+1], "|0|")})
		}
		for some := range slices.Chunk(names, glanceLanes) {
			if err := fn(some); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// glanceKeys are the keys of a lane that the script looks at, in its order,
// and heldKeys those of them that a lane has which holds or remembers a job.
var (
	glanceKeys = []string{"conf", "state", "tenantjobs", "jobs", "dead", "doneends", "idemends"}
	heldKeys   = glanceKeys[3:] // tenants are counted only while there are jobs
)

// sweep mends those of some lanes of a shard that need it.
func (s *Store) sweep(ctx context.Context, names []listed, all *Repairs) error {
	var held, known []string
	var failed []error
	for _, l := range names {
		if l.deleted {
			failed = append(failed, s.mendInto(ctx, l.name, all))
			continue
		}
		if keys, ok := s.db.Keys().Some(held, l.name, heldKeys); ok { // no script makes another
			held, known = keys, append(known, l.name)
		}
	}
	if len(known) == 0 {
		return errors.Join(failed...)
	}
	// Most of many destinations have nothing: that costs one command for all.
	n, err := s.db.Client().Exists(ctx, held...).Result()
	if err != nil || n == 0 {
		return errors.Join(append(failed, callerError(err))...)
	}
	var keys []string
	for _, name := range known {
		keys, _ = s.db.Keys().Some(keys, name, glanceKeys)
	}
	reply, err := s.db.Run(ctx, glanceScript, keys, len(known))
	if err != nil {
		return callerError(err)
	}
	p := parser{}
	for i, list := 0, p.list(reply); i < len(list); i++ {
		at := p.number(list, i)
		if p.err != nil || at < 1 || int(at) > len(known) {
			return errors.Join(append(failed, p.err)...)
		}
		failed = append(failed, s.mendInto(ctx, known[at-1], all))
	}
	return errors.Join(failed...)
}

// mendInto mends a lane until it holds no more than it may: what outlived its keeping while
// no call ended a job is left to sweeps.
func (s *Store) mendInto(ctx context.Context, lane string, all *Repairs) error {
	for range mendCalls {
		r, more, err := s.mend(ctx, lane)
		all.Entries, all.Leases, all.Tombstones = all.Entries+r.Entries, all.Leases+r.Leases, all.Tombstones+r.Tombstones
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// mend makes one call, which is short; more: there may be more to trim.
func (s *Store) mend(ctx context.Context, lane string) (r Repairs, more bool, err error) {
	reply, err := s.run(ctx, mendScript, lane, []any{lane, s.db.Keys().Wake()})
	if err != nil {
		return Repairs{}, false, err
	}
	p := parser{}
	list := p.list(reply)
	if len(list) > 4 {
		s.tell(p.counted(list, 4))
		more = p.number(list, 5) == 1
	}
	return Repairs{Entries: p.number(list, 1), Leases: p.number(list, 2), Tombstones: p.number(list, 3)}, more, p.err
}
