package queue

import (
	"maps"
	"testing"
	"time"

	"tundish/internal/job"
)

// A job that a script ended is shown as it was, with the attempts it had.
func TestExpiredJobIsShownAsItWas(t *testing.T) {
	t.Parallel()
	for _, tried := range []bool{false, true} {
		b := openBench(t, "miniredis")
		now := time.UnixMicro(1_790_000_000_000_000)
		b.mini.SetTime(now)
		b.apply(perSecond(fast), "")
		j := newJob("tenant")
		j.Priority, j.ExpiresIn, j.Metadata, j.Producer = 2, 10*time.Second, map[string]string{"order": "77"}, "shop"
		j.CreatedAt = now.UTC()
		b.accept(j)
		if tried {
			l := b.turn(1).Leases[0]
			note := DecodeNote(l.History)
			note.Add(job.Attempt{Number: 1, Outcome: job.OutcomeServerError})
			b.turn(0, Result{ID: l.ID, Token: l.Token, Kind: KindRetry, Delay: time.Minute, Note: note.Encode(), Counts: true})
		}
		b.mini.SetTime(now.Add(11 * time.Second))
		b.turn(0)
		st, err := b.s.Job(t.Context(), b.lane, j.ID)
		if err != nil || st.State != job.Expired {
			t.Fatalf("%+v, %v", st, err)
		}
		if st.Tenant != "tenant" || st.Priority != 2 || st.Producer != "shop" || !maps.Equal(st.Metadata, j.Metadata) ||
			!st.CreatedAt.Equal(now) || !st.ExpiresAt.Equal(now.Add(j.ExpiresIn)) || (len(st.Attempts) == 1) != tried {
			t.Errorf("tried %v: %+v", tried, st)
		}
	}
}
