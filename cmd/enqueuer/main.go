// The enqueuer is the door: producers push jobs over HTTP, operators look after destinations.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"tundish/internal/app"
)

func main() {
	var cfg app.EnqueuerConfig
	app.Parse(&cfg, "enqueuer", "Takes jobs over HTTP into a bounded queue per destination.")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := app.RunEnqueuer(ctx, cfg, os.Stderr)
	stop() // not deferred: os.Exit runs nothing that is
	os.Exit(code)
}
