package cli

import (
	"context"
	"errors"
	"io"
)

// DemoOptions are the flags of `tundish demo`.
type DemoOptions struct {
	Rate    int64 // requests per second
	Jobs    int
	Workers int
	Live    bool // the view is a terminal: its line is written over and over
}

// DemoResult is what a demo has to say, for people and for programs.
type DemoResult struct {
	Word    string // ok, failed or stopped; empty: it did not come to that
	Text    string
	Verdict any // for JSON
}

type demoCmd struct {
	Rate    string `default:"50" help:"Requests per second. Default: ${default}."`
	Jobs    string `default:"500" help:"Jobs to push. Default: ${default}."`
	Workers string `default:"3" help:"Workers that share the rate. Default: ${default}."`

	options DemoOptions
}

func (c *demoCmd) check(p *problems) {
	c.options.Rate = p.whole("--rate", c.Rate, 1, 10_000)
	c.options.Jobs = int(p.whole("--jobs", c.Jobs, 1, 1_000_000))
	c.options.Workers = int(p.whole("--workers", c.Workers, 1, 50))
}

// run shows how it goes where the verdict goes, unless a program reads that.
func (c *demoCmd) run(ctx context.Context, s *session) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	view := &view{w: s.stderr, broken: cancel}
	if s.flags.Output == formTable {
		view.w = s.stdout
	}
	c.options.Live = terminal(view.w)
	if s.flags.Quiet {
		view.w = io.Discard
	}
	r, err := s.programs.Demo(ctx, c.options, view)
	if err != nil && ctx.Err() != nil {
		err = why(ctx)
	}
	if r.Word == "" {
		return err
	}
	if s.flags.Output == formTable {
		return errors.Join(s.write([]byte(r.Text)), err)
	}
	return errors.Join(s.show(output{json: encode(r.Verdict), names: []string{r.Word}}), err)
}

// view is where a demo shows how it goes; when nobody looks any longer, it is over.
type view struct {
	w      io.Writer
	broken context.CancelCauseFunc
}

func (v *view) Write(p []byte) (int, error) {
	n, err := v.w.Write(p)
	if err != nil {
		v.broken(&outputError{err})
	}
	return n, err
}
