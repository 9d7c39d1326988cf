package bank

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Options are the flags of `tundish bank`.
type Options struct {
	Listen     string        `default:"127.0.0.1:9090" help:"Address to listen on."`
	Rate       int64         `default:"50" help:"Requests per window."`
	Per        time.Duration `default:"1s" help:"The window."`
	Burst      int64         `default:"1" help:"A window may hold rate + burst - 1."`
	Latency    time.Duration `default:"20ms" help:"How long an answer takes."`
	Spread     time.Duration `default:"2ms" help:"Variation of the path delay to allow on top."`
	Refuse     bool          `default:"true" negatable:"" help:"Answer 429 to what is above the rate."`
	ReportFile string        `type:"path" help:"Write the report there as JSON at the end."`
}

// Run serves a bank until ctx ends, then prints its report. The first line on
// stdout says where it listens.
func Run(ctx context.Context, o Options, stdout io.Writer) error {
	spread := o.Spread
	if spread == 0 { // a flag says what it says; only a Config has a default
		spread = NoSpread
	}
	b, err := New(Config{Rate: o.Rate, Per: o.Per, Burst: o.Burst, Latency: o.Latency, Spread: spread, Refuse: o.Refuse})
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	defer b.Wait()
	defer stop()
	addr, err := b.Serve(serving, o.Listen)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "bank on http://%s: %d per %v, at most %d in any window\n",
		addr, o.Rate, o.Per, b.config.allowed())
	if err != nil {
		return fmt.Errorf("bank: %w", err)
	}
	<-ctx.Done()
	b.Wait()
	report := b.Report()
	if o.ReportFile != "" { // first, for stdout may have been closed long ago
		err = writeReport(o.ReportFile, report)
	}
	if _, errOut := fmt.Fprint(stdout, report); errOut != nil {
		err = errors.Join(err, fmt.Errorf("bank: %w", errOut))
	}
	return err
}

func writeReport(path string, r Report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("bank report: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("bank report: %w", err)
	}
	return nil
}
