package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
)

// Exit codes of the services.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// service is anything that is started and stopped once. Start leaves nothing
// running when it fails; Stop returns when all has ended.
type service interface {
	Start(ctx context.Context) error
	Stop()
}

// RunEnqueuer runs an enqueuer until ctx ends and answers the exit code.
func RunEnqueuer(ctx context.Context, cfg EnqueuerConfig, stderr io.Writer) int {
	e, err := NewEnqueuer(cfg, cfg.Logger())
	if !cfg.Check {
		boundHeap()
	}
	return run(ctx, e, err, cfg.Check, cfg.Logger(), stderr)
}

// RunWorker runs a worker until ctx ends and answers the exit code.
func RunWorker(ctx context.Context, cfg WorkerConfig, stderr io.Writer) int {
	w, err := NewWorker(cfg, cfg.Logger())
	return run(ctx, w, err, cfg.Check, cfg.Logger(), stderr)
}

func run(ctx context.Context, s service, err error, check bool, log *slog.Logger, stderr io.Writer) int {
	if err != nil {
		report(stderr, err)
		return exitUsage
	}
	if check {
		fmt.Fprintln(stderr, "the configuration is valid")
		return exitDone
	}
	tuneGC()
	quietStandardLog(log)
	if err := s.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return exitDone
		}
		log.Error("could not start", "error", err)
		return exitFailed
	}
	<-ctx.Done()
	log.Info("stopping")
	s.Stop()
	log.Info("stopped")
	return exitDone
}

// tuneGC lets garbage wait longer: a service's live heap is a few MiB, and
// collecting it each time it doubles takes a tenth of a busy worker's time. GOGC
// and GOMEMLIMIT in the environment win.
func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// enqueuerHeap is several times what an enqueuer needs with all the bodies that
// its door takes at once.
const enqueuerHeap = 256 << 20

// boundHeap lets garbage wait no longer than there is room for it: of large
// bodies there is much of it. A soft limit; it refuses nothing.
func boundHeap() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(enqueuerHeap)
	}
}
