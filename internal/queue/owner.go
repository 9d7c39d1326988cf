package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// The sources of destinations that a set of files owns, or has let go.
const (
	kindFile     = "file"
	kindOrphaned = "orphaned"
)

// orphanTries is how often a contract may change just while it is let go.
const orphanTries = 5

// OwnedBy lists the destinations that files of a set own.
func (s *Store) OwnedBy(ctx context.Context, set string) ([]string, error) {
	names, err := s.Names(ctx)
	if err != nil {
		return nil, err
	}
	var owned []string
	for _, name := range names {
		keys, err := s.db.Keys().Lane(name)
		if err != nil {
			continue // not a name of ours
		}
		text, err := s.db.Client().HGet(ctx, keys.Conf(), "source").Result()
		if source := parseSource(text); err == nil && source.Kind == kindFile && source.Set == set {
			owned = append(owned, name)
		}
	}
	return owned, nil
}

// Orphan lets a destination go from the set that owns it. A file of the same
// set takes it again by naming it. What the set does not own, or no longer, is
// left alone: to write here after a delete would bring back half a lane.
func (s *Store) Orphan(ctx context.Context, name, set string, revision int64) error {
	keys, err := s.db.Keys().Lane(name)
	if err != nil {
		return err
	}
	letGo := func(tx *redis.Tx) error {
		text, err := tx.HGet(ctx, keys.Conf(), "source").Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if source := parseSource(text); err != nil || source.Kind != kindFile || source.Set != set {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, keys.Conf(), "source", fmt.Sprintf("%s|%s|%d", kindOrphaned, set, revision))
			return nil
		})
		return err
	}
	err = redis.TxFailedErr
	for n := 0; n < orphanTries && errors.Is(err, redis.TxFailedErr); n++ {
		err = s.db.Client().Watch(ctx, letGo, keys.Conf())
	}
	return callerError(err)
}
