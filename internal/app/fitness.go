package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"tundish/internal/redisdb"
)

// fitEvery is how often the settings of Redis are looked at: somebody may
// change them while we run.
const fitEvery = time.Minute

// nobody is a member that no index of ours can hold.
const nobody = "-"

// fitness says whether Redis takes writes, and whether its settings are still
// such that what it takes is safe.
type fitness struct {
	db     *redisdb.DB
	log    *slog.Logger
	every  time.Duration
	cancel context.CancelFunc
	wg     sync.WaitGroup
	warned map[string]bool

	mu    sync.Mutex
	unfit []string
}

func newFitness(db *redisdb.DB, every time.Duration, log *slog.Logger) *fitness {
	if every <= 0 {
		every = fitEvery
	}
	return &fitness{db: db, log: log.With("component", "redis"), every: every, warned: map[string]bool{}}
}

func (f *fitness) start() {
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.Background())
	f.wg.Go(func() { f.run(ctx) })
}

func (f *fitness) stop() {
	f.cancel()
	f.wg.Wait()
}

func (f *fitness) run(ctx context.Context) {
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			report, err := f.db.Check(ctx)
			if ctx.Err() == nil && !redisdb.Unavailable(err) { // that one is told elsewhere
				f.note(report, err)
			}
		}
	}
}

// note logs what is new.
func (f *fitness) note(report redisdb.Report, err error) {
	warned := map[string]bool{}
	for _, w := range report.Warnings {
		warned[w] = true
		if !f.warned[w] {
			f.log.Warn(w)
		}
	}
	f.warned = warned
	var unfit []string
	if err != nil {
		unfit = strings.Split(err.Error(), "\n")
	}
	f.mu.Lock()
	before := strings.Join(f.unfit, "\n")
	f.unfit = unfit
	f.mu.Unlock()
	switch now := strings.Join(unfit, "\n"); {
	case now == before:
	case err != nil:
		f.log.Error("Redis is no longer fit for us", "error", err)
	default:
		f.log.Info("Redis is fit again")
	}
}

// reasons lists what is wrong with the settings.
func (f *fitness) reasons() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, u := range f.unfit {
		list = append(list, "redis: "+u)
	}
	return list
}

// takesWrites asks each server that holds keys of ours whether it takes
// writes: a Redis that is full, that cannot write its disk or that has become a
// replica answers all else. The write itself changes nothing.
func (f *fitness) takesWrites(ctx context.Context) error {
	shards := redisdb.Shards
	if f.db.Mode() != redisdb.Cluster {
		shards = 1 // there is one server
	}
	pipe := f.db.Client().Pipeline()
	for shard := range shards {
		due, _, _ := f.db.Keys().Shard(shard)
		pipe.ZAddXX(ctx, due, redis.Z{Member: nobody})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("redis takes no writes: %w", err)
	}
	return nil
}
