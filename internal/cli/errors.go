package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// problems gathers what is wrong with a command line.
type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

func (p *problems) err() error {
	if len(*p) == 0 {
		return nil
	}
	return &usageError{*p}
}

func (p *problems) duration(flag, text string) time.Duration {
	d, err := destination.ParseDuration(text)
	if err == nil && d == 0 {
		err = errors.New("it must be longer than nothing")
	}
	if err != nil {
		p.add("%s: %v", flag, err)
	}
	return d
}

// whole reads a whole number in a range.
func (p *problems) whole(flag, text string, low, high int64) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		p.add("%s: %q is not a whole number from %d to %d", flag, text, low, high)
	}
	return n
}

// usageError is a command line or a file that cannot be used: every problem.
type usageError struct{ problems []string }

func (e *usageError) Error() string { return strings.Join(e.problems, "\n") }

// failure is an end with a code of its own.
type failure struct {
	code int
	text string // empty: all has been said
}

func (e *failure) Error() string { return e.text }

// timedOut is the cause when a time limit ends what is done.
type timedOut struct {
	what  string
	after time.Duration
}

func (e *timedOut) Error() string {
	return fmt.Sprintf("%s timed out after %s", e.what, destination.FormatDuration(e.after))
}

// errInterrupted stands for the bare cancellation that a signal brings.
var errInterrupted = errors.New("interrupted")

// why is the reason for which ctx ended.
func why(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return errInterrupted
}

// exitCode maps an error to what the process ends with.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	if a, ok := errors.AsType[*apiError](err); ok {
		return a.exitCode()
	}
	if _, ok := errors.AsType[*timedOut](err); ok || errors.Is(err, context.DeadlineExceeded) {
		return exitTimedOut
	}
	if e, ok := errors.AsType[*job.Error](err); ok && e.Code.Status() < http.StatusInternalServerError {
		return exitUsage
	}
	return exitFailed
}

// report prints an error, each of its lines after the program's name.
func report(w io.Writer, err error) {
	text := err.Error()
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintln(w, "tundish: "+line)
	}
}
