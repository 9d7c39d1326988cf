// The worker drains lanes: it sends each job when its slot has come.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"tundish/internal/app"
)

func main() {
	var cfg app.WorkerConfig
	app.Parse(&cfg, "worker", "Sends jobs at exactly the rate of their destination.")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := app.RunWorker(ctx, cfg, os.Stderr)
	stop() // not deferred: os.Exit runs nothing that is
	os.Exit(code)
}
