package queue

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Token gives the access token that was saved for a lane, sealed; empty when
// there is none.
func (s *Store) Token(ctx context.Context, lane string) (string, error) {
	key, _, err := s.db.Keys().Token(lane)
	if err != nil {
		return "", err
	}
	sealed, err := s.db.Client().Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return sealed, callerError(err)
}

// SaveToken keeps a sealed access token for as long as it lasts.
func (s *Store) SaveToken(ctx context.Context, lane, sealed string, lasts time.Duration) error {
	key, _, err := s.db.Keys().Token(lane)
	if err != nil || lasts < time.Millisecond {
		return err
	}
	return callerError(s.db.Client().Set(ctx, key, sealed, lasts).Err())
}

// LockToken gives one caller the right to fetch a lane's token, until
// UnlockToken or for a time.
func (s *Store) LockToken(ctx context.Context, lane string, lasts time.Duration) (bool, error) {
	_, lock, err := s.db.Keys().Token(lane)
	if err != nil {
		return false, err
	}
	got, err := s.db.Client().SetNX(ctx, lock, 1, lasts).Result()
	return got, callerError(err)
}

// UnlockToken gives that right back.
func (s *Store) UnlockToken(ctx context.Context, lane string) error {
	_, lock, err := s.db.Keys().Token(lane)
	if err != nil {
		return err
	}
	return callerError(s.db.Client().Del(ctx, lock).Err())
}
