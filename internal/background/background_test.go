package background

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tundish/internal/queue"
	"tundish/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

type counter struct {
	sweeps atomic.Int64
	swept  chan struct{}
}

func (c *counter) Sweep(context.Context, func(context.Context) error) (queue.Repairs, error) {
	c.sweeps.Add(1)
	c.swept <- struct{}{}
	return queue.Repairs{Entries: 1}, nil
}

func newBackground(t *testing.T, client redis.UniversalClient, namespace string, s Sweeper, every time.Duration) *Background {
	t.Helper()
	return New(Config{Namespace: namespace, Every: every, Sweeper: s, Logger: slog.New(slog.DiscardHandler)}, client)
}

func TestSweepIsDone(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	c := &counter{swept: make(chan struct{}, 100)}
	b := newBackground(t, client, redistest.Namespace(t), c, time.Second)
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	defer b.Stop()
	select {
	case <-c.swept:
	case <-time.After(20 * time.Second):
		t.Fatal("no sweep in 20 s")
	}
}

// Several workers make the sweep of one period: it is one task.
func TestSweepIsOneForTheFleet(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	namespace, c := redistest.Namespace(t), &counter{swept: make(chan struct{}, 100)}
	at := time.Unix(1_800_000_000, 0)
	for range 5 {
		if err := newBackground(t, client, namespace, c, time.Minute).plan(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	n, err := client.LLen(t.Context(), "asynq:{tundish-"+namespace+"}:pending").Result()
	if err != nil || n != 1 {
		t.Errorf("%d tasks, %v; want 1", n, err)
	}
}
