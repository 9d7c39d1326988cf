package background

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"tundish/internal/queue"
	"tundish/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

type counter struct {
	sweeps atomic.Int64
	swept  chan struct{}
}

func (c *counter) Sweep(context.Context, time.Duration) (queue.Repairs, error) {
	c.sweeps.Add(1)
	c.swept <- struct{}{}
	return queue.Repairs{Entries: 1}, nil
}

// failing is a sweeper that fails with err.
type failing struct{ err error }

func (f *failing) Sweep(context.Context, time.Duration) (queue.Repairs, error) {
	return queue.Repairs{}, f.err
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

// What is told each period is told at the start, and again when it failed.
func TestEachIsCalledAtTheStartAndEachPeriod(t *testing.T) {
	t.Parallel()
	told, reg := make(chan struct{}, 10), prometheus.NewPedanticRegistry()
	b := New(Config{Namespace: redistest.Namespace(t), Every: time.Second, Sweeper: &counter{swept: make(chan struct{}, 100)},
		Logger: slog.New(slog.DiscardHandler), Metrics: reg, Each: func(context.Context) error {
			told <- struct{}{}
			return errors.New("not now")
		}}, redistest.Shared(t).Client(t))
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	defer b.Stop()
	for range 2 {
		select {
		case <-told:
		case <-time.After(20 * time.Second):
			t.Fatal("not told in 20 s")
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "tundish_loop_last_turn_timestamp_seconds" {
			if at := f.GetMetric()[0].GetGauge().GetValue(); time.Since(time.Unix(int64(at), 0)) > time.Minute {
				t.Errorf("the loop last turned at %v", at)
			}
			return
		}
	}
	t.Error("no metric of the loop")
}

// Sixteen shards that one Redis does not serve are one failure to who reads the log.
func TestFailuresAreToldOnce(t *testing.T) {
	t.Parallel()
	down, other := errors.New("Redis is down"), errors.New("it is full")
	if got := inShort(errors.Join(down, down, other, down)); got != "Redis is down; it is full" {
		t.Errorf("%q", got)
	}
}
