package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"

	"tundish/internal/bank"
	"tundish/internal/destination"
)

type versionCmd struct{}

func (c *versionCmd) check(*problems) {}

func (c *versionCmd) run(_ context.Context, s *session) error {
	version := cmp.Or(s.programs.Version, "dev")
	platform := runtime.GOOS + "/" + runtime.GOARCH
	return s.show(output{
		json:  encode(map[string]string{"version": version, "go": runtime.Version(), "platform": platform}),
		names: []string{version},
		table: func(t *table) { t.line("tundish %s (%s, %s)", version, runtime.Version(), platform) },
	})
}

type initCmd struct {
	File string `arg:"" default:"destinations.yaml" help:"File to write; - is stdout. Default: ${default}."`
}

func (c *initCmd) check(*problems) {}

// run never overwrites: what stands in a destinations file took work.
func (c *initCmd) run(_ context.Context, s *session) error {
	if c.File == "-" {
		return s.write(destination.SampleFile)
	}
	f, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return &failure{exitFailed, c.File + " is there already; give another name"}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(destination.SampleFile)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	s.talk("wrote %s; check it with: tundish validate -f %s", c.File, c.File)
	return nil
}

type bankCmd struct{ bank.Options }

func (c *bankCmd) check(p *problems) {
	if c.ReportFile != "" {
		if err := bank.Writable(c.ReportFile); err != nil {
			p.add("--report-file: %v", err)
		}
	}
}

func (c *bankCmd) run(ctx context.Context, s *session) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // a judge must not be late because it collects garbage
	}
	return bank.Run(ctx, c.Options, s.stdout)
}

// DevOptions are the flags of `tundish dev`.
type DevOptions struct {
	File   string // destinations file or folder; empty: a sample
	Listen string // of the API
}

type devCmd struct {
	File   string `short:"f" placeholder:"FILE|DIR" help:"Destinations file, or a folder of them; a sample without it."`
	Listen string `default:"127.0.0.1:8080" help:"Address of the API. Default: ${default}."`
}

func (c *devCmd) check(p *problems) {
	if c.File != "" {
		if _, err := os.Stat(c.File); err != nil {
			p.add("--file: %v", err)
		}
	}
}

func (c *devCmd) run(ctx context.Context, s *session) error {
	if err := s.programs.Dev(ctx, DevOptions(*c), s.stdout, s.stderr); err != nil {
		return fmt.Errorf("dev: %w", err)
	}
	return nil
}
