package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"tundish/internal/destination"
)

// The exit codes.
const (
	exitDone       = 0
	exitFailed     = 1
	exitUsage      = 2 // bad usage or config
	exitDifferent  = 3 // a dry run found what it would change
	exitNotAllowed = 4
	exitRefused    = 5 // some jobs were refused
	exitTimedOut   = 6
)

// Programs are the commands that bring their own system instead of talking to
// the API. A command whose function is nil does not exist.
type Programs struct {
	// Version of the program; empty: "dev".
	Version string
	// Demo shows on view how it goes. What it answers counts also with an error.
	Demo func(ctx context.Context, o DemoOptions, view io.Writer) (DemoResult, error)
	Dev  func(ctx context.Context, o DevOptions, stdout, stderr io.Writer) error
}

// Main is Programs.Main without commands that bring their own system.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return Programs{}.Main(args, stdin, stdout, stderr)
}

// Main runs one command line, without the name of the program, and gives the
// exit code. SIGINT and SIGTERM end the command; a second one ends the process.
func (p Programs) Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// When nobody reads any longer, the writes fail, and what was begun is cleaned up.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, args, &session{
		programs: p, stdin: stdin, stdout: stdout, stderr: stderr,
		getenv: os.Getenv, now: time.Now, sleep: sleep, linger: linger,
	})
}

// session is one run of the command line and what it meets outside.
type session struct {
	programs Programs
	stdin    io.Reader
	stdout   io.Writer
	stderr   io.Writer
	getenv   func(string) string
	now      func() time.Time
	sleep    func(ctx context.Context, d time.Duration) error
	linger   time.Duration // how long a batch waits for a slow stream to fill it

	flags *flags
	api   *client
}

// command is what each command does. check reports every bad value before
// anything is done.
type command interface {
	check(p *problems)
	run(ctx context.Context, s *session) error
}

// remote marks the commands that talk to the API.
type remote struct{}

func (remote) needsAPI() {}

// exited carries the code of --help, which kong ends the program with, up to run.
type exited int

func run(ctx context.Context, args []string, s *session) (code int) {
	defer func() {
		reason := recover()
		if e, ok := reason.(exited); ok {
			code = int(e)
		} else if reason != nil {
			panic(reason)
		}
	}()
	err := s.do(ctx, args)
	if err != nil && !nobodyReads(err) {
		report(s.stderr, err)
	}
	return exitCode(err)
}

// do finds the command, checks its flags and runs it.
func (s *session) do(ctx context.Context, args []string) error {
	// kong would put other bytes right, and so push another body than the one given.
	if slices.ContainsFunc(args, func(a string) bool { return !utf8.ValidString(a) }) {
		return &usageError{[]string{"an argument is not UTF-8; push other bytes with --file, as body_base64"}}
	}
	var g grammar
	s.flags = &g.flags
	options := []kong.Option{
		kong.Name("tundish"), kong.Description(description),
		kong.Writers(s.stdout, s.stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.Resolvers(environment(s.getenv)),
		kong.ExplicitGroups([]kong.Group{{Key: "always", Title: "Flags of every command:"}}),
	}
	options = append(options, s.programs.commands()...)
	parser, err := kong.New(&g, options...)
	if err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	if slices.Equal(args, []string{"--version"}) { // what most programs know
		args = []string{"version"}
	}
	chosen, err := parser.Parse(joined(parser, args))
	if err != nil {
		return &usageError{[]string{err.Error() + "; see tundish --help"}}
	}
	cmd, ok := chosen.Selected().Target.Addr().Interface().(command)
	if !ok {
		return fmt.Errorf("command line: %s does nothing", chosen.Command())
	}
	return s.perform(ctx, cmd)
}

func (s *session) perform(ctx context.Context, cmd command) error {
	var p problems
	s.flags.check(&p)
	cmd.check(&p)
	if _, ok := cmd.(interface{ needsAPI() }); ok {
		s.api = newClient(s.flags, s.getenv, &p)
	}
	if err := p.err(); err != nil {
		return err
	}
	if s.flags.Timeout != "" {
		d, _ := destination.ParseDuration(s.flags.Timeout) // check has looked
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, &timedOut{"the command", d})
		defer cancel()
	}
	return cmd.run(ctx, s)
}

// talk tells people what goes on; -q silences it.
func (s *session) talk(format string, args ...any) {
	if !s.flags.Quiet {
		fmt.Fprintf(s.stderr, format+"\n", args...)
	}
}

// sleep waits for d, or fails when ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
