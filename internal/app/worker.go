package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/background"
	"tundish/internal/bank"
	"tundish/internal/deliver"
	"tundish/internal/drain"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// WorkerConfig holds the flags of a worker.
type WorkerConfig struct {
	Common
	AdminListen         string   `name:"admin-listen" default:"127.0.0.1:8082" help:"Address of /metrics, /healthz and /readyz."`
	Concurrency         string   `default:"1000" help:"Senders: attempts and prefetched jobs at once, 1 to 100000."`
	StopGrace           string   `name:"stop-grace" default:"25s" help:"How long attempts under way may finish after SIGTERM, 0s to 1h."`
	AllowPrivateTargets []string `name:"allow-private-targets" sep:"," help:"Private address ranges that may be dialled, such as 127.0.0.0/8."`
	WriteLog            string   `name:"write-log" help:"File that notes each write: lane, job, slot, monotonic clock."`

	concurrency int
	grace       time.Duration
	allow       []netip.Prefix
}

// Validate reports every bad value at once.
func (c *WorkerConfig) Validate() error {
	var p problems
	c.validate(&p)
	p.address("--admin-listen", c.AdminListen)
	c.concurrency = p.whole("--concurrency", c.Concurrency, 1, 100_000)
	c.grace = p.duration("--stop-grace", c.StopGrace, 0, time.Hour)
	c.allow = p.prefixes("--allow-private-targets", c.AllowPrivateTargets)
	return p.err()
}

// Worker drains lanes.
type Worker struct {
	cfg   WorkerConfig
	log   *slog.Logger
	clean cleanups
	admin *admin
	drain *drain.Drain
}

// NewWorker makes a worker that has not started.
func NewWorker(cfg WorkerConfig, log *slog.Logger) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Worker{cfg: cfg, log: log}, nil
}

// Start connects and begins to drain. When it fails, nothing is left running.
func (w *Worker) Start(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		w.clean.run()
		return err
	}
	return nil
}

func (w *Worker) start(ctx context.Context) error {
	reg := newRegistry("worker")
	var err error
	if w.admin, err = startAdmin(ctx, w.cfg.AdminListen, w.cfg.Pprof, reg, w.log); err != nil {
		return fmt.Errorf("--admin-listen: %w", err)
	}
	w.clean.add("admin", w.admin.stop)
	db, err := open(ctx, w.cfg.Common, reg, w.log)
	if err != nil {
		return err
	}
	w.clean.add("redis", func() { _ = db.Close() })
	config := drain.Config{Worker: "w" + uuid.NewString(), Concurrency: w.cfg.concurrency, StopGrace: w.cfg.grace, Logger: w.log,
		Metrics: drain.NewMetrics(reg)}
	if w.cfg.WriteLog != "" {
		writes, err := bank.Open(w.cfg.WriteLog)
		if err != nil {
			return fmt.Errorf("--write-log: %w", err)
		}
		w.clean.add("write log", func() { _ = writes.Close() })
		config.Record = writes
	}
	sender := deliver.New(deliver.Config{AllowPrivate: w.cfg.allow, MaxIdlePerTarget: w.cfg.concurrency})
	w.clean.add("sender", sender.Close)
	wake := subscribe(db)
	w.clean.add("wake", wake.close)
	config.Wake = wake.lanes
	store := queue.New(db)
	w.drain = drain.New(config, store, store, sender)
	work := background.New(background.Config{Namespace: db.Keys().Namespace(), Sweeper: store, Logger: w.log, Metrics: reg}, db.Client())
	if err := work.Start(); err != nil {
		return err
	}
	w.drain.Start()
	w.clean.add("drain and background", func() {
		var wg sync.WaitGroup
		wg.Go(work.Stop) // asynq sleeps for up to a period before it sees that it is to stop
		w.drain.Stop()
		wg.Wait()
	})
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "tundish", Name: "loop_last_turn_timestamp_seconds",
		Help: "When a loop last passed; one that stands still is not ready.", ConstLabels: prometheus.Labels{"loop": "drain"}},
		func() float64 { return float64(w.drain.LastLoop().UnixMilli()) / 1000 }))
	w.admin.setReady(w.ready)
	w.log.Info("worker drains", "worker", config.Worker, "concurrency", w.cfg.concurrency, "admin", w.admin.addr)
	return nil
}

// ready lists why the worker cannot do its work now.
func (w *Worker) ready() []string {
	var reasons []string
	if t := w.drain.Trouble(); t != "" {
		reasons = append(reasons, "redis: "+t)
	}
	if since := time.Since(w.drain.LastLoop()); since > 30*time.Second {
		reasons = append(reasons, fmt.Sprintf("the drain has not turned for %s", since.Round(time.Second)))
	}
	return reasons
}

// Stop ends the worker: no more jobs, attempts finish within the grace, results are settled.
func (w *Worker) Stop() { w.clean.run() }

// AdminAddr is where the admin pages are served.
func (w *Worker) AdminAddr() string { return w.admin.addr }

// open connects, checks that Redis is fit, and waits while it cannot serve: a
// service that comes up before its Redis becomes ready with it.
func open(ctx context.Context, c Common, reg prometheus.Registerer, log *slog.Logger) (*redisdb.DB, error) {
	metrics := newRedisMetrics(reg)
	config := redisdb.Config{URL: c.RedisURL, Namespace: c.Namespace, Logger: log.With("component", "redis"), OnScript: metrics.observe}
	last := ""
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		db, err := connect(ctx, config, log)
		if err == nil || !redisdb.Unavailable(err) {
			return db, err
		}
		if text := redisdb.Kind(err); text != last {
			last = text
			log.Warn("Redis cannot serve yet; waiting for it", "error", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func connect(ctx context.Context, config redisdb.Config, log *slog.Logger) (*redisdb.DB, error) {
	db, err := redisdb.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	report, err := db.Check(ctx)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	for _, warning := range report.Warnings {
		log.Warn(warning, "component", "redis")
	}
	return db, nil
}
