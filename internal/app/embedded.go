package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"tundish/internal/bank"
	"tundish/internal/destination"
	"tundish/internal/queue"
)

// embedded is the whole system in one process, on a Redis that lives in its
// memory: for trying and developing.
type embedded struct {
	clean    cleanups
	enqueuer *Enqueuer
	bank     *bank.Bank
	bankAddr string
	logs     []string // write logs of the workers
	workers  []*Worker
}

// embeddedConfig says what the embedded system is made of.
type embeddedConfig struct {
	listen     string // of the API
	file       string // destinations; empty: none
	workers    int
	bankListen string
	bank       bank.Config
	writeLogs  bool
}

func startEmbedded(ctx context.Context, cfg embeddedConfig, log *slog.Logger) (*embedded, error) {
	quietStandardLog(log)
	e := &embedded{}
	if err := e.start(ctx, cfg, log); err != nil {
		e.stop()
		return nil, err
	}
	return e, nil
}

func (e *embedded) start(ctx context.Context, cfg embeddedConfig, log *slog.Logger) error {
	mini := miniredis.NewMiniRedis()
	if err := mini.StartAddr("127.0.0.1:0"); err != nil {
		return fmt.Errorf("embedded redis: %w", err)
	}
	e.clean.add("redis", mini.Close)
	var err error
	if e.bank, err = bank.New(cfg.bank); err != nil {
		return err
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	e.clean.add("bank", func() { end(); e.bank.Wait() })
	if e.bankAddr, err = e.bank.Serve(serving, cfg.bankListen); err != nil {
		return err
	}
	common := Common{RedisURL: "redis://" + mini.Addr() + "/0", Namespace: "default", LogLevel: "warn", LogFormat: "text"}
	if e.enqueuer, err = NewEnqueuer(EnqueuerConfig{Common: common, Listen: cfg.listen, AdminListen: "127.0.0.1:0", Destinations: cfg.file,
		MetricsDestinations: "200"}, log); err != nil {
		return err
	}
	if err := e.enqueuer.Start(ctx); err != nil {
		return err
	}
	e.clean.add("enqueuer", e.enqueuer.Stop)
	return e.startWorkers(ctx, cfg, common, log)
}

func (e *embedded) startWorkers(ctx context.Context, cfg embeddedConfig, common Common, log *slog.Logger) error {
	folder := ""
	if cfg.writeLogs {
		var err error
		if folder, err = os.MkdirTemp("", "tundish"); err != nil {
			return err
		}
		e.clean.add("write logs", func() { _ = os.RemoveAll(folder) })
	}
	for i := range cfg.workers {
		c := WorkerConfig{Common: common, AdminListen: "127.0.0.1:0", Concurrency: "1000", StopGrace: "5s", AllowPrivateTargets: []string{"127.0.0.0/8", "::1"}}
		if folder != "" {
			c.WriteLog = filepath.Join(folder, fmt.Sprintf("worker-%d", i))
			e.logs = append(e.logs, c.WriteLog)
		}
		w, err := NewWorker(c, log)
		if err != nil {
			return err
		}
		if err := w.Start(ctx); err != nil {
			return err
		}
		e.workers = append(e.workers, w)
	}
	return nil
}

// stopWorkers ends the workers alone: their write logs are then whole.
func (e *embedded) stopWorkers() {
	var wg sync.WaitGroup
	for _, w := range e.workers {
		wg.Go(w.Stop)
	}
	wg.Wait()
}

func (e *embedded) stop() {
	e.stopWorkers()
	e.clean.run()
}

// apply stores the contract of one destination.
func (e *embedded) apply(ctx context.Context, name, doc string) error {
	c, written, err := destination.ParseContract(name, []byte(doc))
	if err != nil {
		return err
	}
	_, _, err = e.enqueuer.store.Apply(ctx, queue.ApplyRequest{Name: name, Contract: c, Written: written, Source: queue.Source{Kind: "demo"}})
	return err
}

// DevOptions say what `tundish dev` runs.
type DevOptions struct {
	File   string // destinations file or folder; empty: a sample
	Listen string // of the API
}

const (
	devBank    = "127.0.0.1:9090" // where the sample sends
	devWorkers = 2
)

// RunDev runs the whole system in one process until ctx ends.
func RunDev(ctx context.Context, o DevOptions, stdout, stderr io.Writer) error {
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	file := o.File
	if file == "" {
		sample, err := os.CreateTemp("", "tundish-*.yaml")
		if err != nil {
			return err
		}
		defer func() { _ = os.Remove(sample.Name()) }()
		if _, err := sample.Write(destination.SampleFile); err != nil {
			return err
		}
		if err := sample.Close(); err != nil {
			return err
		}
		file = sample.Name()
	}
	e, err := startEmbedded(ctx, embeddedConfig{listen: o.Listen, file: file, workers: devWorkers, bankListen: devBank,
		bank: bank.Config{Rate: 50, Per: time.Second, Latency: 20 * time.Millisecond, Refuse: true}}, log)
	if err != nil {
		return err
	}
	defer e.stop()
	fmt.Fprintf(stdout, "API        http://%s   (description: /docs)\n", e.enqueuer.Addr())
	fmt.Fprintf(stdout, "bank       http://%s   (50 per second; report: /_bank/report)\n", e.bankAddr)
	fmt.Fprintf(stdout, "Redis      embedded: for trying and developing; jobs end with this process\n\n")
	fmt.Fprintf(stdout, "  curl -d '{\"body\":{\"amount\":\"12.30\"}}' -H 'Content-Type: application/json' http://%s/v1/destinations/bank/jobs\n", e.enqueuer.Addr())
	<-ctx.Done()
	return nil
}
