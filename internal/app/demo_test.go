package app

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestDemoDeliversAllAtTheRate(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r, err := RunDemo(t.Context(), DemoOptions{Rate: 50, Jobs: 100, Workers: 3}, &out)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), r.Text)
	}
	if !strings.Contains(out.String(), "told to wait") || !strings.Contains(r.Text, "verdict: OK") {
		t.Errorf("the demo does not show refusals, or no verdict:\n%s%s", out.String(), r.Text)
	}
	v, ok := r.Verdict.(demoVerdict)
	if !ok || r.Word != "ok" || v.Delivered != 100 || v.Twice != 0 || v.ToldToWait == 0 || v.WrittenBound != 50 {
		t.Errorf("%+v", r)
	}
	t.Log(out.String() + r.Text)
}

// A demo that is stopped ends cleanly, says why, and what was delivered until then.
func TestDemoStopped(t *testing.T) {
	t.Parallel()
	reason := errors.New("enough")
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	view := &untilLine{line: regexp.MustCompile(`at the bank +[1-9]`), stop: func() { stop(reason) }}
	r, err := RunDemo(ctx, DemoOptions{Rate: 50, Jobs: 5000, Workers: 2}, view)
	if !errors.Is(err, reason) {
		t.Fatalf("%v, want %v", err, reason)
	}
	v, ok := r.Verdict.(demoVerdict)
	if !ok || r.Word != "stopped" || v.Delivered == 0 || v.Delivered >= 5000 || len(v.Reasons) > 0 {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(r.Text, "of 5000 jobs delivered so far, 0 of them twice") {
		t.Errorf("%q", r.Text)
	}
}

// untilLine calls stop when a line that it waits for was written.
type untilLine struct {
	line *regexp.Regexp
	stop func()
}

func (u *untilLine) Write(p []byte) (int, error) {
	if u.line.Match(p) {
		u.stop()
	}
	return len(p), nil
}
