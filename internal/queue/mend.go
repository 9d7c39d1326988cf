package queue

import (
	"context"
	"errors"

	"tundish/internal/redisdb"
)

// Repairs is what a sweep found amiss and mended. More than nothing is an alert.
type Repairs struct {
	Entries    int64 // lanes whose due entry was missing or late
	Leases     int64 // jobs whose lease entry was missing
	Tombstones int64 // deleted lanes whose time was over; this is no fault
}

// EachLane calls fn with every lane of a shard, deleted ones included, a few
// hundred at a time.
func (s *Store) EachLane(ctx context.Context, shard int, fn func(lane string) error) error {
	_, _, key := s.db.Keys().Shard(shard)
	for cursor := uint64(0); ; {
		page, next, err := s.db.Client().HScan(ctx, key, cursor, "", 500).Result()
		if err != nil {
			return callerError(err)
		}
		for i := 0; i < len(page); i += 2 {
			if err := fn(page[i]); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// Sweep compares every lane with its due entry, mends, trims, and waits
// between lanes as pause says, so that its cost spreads over its minute.
func (s *Store) Sweep(ctx context.Context, pause func(ctx context.Context) error) (Repairs, error) {
	var all Repairs
	var failed []error
	for shard := range redisdb.Shards {
		err := s.EachLane(ctx, shard, func(lane string) error {
			r, err := s.mend(ctx, lane)
			if err != nil {
				failed = append(failed, err)
			}
			all.Entries, all.Leases, all.Tombstones = all.Entries+r.Entries, all.Leases+r.Leases, all.Tombstones+r.Tombstones
			return pause(ctx)
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

func (s *Store) mend(ctx context.Context, lane string) (Repairs, error) {
	reply, err := s.run(ctx, mendScript, lane, []any{lane, s.db.Keys().Wake()})
	if err != nil {
		return Repairs{}, err
	}
	p := parser{}
	list := p.list(reply)
	if p.text(list, 0) == "deleting" {
		_, err := s.Delete(ctx, lane, 0, true)
		return Repairs{}, err
	}
	if len(list) > 4 {
		s.tell(p.counted(list, 4))
	}
	return Repairs{Entries: p.number(list, 1), Leases: p.number(list, 2), Tombstones: p.number(list, 3)}, p.err
}
