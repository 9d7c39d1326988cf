package background

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// calm is a client for asynq's server. After a script that failed, asynq asks
// again at once: of a Redis that is full, thousands of times a second. Here it
// waits as long as for an empty queue before it hears of the failure.
type calm struct {
	redis.UniversalClient
	stopping <-chan struct{}
}

// EvalSha and Eval are how asynq does what it repeats.
func (c calm) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	cmd := c.UniversalClient.EvalSha(ctx, sha1, keys, args...)
	if !redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") { // the script itself follows
		c.pauseAfter(ctx, cmd.Err())
	}
	return cmd
}

func (c calm) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	cmd := c.UniversalClient.Eval(ctx, script, keys, args...)
	c.pauseAfter(ctx, cmd.Err())
	return cmd
}

func (c calm) pauseAfter(ctx context.Context, err error) {
	if err == nil || errors.Is(err, redis.Nil) {
		return
	}
	select {
	case <-time.After(look/2 + rand.N(look)):
	case <-c.stopping:
	case <-ctx.Done():
	}
}
