package drain

import (
	"context"
	"slices"
	"time"

	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// A worker that a claim told of somebody else's entry looks a random time
// after it: the first to look takes a lane whose holder is late. Looks that
// find nothing spread further, so that many workers do not look all at once.
const (
	// stepSize is what a contradiction must exceed to be a step of the clock;
	// less is one clock being slewed, which new bounds follow.
	stepSize = 50 * time.Millisecond

	minSpread = 20 * time.Millisecond
	maxSpread = 240 * time.Millisecond
)

func (lp *loop) mayClaim() bool {
	return lp.stopBy == never && !lp.claiming && lp.used < lp.d.cfg.Concurrency
}

func (lp *loop) claim(now time.Duration) {
	lp.claiming = true
	kept, _ := slices.BinarySearch(lp.promises, now+1)
	lp.promises = slices.Delete(lp.promises, 0, kept)
	lp.first = (lp.first + 1) % redisdb.Shards
	first, views := lp.first, lp.views(now)
	lp.beside(func(ctx context.Context) event {
		req := redisdb.Monotonic()
		c, err := lp.d.store.Claim(ctx, first, queue.MaxClaim, &views)
		rep := redisdb.Monotonic()
		return func(lp *loop) { lp.claimed(c, err, req, rep) }
	})
}

func (lp *loop) views(now time.Duration) (views [redisdb.Shards]queue.ClockView) {
	for i := range views {
		views[i] = lp.view(i, now)
	}
	return views
}

func (lp *loop) view(shard int, now time.Duration) queue.ClockView {
	expect, width, ok := lp.clocks[shard].Expect(now)
	if !ok {
		return queue.ClockView{}
	}
	return queue.ClockView{Expect: expect, Width: width}
}

func (lp *loop) claimed(c queue.Claim, err error, req, rep time.Duration) {
	lp.claiming = false
	lp.d.setTrouble(err)
	if err != nil {
		lp.nextClaim = rep + lp.jitter(backOff)
		return
	}
	lp.trips.add(rep - req)
	for shard, logical := range c.Logical {
		// A step forward is believed and mended only by a turn, which comes next
		// for every lane that looks due because of it.
		if step, _ := lp.clocks[shard].Step(req, rep, logical); step < stepSize {
			lp.observe(shard, req, rep, logical)
		}
	}
	for _, name := range c.Lanes {
		l := lp.lane(name)
		l.holding, l.since = true, rep
		lp.agenda.hasten(l, rep)
	}
	switch {
	case len(c.Lanes) > 0:
		lp.spread = minSpread
	case lp.told:
		lp.spread = min(2*lp.spread, maxSpread)
	}
	lp.nextClaim, lp.told = rep+lookEvery, false
	if len(c.Lanes) == queue.MaxClaim {
		lp.nextClaim = rep
	} else if c.Wait >= 0 {
		lp.planClaim(rep+c.Wait, lp.spread)
	}
	if len(lp.promises) > 0 {
		lp.nextClaim = min(lp.nextClaim, lp.promises[0])
	}
}

// promise plans a claim that begins no earlier than at. One that is under way
// or comes before may run too early to see what is due then, and must not put
// it off. What is further away a claim tells of in time.
func (lp *loop) promise(at, now time.Duration) {
	if at > now+lookEvery {
		return
	}
	i, _ := slices.BinarySearch(lp.promises, at)
	lp.promises = slices.Insert(lp.promises, i, at)
	lp.nextClaim = min(lp.nextClaim, at)
}

// planClaim looks for due lanes at a time plus a random part of spread, if that is earlier.
func (lp *loop) planClaim(at, spread time.Duration) {
	at += time.Duration(lp.d.cfg.Rand() * float64(spread))
	if at < lp.nextClaim {
		lp.nextClaim, lp.told = at, true
	}
}

// jitter spreads a pause over half to one and a half of its length.
func (lp *loop) jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(lp.d.cfg.Rand()*float64(d))
}

// observe feeds a reply into the bounds of a shard's clock.
func (lp *loop) observe(shard int, req, rep time.Duration, logical int64) {
	step, stepped := lp.clocks[shard].Observe(req, rep, logical)
	if stepped && step.Abs() >= stepSize {
		lp.d.cfg.Metrics.clockSteps.Inc()
		lp.d.log.Warn("the clock of Redis stepped", "shard", shard, "step", step)
	}
}
