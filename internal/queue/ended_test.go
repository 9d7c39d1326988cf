package queue

import (
	"testing"

	"tundish/internal/job"
)

func TestEnded(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, backend)
			b.apply(perSecond(50), "")
			j := newJob("")
			b.accept(j)
			ended := func() bool {
				t.Helper()
				ended, err := b.s.Ended(t.Context(), b.lane, j.ID)
				if err != nil {
					t.Fatal(err)
				}
				return ended
			}
			if ended() {
				t.Error("a ready job has ended")
			}
			lease := b.turn(1).Leases[0]
			if ended() {
				t.Error("a leased job has ended")
			}
			b.turn(0, delivered(lease))
			if !ended() {
				t.Error("a delivered job has not ended")
			}
			if _, err := b.s.Ended(t.Context(), "No Lane", j.ID); job.CodeOf(err) != job.CodeDestinationNotFound {
				t.Errorf("%v", err)
			}
		})
	}
}
