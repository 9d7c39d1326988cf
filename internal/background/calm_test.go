package background

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"tundish/internal/redistest"
)

// answers is a client that answers each script with err.
type answers struct {
	redis.UniversalClient
	err error
}

func (a answers) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(a.err)
	return cmd
}

func (a answers) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return a.EvalSha(ctx, script, keys, args...)
}

// refusal is an error that Redis answers.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

func TestCalmWaitsAfterFailures(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		err      error
		sha, all bool // EvalSha and Eval wait
	}{
		"done":       {nil, false, false},
		"no task":    {redis.Nil, false, false},
		"no script":  {refusal("NOSCRIPT No matching script."), false, true},
		"full":       {refusal("OOM command not allowed"), true, true},
		"no network": {errors.New("connection refused"), true, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := calm{answers{err: c.err}, make(chan struct{})}
				took := func(call func()) bool { begin := time.Now(); call(); return time.Since(begin) >= look/2 }
				if waits := took(func() { client.EvalSha(t.Context(), "", nil) }); waits != c.sha {
					t.Errorf("EvalSha waits: %v, want %v", waits, c.sha)
				}
				if waits := took(func() { client.Eval(t.Context(), "", nil) }); waits != c.all {
					t.Errorf("Eval waits: %v, want %v", waits, c.all)
				}
			})
		})
	}
}

func TestCalmEndsWithTheStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stopping := make(chan struct{})
		close(stopping)
		client := calm{answers{err: refusal("OOM")}, stopping}
		begin := time.Now()
		client.EvalSha(t.Context(), "", nil)
		if took := time.Since(begin); took > 0 {
			t.Errorf("a call took %s while it stops", took)
		}
	})
}

// counting counts the scripts that were sent.
type counting struct {
	redis.UniversalClient
	scripts atomic.Int64
}

func (c *counting) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	c.scripts.Add(1)
	return c.UniversalClient.EvalSha(ctx, sha1, keys, args...)
}

// asynq's server on a Redis that refuses to write.
func TestFullRedisIsNotAskedAtOnceAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := &counting{UniversalClient: server.Client(t)}
	server.Config(t, "maxmemory", "1")
	b := newBackground(t, client, redistest.Namespace(t), &counter{swept: make(chan struct{}, 100)}, time.Minute)
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	defer b.Stop()
	<-time.After(2 * look) // what passes is the time
	if n := client.scripts.Load(); n == 0 || n > 30 {
		t.Errorf("%d scripts in %s of a Redis that is full, want a few", n, 2*look)
	}
}
