package queue

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// tally collects what a store's calls counted.
type tally struct {
	mu sync.Mutex
	n  map[string]int64
}

func (b *bench) tally() func() map[string]int64 {
	c := &tally{n: map[string]int64{}}
	b.s.Tell(func(name string, n int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n[name] += n
	})
	return func() map[string]int64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		got := c.n
		c.n = map[string]int64{}
		return got
	}
}

func (b *bench) counts(got map[string]int64, want map[string]int64) {
	b.t.Helper()
	if !maps.Equal(got, want) {
		b.t.Errorf("counted %v, want %v", got, want)
	}
}

// Each call tells what it did beside what it was asked for, so that a process
// counts what it caused and nothing twice.
func TestCallsTellWhatTheyCounted(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			ctx, b := context.Background(), openBench(t, backend)
			counted := b.tally()
			b.apply(perSecond(1000), `"retention":{"dead_max":1},"queue":{"capacity":5}`)
			b.accept(newJobs(3, "")...)
			b.turn(0, settleAll(b.turn(3).Leases, KindDead)...)
			b.counts(counted(), map[string]int64{CountTrimmedDead: 2})

			if err := b.db.Client().HSet(ctx, b.keys.Conf(), "max_history", 600).Err(); err != nil {
				t.Fatal(err)
			}
			keyed := newJobs(4, "")
			for _, j := range keyed {
				j.IdempotencyKey = "k" + string(j.ID)
			}
			b.accept(keyed...)
			b.turn(0, settleAll(b.turn(4).Leases, KindDelivered)...)
			got := counted()
			if got[CountTrimmedResults] == 0 || got[CountTrimmedKeys] == 0 {
				t.Errorf("history beyond its bound: counted %v", got)
			}

			expired := newJob("")
			expired.ExpiresAt = time.Now().Add(-time.Minute)
			b.accept(expired)
			b.counts(counted(), nil)
			if r := b.turn(1); r.Counted[CountExpired] != 1 {
				t.Errorf("turn: %+v", r)
			}
			counted()

			unreadable := newJob("")
			b.accept(unreadable)
			if err := b.db.Client().HSet(ctx, b.key("jobs"), string(unreadable.ID), "9 of another format").Err(); err != nil {
				t.Fatal(err)
			}
			b.turn(1)
			if got := counted(); got[CountUnreadable] != 1 || got[CountEndedDead] != 1 {
				t.Errorf("counted %v, want one unreadable job that ended", got)
			}
			strange := newJob("")
			b.accept(strange)
			result := settleAll(b.turn(1).Leases, KindDead)
			result[0].Outcome = "unreadable" // by the worker
			counted()
			b.turn(0, result...)
			if got := counted(); got[CountUnreadable] != 1 || got[CountEndedDead] != 0 {
				t.Errorf("counted %v, want one job that the worker could not read, and no end without a result", got)
			}
		})
	}
}

// Ends that no result tells of are counted by the turn that brings them.
func TestTurnsCountEndsWithoutAResult(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), once, func(t *testing.T, b *bench) {
		counted := b.tally()
		b.unknownJobs(2)
		b.counts(counted(), map[string]int64{CountEndedUnknown: 2})
		b.turn(0, settleAll(b.leasesOf(newJob("")), KindDead)...)
		b.counts(counted(), nil)
		if l := b.survey(); l.Dead != 1 || l.Unknown != 2 {
			t.Errorf("%d dead and %d unknown, want 1 and 2", l.Dead, l.Unknown)
		}
	})
	onBoth(t, perSecond(1000), "", func(t *testing.T, b *bench) {
		counted := b.tally()
		b.accept(newJob(""))
		for range 3 {
			if _, err := b.s.Start(t.Context(), b.lane, destination.Memory, b.lease(1)); err != nil {
				t.Fatal(err)
			}
			b.pass(17 * time.Second)
		}
		b.turn(1)
		b.counts(counted(), map[string]int64{CountCrashes: 2, CountEndedDead: 1})
	})
	onBoth(t, perSecond(1000), asking, func(t *testing.T, b *bench) {
		counted := b.tally()
		j := newJob("")
		j.ExpiresIn = 20 * time.Second
		b.doubtful(j)
		b.pass(30 * time.Second)
		if _, err := b.db.Client().ZAdd(t.Context(), b.key("expires"), redis.Z{Score: 1, Member: string(j.ID)}).Result(); err != nil {
			t.Fatal(err) // expiry follows Redis' clock, which pass does not move
		}
		b.turn(0)
		b.counts(counted(), map[string]int64{CountEndedUnknown: 1})
		if got := b.state(j.ID); got != job.Unknown {
			t.Errorf("it is %s", got)
		}
	})
}

// leasesOf pushes jobs and leases them.
func (b *bench) leasesOf(jobs ...*job.Job) []Lease {
	b.t.Helper()
	b.accept(jobs...)
	return b.lease(len(jobs))
}

func TestPushesAndSweepsTellWhatTheyCounted(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), openBench(t, "redis")
	counted := b.tally()
	b.apply(perSecond(1000), `"queue":{"capacity":1}`)
	expired := newJob("")
	expired.ExpiresAt = time.Now().Add(-time.Minute)
	b.accept(expired)
	b.accept(newJob("")) // makes room
	b.counts(counted(), map[string]int64{CountExpired: 1})
	b.turn(0, settleAll(b.turn(1).Leases, KindDead)...)
	if err := b.db.Client().HSet(ctx, b.keys.Conf(), "keep_dead", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.s.mend(ctx, b.lane); err != nil {
		t.Fatal(err)
	}
	b.counts(counted(), map[string]int64{CountTrimmedDead: 1})
}

// A turn names the limit for which ready jobs stay: the one whose next slot is
// furthest off, and none when the jobs are all out.
func TestTurnNamesTheLimitThatHolds(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, backend)
			b.apply(perSecond(1000)+`,{"name":"few","algorithm":"leaky_bucket","rate":2,"per":"1s"}`, "")
			b.accept(newJobs(2, "")...)
			if r := b.turn(5); len(r.Leases) != 1 || r.Held != "few" {
				t.Errorf("%d leases, held by %q", len(r.Leases), r.Held)
			}
			if _, err := b.s.Pause(context.Background(), b.lane, ""); err != nil {
				t.Fatal(err)
			}
			if r := b.turn(5); r.Held != "" {
				t.Errorf("held by %q while paused", r.Held)
			}
			b.apply(perSecond(1000), "")
			if _, err := b.s.Resume(context.Background(), b.lane); err != nil {
				t.Fatal(err)
			}
			if r := b.turn(5); r.Held != "" {
				t.Errorf("%d leases, held by %q with nothing left", len(r.Leases), r.Held)
			}
		})
	}
}
