package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/redisdb"
)

// open connects, checks that Redis is fit, and waits while it cannot serve: a
// service that comes up before its Redis becomes ready with it.
func open(ctx context.Context, c Common, reg prometheus.Registerer, log *slog.Logger) (*redisdb.DB, *fitness, error) {
	metrics := newRedisMetrics(reg)
	config := redisdb.Config{URL: c.RedisURL, Namespace: c.Namespace, Logger: log.With("component", "redis"), OnScript: metrics.observe}
	last := ""
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		db, fit, err := connect(ctx, config, c.fitEvery, log)
		if err == nil || !redisdb.Unavailable(err) {
			return db, fit, err
		}
		if text := redisdb.Kind(err); text != last {
			last = text
			log.Warn("Redis cannot serve yet; waiting for it", "error", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func connect(ctx context.Context, config redisdb.Config, fitEvery time.Duration, log *slog.Logger) (*redisdb.DB, *fitness, error) {
	db, err := redisdb.Open(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	report, err := db.Check(ctx)
	if err != nil {
		_ = db.Close()
		return nil, nil, err
	}
	fit := newFitness(db, fitEvery, log)
	fit.note(report, nil)
	return db, fit, nil
}
