package queue

import (
	"context"
	"fmt"
)

// kindOrphaned is the source of a destination that its file no longer names.
const kindOrphaned = "orphaned"

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
		if source := parseSource(text); err == nil && source.Kind == "file" && source.Set == set {
			owned = append(owned, name)
		}
	}
	return owned, nil
}

// Orphan lets a destination go from the set that owns it. A file of the same
// set takes it again by naming it.
func (s *Store) Orphan(ctx context.Context, name, set string, revision int64) error {
	keys, err := s.db.Keys().Lane(name)
	if err != nil {
		return err
	}
	return callerError(s.db.Client().HSet(ctx, keys.Conf(), "source", fmt.Sprintf("%s|%s|%d", kindOrphaned, set, revision)).Err())
}
