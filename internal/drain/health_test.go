package drain

import (
	"strings"
	"testing"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// Who reads the log of a worker learns that a destination fell ill, of what, and
// that it is well again; and nothing of each probe between.
func TestTheLogTellsOfBreakers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		counted map[string]int64
		outcome job.Outcome
		want    string
	}{
		"fell":         {map[string]int64{queue.CountBreakerFell: 1, queue.CountBreakerOpen: 1}, job.OutcomeRefused, "its breaker is open"},
		"failed again": {map[string]int64{queue.CountBreakerOpen: 1}, job.OutcomeRefused, ""},
		"well":         {map[string]int64{queue.CountBreakerClosed: 1}, job.OutcomeDelivered, "its breaker is closed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.lane("bank", 1, func(l *fakeLane) { l.counted = tc.counted })
				w.sender.attempt = func(*deliver.Attempt) (time.Duration, job.Outcome) { return time.Millisecond, tc.outcome }
				w.start()
				w.run(900 * time.Millisecond)
				log := w.logs.String()
				if tc.want == "" && strings.Contains(log, "breaker") || !strings.Contains(log, tc.want) {
					t.Errorf("log %q, want %q", log, tc.want)
				}
				if name == "fell" && !strings.Contains(log, "destination=bank outcome=connection_refused") {
					t.Errorf("log %q does not say whose and why", log)
				}
			})
		})
	}
}
