package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/background"
	"tundish/internal/bank"
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
	StartPaused         bool     `name:"start-paused" help:"Take no jobs until POST /resume on the admin address."`
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
	if c.WriteLog != "" {
		p.check(bank.Writable(c.WriteLog), "--write-log")
	}
	return p.err()
}

// Worker drains lanes.
type Worker struct {
	cfg   WorkerConfig
	log   *slog.Logger
	clean cleanups
	admin *admin
	drain *drain.Drain
	fit   *fitness
	// paused: started, and told to wait before it takes jobs.
	paused atomic.Bool
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
	var db *redisdb.DB
	if db, w.fit, err = open(ctx, w.cfg.Common, reg, w.log); err != nil {
		return err
	}
	w.clean.add("redis", func() { _ = db.Close() })
	w.fit.start()
	w.clean.add("fitness", w.fit.stop)
	metrics := drain.NewMetrics(reg)
	config := drain.Config{Worker: "w" + uuid.NewString(), Concurrency: w.cfg.concurrency, StopGrace: w.cfg.grace, Logger: w.log, Metrics: metrics}
	if w.cfg.WriteLog != "" {
		writes, err := bank.Open(w.cfg.WriteLog)
		if err != nil {
			return fmt.Errorf("--write-log: %w", err)
		}
		w.clean.add("write log", func() {
			if err := writes.Close(); err != nil {
				w.log.Error("the write log is not complete", "error", err)
			}
		})
		config.Record = writes
	}
	store := queue.New(db)
	sender := newSenders(&w.cfg, store)
	config.Check = sender.check
	w.clean.add("sender", sender.close)
	wake := subscribe(db)
	w.clean.add("wake", wake.close)
	config.Wake = wake.lanes
	store.Tell(newCounts(reg, w.log))
	w.drain = drain.New(config, store, store, sender)
	work := background.New(background.Config{Namespace: db.Keys().Namespace(), Sweeper: store, Operator: store, Logger: w.log, Metrics: reg,
		Each: func(ctx context.Context) error {
			return errors.Join(store.SetSenders(ctx, w.cfg.concurrency), keepSeries(ctx, store, metrics))
		}}, db.Client())
	if err := work.Start(); err != nil {
		return err
	}
	w.begin()
	w.clean.add("drain and background", func() {
		var wg sync.WaitGroup
		wg.Go(work.Stop) // asynq sleeps for up to a period before it sees that it is to stop
		w.drain.Stop()
		wg.Wait()
	})
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "tundish", Name: "loop_last_turn_timestamp_seconds",
		Help: "When a loop last passed; one that stands still is not ready.", ConstLabels: prometheus.Labels{"loop": "drain"}},
		func() float64 { return float64(w.drain.LastLoop().UnixMilli()) / 1000 }))
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "tundish", Name: "worker_paused",
		Help: "1 while a worker that was started with --start-paused takes no jobs."}, w.pausedGauge))
	w.admin.handle("POST /resume", w.resume)
	w.admin.setReady(w.ready)
	said := "worker drains"
	if w.paused.Load() {
		said = "worker started paused: it takes no jobs until POST /resume on the admin address"
	}
	w.log.Info(said, "worker", config.Worker, "concurrency", w.cfg.concurrency, "admin", w.admin.addr, "version", Version)
	return nil
}

// begin drains, or waits to be told to.
func (w *Worker) begin() {
	if w.cfg.StartPaused {
		w.paused.Store(true)
		return
	}
	w.drain.Start()
}

// resume ends the pause of the start. Asking again is harmless.
func (w *Worker) resume(answer http.ResponseWriter, _ *http.Request) {
	if w.paused.CompareAndSwap(true, false) {
		w.drain.Start()
		w.log.Info("worker drains", "admin", w.admin.addr)
	}
	writeJSON(answer, http.StatusOK, map[string]any{"status": "draining"})
}

func (w *Worker) pausedGauge() float64 {
	if w.paused.Load() {
		return 1
	}
	return 0
}

// ready lists why the worker cannot do its work now. One that waits to be told
// to begin is ready for that.
func (w *Worker) ready() (reasons, notes []string) {
	reasons = w.fit.reasons()
	if w.paused.Load() {
		return reasons, []string{"started paused: POST /resume here, and it takes jobs"}
	}
	if t := w.drain.Trouble(); t != "" {
		reasons = append(reasons, "redis: "+t)
	}
	if since := time.Since(w.drain.LastLoop()); since > 30*time.Second {
		reasons = append(reasons, fmt.Sprintf("the drain has not turned for %s", since.Round(time.Second)))
	}
	return reasons, nil
}

// Stop ends the worker: no more jobs, attempts finish within the grace, results are settled.
func (w *Worker) Stop() { w.clean.run() }

// AdminAddr is where the admin pages are served.
func (w *Worker) AdminAddr() string { return w.admin.addr }
