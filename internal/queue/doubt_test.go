package queue

import (
	"testing"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

const asking = once + `,"verify":{"path":"/payouts/{key}"}`

// doubtful leases a job and leaves it in doubt.
func (b *bench) doubtful(j *job.Job) Lease {
	b.t.Helper()
	b.accept(j)
	l := b.lease(1)[0]
	if l.InDoubt {
		b.t.Fatal("a job that was never sent is in doubt")
	}
	r := result(l, KindDoubt, HealthBad)
	r.Delay = time.Second
	b.turn(0, r)
	b.pass(1100 * time.Millisecond)
	return l
}

// A doubt stays, whatever becomes of its leases, until somebody says that the job did not arrive.
func TestDoubtStays(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), asking, func(t *testing.T, b *bench) {
		b.doubtful(newJob(""))
		for _, again := range []func(Lease){
			func(l Lease) { b.turn(0, result(l, KindRelease, HealthNone)) },
			func(l Lease) { b.turn(0, throttled(l, 10*time.Millisecond, 0)); b.pass(1100 * time.Millisecond) },
			func(l Lease) { b.turn(0, result(l, KindReturn, HealthNone)) },
			func(Lease) { b.pass(17 * time.Second) },
			func(l Lease) { b.turnAs("w1", Turn{Lost: []LostCall{lostCall(b, l)}}) },
			func(l Lease) { b.turn(0, result(l, KindDoubt, HealthBad)) },
		} {
			l := b.lease(1)[0]
			if !l.InDoubt {
				t.Fatalf("the doubt is gone: %+v", l)
			}
			again(l)
			b.checkDump()
		}
		l := b.lease(1)[0]
		b.turn(0, result(l, KindRetry, HealthOK))
		if l := b.lease(1)[0]; l.InDoubt {
			t.Error("a job that did not arrive is in doubt")
		}
	})
}

// A worker that is lost behind the start leaves a doubt, where the destination can be asked.
func TestLostStartLeavesADoubt(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), asking, func(t *testing.T, b *bench) {
		j := newJob("")
		b.accept(j)
		l := b.lease(1)
		if _, err := b.s.Start(t.Context(), b.lane, destination.Memory, l); err != nil {
			t.Fatal(err)
		}
		for crash := range 2 {
			b.pass(17 * time.Second)
			if l = b.turn(1).Leases; len(l) != 1 || !l[0].InDoubt {
				t.Fatalf("lease %d: %+v", crash, l)
			}
			if crash == 0 { // its worker was only slow: nobody else has an answer
				if v := b.turn(0, delivered(l[0])).Verdicts; v[0] != "ok" || b.state(j.ID) != job.Delivered {
					t.Fatalf("%v, %s", v, b.state(j.ID))
				}
				return
			}
		}
	})
}

// What is in doubt can neither be cancelled nor expire as if it had not been sent.
func TestDoubtIsNoExpiryAndNoCancel(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), asking, func(t *testing.T, b *bench) {
		j := newJob("")
		j.ExpiresIn = 10 * time.Second
		b.doubtful(j)
		if _, err := b.s.Cancel(t.Context(), b.lane, j.ID); job.CodeOf(err) != job.CodeJobInFlight {
			t.Errorf("cancel: %v", err)
		}
		if b.mini == nil {
			return // expiry runs on the server's own time
		}
		b.pass(11 * time.Second)
		b.turn(1)
		if got := b.state(j.ID); got != job.Unknown {
			t.Errorf("expired in doubt, it is %s", got)
		}
		b.checkDump()
	})
}
