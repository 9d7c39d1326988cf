package drain

import (
	"testing"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
)

func TestNewContractIsFetchedBeforeSending(t *testing.T) {
	t.Parallel()
	for name, latency := range map[string]time.Duration{"fast": 100 * time.Microsecond, "slow": 15 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.store.latency = latency
				l := w.lane("bank", 150)
				set := func(version int64) {
					l.version = version
					l.contract = &destination.Contract{Name: "bank", MaxInFlight: int(version), Retry: l.contract.Retry}
				}
				set(1)
				changed := map[int64]time.Time{}
				w.sender.attempt = func(a *deliver.Attempt) (time.Duration, job.Outcome) {
					// A turn that ran after the change must not be sent with the old one.
					want := changed[int64(a.Contract.MaxInFlight)+1]
					if slot := l.jobs[a.Job.ID]; !want.IsZero() && slot != nil && grantedAfter(slot, want) {
						t.Errorf("sent with contract %d, granted after the change", a.Contract.MaxInFlight)
					}
					return 20 * time.Millisecond, job.OutcomeDelivered
				}
				w.start()
				for v := int64(2); v < 6; v++ {
					w.run(500 * time.Millisecond)
					w.change(func() {
						set(v)
						w.sender.mu.Lock()
						changed[v] = time.Now()
						w.sender.mu.Unlock()
					})
				}
				w.run(5 * time.Second)
				w.want(l, "delivered", 150)
				if n := len(w.seen("contract", time.Time{})); n < 5 || n > 10 {
					t.Errorf("fetched %d times for 5 versions", n)
				}
			})
		})
	}
}

// grantedAfter says whether the slot of a job can only have been granted after
// a moment: it lies further ahead than any horizon.
func grantedAfter(j *fakeJob, at time.Time) bool { return j.slot > at.Add(maxHorizon).UnixMicro() }

func TestDamagedContractMarksTheLane(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 20, func(l *fakeLane) { l.damaged = true })
		w.start()
		w.run(3 * time.Second)
		w.want(l, "ready", 20)
		if n := len(w.writes()); n != 0 {
			t.Errorf("%d writes with a damaged contract", n)
		}
		if l.marked != l.version {
			t.Errorf("marked %d, version %d", l.marked, l.version)
		}
		marks := w.seen("mark", time.Time{})
		if len(marks) == 0 || len(marks) > 3 {
			t.Errorf("marked %d times", len(marks))
		}
		w.change(func() {
			l.damaged, l.version, l.epoch = false, 2, 2
			l.due, l.planned = w.store.raw(), w.store.raw()
		})
		w.run(3 * time.Second)
		w.want(l, "delivered", 20)
	})
}

func TestContractThatCannotBeReadReleases(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 20)
		w.store.before = func(op, _ string) error {
			if op == "contract" {
				return errRefused
			}
			return nil
		}
		w.start()
		w.run(2 * time.Second)
		w.want(l, "delivered", 0)
		w.change(func() { w.store.before = nil })
		w.run(5 * time.Second)
		w.want(l, "delivered", 20)
		for _, j := range l.order {
			if j.used != 0 || j.crashes != 0 {
				t.Fatalf("%d attempts and %d crashes without one request", j.used-0, j.crashes)
			}
		}
	})
}
