// The worker drains lanes: it sends each job when its slot has come.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"tundish/internal/app"
)

func main() {
	var cfg app.WorkerConfig
	kong.Parse(&cfg, kong.Name("worker"), kong.Description("Sends jobs at exactly the rate of their destination."), kong.DefaultEnvars("TUNDISH"), kong.Exit(app.Exit))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := app.RunWorker(ctx, cfg, os.Stderr)
	stop() // not deferred: os.Exit runs nothing that is
	os.Exit(code)
}
