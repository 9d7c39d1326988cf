package queue

import (
	"testing"

	"tundish/internal/job"
)

func TestEnded(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(50), "", func(t *testing.T, b *bench) {
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
