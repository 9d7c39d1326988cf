package background

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tundish/internal/redistest"
)

// logged is what was written at info level and above, in lines without their time.
func logged(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		lines = append(lines, line)
	}
	return lines
}

// asynq speaks a level lower, and what it repeats is said once.
func TestAsynqRepeatsItselfInVain(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	l := newLogger(slog.New(slog.NewTextHandler(&out, nil)))
	at := time.Unix(1_800_000_000, 0)
	l.now = func() time.Time { return at }
	for i := range 600 {
		at = at.Add(time.Second)
		l.Error("Dequeue error: OOM command not allowed, client 127.0.0.1:", 4000+i)
		l.Warn("Quitting worker. task id=sweep:", i)
		l.Info("Starting processing")
	}
	at = at.Add(sayAgain)
	l.Error("Dequeue error: OOM command not allowed, client 127.0.0.1:", 1)
	got := logged(out.String())
	if len(got) != 3 || !strings.HasPrefix(got[0], "level=WARN") || !strings.Contains(got[0], "Dequeue") || !strings.HasPrefix(got[1], "level=INFO") ||
		!strings.HasPrefix(got[2], "level=WARN") {
		t.Errorf("logged %q", got)
	}
	for i := range 10 * maxSaid {
		l.Warn("kind " + strings.Repeat("x", i))
	}
	if len(l.said) > maxSaid {
		t.Errorf("%d kinds are remembered", len(l.said))
	}
}

// Failures of sweeps are told once per kind, and none is one for asynq.
func TestSweepsThatFailAreToldOnce(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := &failing{}
	b := New(Config{Namespace: redistest.Namespace(t), Sweeper: s, Logger: slog.New(slog.NewTextHandler(&out, nil))}, redistest.Shared(t).Client(t))
	full := errors.New("no memory")
	for _, err := range []error{full, full, full, redis.ErrPoolTimeout, redis.ErrPoolTimeout, nil, nil, full} {
		s.err = err
		if err := b.sweep(t.Context(), nil); err != nil {
			t.Errorf("asynq is told %v", err)
		}
	}
	got := logged(out.String())
	if len(got) != 4 || !strings.Contains(got[0], "kind=other") || !strings.Contains(got[1], "kind=pool") || !strings.Contains(got[2], "again") || !strings.Contains(got[3], "kind=other") {
		t.Errorf("logged %q", got)
	}
}
