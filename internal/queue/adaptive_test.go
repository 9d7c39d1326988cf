package queue

import (
	"math"
	"testing"
	"time"
)

const following = `"adaptive":{"enabled":true,"floor":100},"breaker":{"failures":3,"open_for":"2s","max_open_for":"5s"}`

// share is what part of its rate the lane is sent.
func (b *bench) share() float64 { return b.live().RatePerSecond / (1000 / 1.005) }

func (b *bench) wantShare(want float64) {
	b.t.Helper()
	if got := b.share(); math.Abs(got-want) > 0.001 {
		b.t.Fatalf("a share of %.3f, want %.3f", got, want)
	}
}

func TestAdaptiveRateFollowsTheDestination(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), following, func(t *testing.T, b *bench) {
		b.accept(newJobs(200, "")...)
		b.wantShare(1)
		leases := b.lease(3)
		b.turn(0, result(leases[0], KindDelivered, HealthOK))
		b.wantShare(1)
		// Two answers of one round cut once.
		b.turn(0, result(leases[1], KindDelivered, HealthSlow), bad(leases[2]))
		b.wantShare(0.5)
		b.pass(time.Second)
		spaced := b.lease(10)
		if gap := spaced[9].Slot - spaced[8].Slot; gap < 2000 || gap > 2020 {
			t.Errorf("slots %d µs apart at half of 1,000 a second", gap)
		}
		b.pass(time.Second)
		var ends []Result
		for _, l := range append(spaced, b.lease(10)...) {
			ends = append(ends, result(l, KindDelivered, HealthOK))
		}
		b.turn(0, ends...) // one step a round, of which there were two, however many answers
		b.wantShare(0.6)
		for range 8 {
			b.pass(1100 * time.Millisecond)
			b.turn(0, result(b.lease(1)[0], KindDelivered, HealthOK))
		}
		b.wantShare(1)
		b.pass(time.Second)
		full := b.lease(10)
		if gap := full[9].Slot - full[8].Slot; gap < 1000 || gap > 1010 {
			t.Errorf("slots %d µs apart at 1,000 a second", gap)
		}
		b.checkDump()
	})
}

func TestAdaptiveRateHasAFloor(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), following, func(t *testing.T, b *bench) {
		b.accept(newJobs(200, "")...)
		for _, want := range []float64{0.5, 0.25, 0.125, 0.1, 0.1} {
			b.turn(0, result(b.lease(1)[0], KindDelivered, HealthSlow))
			b.wantShare(want)
			b.pass(time.Second)
		}
		b.checkDump()
	})
}

// Behind an outage it begins at the floor and doubles.
func TestAdaptiveRateStartsSlowly(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), following, func(t *testing.T, b *bench) {
		b.broken(100, 0)
		b.pass(2100 * time.Millisecond)
		b.turn(0, result(b.lease(1)[0], KindDelivered, HealthOK))
		for _, want := range []float64{0.1, 0.2, 0.4, 0.8, 1} {
			b.wantShare(want)
			b.pass(1100 * time.Millisecond)
			b.turn(0, result(b.lease(1)[0], KindDelivered, HealthOK))
		}
		b.checkDump()
	})
}

func TestFixedRateStaysAsItIs(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), `"breaker":{"failures":0}`, func(t *testing.T, b *bench) {
		b.accept(newJobs(20, "")...)
		for range 3 {
			b.turn(0, bad(b.lease(1)[0]))
		}
		b.wantShare(1)
	})
}

// A share that an earlier contract left is within the bounds of the one in force.
func TestAdaptiveRateObeysANewFloor(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), following, func(t *testing.T, b *bench) {
		b.accept(newJobs(20, "")...)
		for range 4 {
			b.turn(0, result(b.lease(1)[0], KindDelivered, HealthSlow))
			b.pass(time.Second)
		}
		b.wantShare(0.1)
		b.apply(perSecond(1000), `"adaptive":{"enabled":true,"floor":400}`)
		b.wantShare(0.4)
		spaced := b.lease(3)
		if gap := spaced[2].Slot - spaced[1].Slot; gap < 2500 || gap > 2520 {
			t.Errorf("slots %d µs apart at 400 a second", gap)
		}
	})
}

// What a turn hands out with the news of a failure goes at the new rate, and is an answer to it.
func TestAdaptiveRateIsCutAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(1000), following, func(t *testing.T, b *bench) {
		b.accept(newJobs(60, "")...)
		r := b.turn(10, result(b.lease(1)[0], KindDelivered, HealthSlow))
		if len(r.Leases) != 10 {
			t.Fatalf("%d leases, %s", len(r.Leases), r.Why)
		}
		if gap := r.Leases[9].Slot - r.Leases[8].Slot; gap < 2000 || gap > 2020 {
			t.Errorf("slots %d µs apart at half of 1,000 a second", gap)
		}
		b.wantShare(0.5)
		b.checkDump()
	})
}

// A daily average beside a rate is not what the destination is spaced out by.
func TestAdaptiveRateFollowsTheLimitThatSpaces(t *testing.T) {
	t.Parallel()
	limits := `{"name":"day","algorithm":"token_bucket","rate":40000,"per":"1d","burst":40000},` + perSecond(50)
	onBoth(t, limits, `"adaptive":{"enabled":true,"floor":5}`, func(t *testing.T, b *bench) {
		b.accept(newJobs(50, "")...)
		b.turn(0, result(b.lease(1)[0], KindDelivered, HealthSlow))
		b.pass(time.Second)
		l := b.lease(5)
		if gap := l[4].Slot - l[3].Slot; gap < 40_000 || gap > 40_500 {
			t.Errorf("slots %d µs apart at half of 50 a second", gap)
		}
		b.checkDump()
	})
}
