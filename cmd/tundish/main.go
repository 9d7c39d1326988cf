// Command tundish is the command line of Tundish.
package main

import (
	"context"
	"io"
	"os"

	"tundish/internal/app"
	"tundish/internal/cli"
)

func main() {
	programs := cli.Programs{
		Version: app.Version,
		Demo: func(ctx context.Context, o cli.DemoOptions, view io.Writer) (cli.DemoResult, error) {
			r, err := app.RunDemo(ctx, app.DemoOptions(o), view)
			return cli.DemoResult(r), err
		},
		Dev: func(ctx context.Context, o cli.DevOptions, stdout, stderr io.Writer) error {
			return app.RunDev(ctx, app.DevOptions(o), stdout, stderr)
		},
	}
	os.Exit(programs.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
