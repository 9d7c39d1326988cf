// The enqueuer is the door: producers push jobs over HTTP, operators look after destinations.
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
	var cfg app.EnqueuerConfig
	kong.Parse(&cfg, kong.Name("enqueuer"), kong.Description("Takes jobs over HTTP into a bounded queue per destination."), kong.DefaultEnvars("TUNDISH"), kong.Exit(app.Exit))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := app.RunEnqueuer(ctx, cfg, os.Stderr)
	stop() // not deferred: os.Exit runs nothing that is
	os.Exit(code)
}
