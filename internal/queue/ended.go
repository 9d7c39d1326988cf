package queue

import (
	"context"

	"tundish/internal/job"
)

// Ended says whether a job is no longer live: it has come to its end, or there
// is none. It runs no script and reads no body, for callers that look again and again.
func (s *Store) Ended(ctx context.Context, name string, id job.ID) (bool, error) {
	keys, ok := s.db.Keys().Some(nil, name, []string{"jobs"})
	if !ok {
		return false, noLane(name)
	}
	live, err := s.db.Client().HExists(ctx, keys[0], string(id)).Result()
	return !live, callerError(err)
}
