package drain

import (
	"context"
	"slices"
	"time"

	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

const (
	// stepSize is what a contradiction must exceed to be a step of the clock;
	// less is one clock being slewed, which new bounds follow.
	stepSize = 50 * time.Millisecond

	// A worker that a claim told of somebody else's entry looks a random time
	// after it: the first to look takes a lane whose holder is late. Looks that
	// find nothing spread further, so that many workers do not look all at
	// once. After a wake the worker that found something last looks at once.
	minSpread  = 20 * time.Millisecond
	maxSpread  = 320 * time.Millisecond
	wakeSpread = 5 * time.Millisecond
)

// reason is why a worker looks for due lanes.
type reason int

const (
	byTime  reason = iota // it has not looked for a while, or it let a lane go
	byEntry               // a claim told of somebody else's entry
	byWake                // a lane became due
)

// mayClaim says whether the worker could do anything with a lane.
func (lp *loop) mayClaim() bool {
	return !lp.stopping() && !lp.claiming && lp.senders.share(0) > 0
}

func (lp *loop) claim(now time.Duration) {
	lp.claiming = true
	if lp.woken {
		lp.why, lp.woken = byWake, false
	}
	kept, _ := slices.BinarySearch(lp.promises, now+1)
	lp.promises = slices.Delete(lp.promises, 0, kept)
	lp.first = (lp.first + 1) % redisdb.Shards
	first, views := lp.first, lp.views(now)
	lp.beside(func(ctx context.Context) event {
		req := redisdb.Monotonic()
		c, err := lp.d.store.Claim(ctx, first, queue.MaxClaim, &views)
		rep := redisdb.Monotonic()
		return func(lp *loop) { lp.claimed(c, err, now, req, rep) }
	})
}

func (lp *loop) views(now time.Duration) (views [redisdb.Shards]queue.ClockView) {
	for i := range views {
		views[i] = lp.view(i, now)
		views[i].Confirmed, views[i].Move = lp.forward[i].adj, lp.forward[i].move
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

// claimed takes in what a claim answered that was decided on at began.
func (lp *loop) claimed(c queue.Claim, err error, began, req, rep time.Duration) {
	lp.claiming = false
	if err != nil {
		lp.failure(err, rep)
		lp.nextClaim = rep + lp.jitter(backOff)
		return
	}
	lp.success(rep)
	lp.trips.add(rep - req)
	again := false
	for shard, logical := range c.Logical {
		if lp.believe(shard, c.Adj[shard], req, rep, logical) {
			again = true
		} else {
			lp.observe(shard, req, rep, logical)
		}
	}
	for _, name := range c.Lanes {
		l := lp.lane(name)
		l.holding, l.since, l.notBefore = true, rep, 0
		lp.agenda.hasten(l, rep)
	}
	lp.spreadLooks(len(c.Lanes) > 0)
	lp.nextClaim, lp.why = began+lookEvery, byTime
	if len(c.Lanes) == queue.MaxClaim || again {
		lp.nextClaim = rep
	} else if c.Wait >= 0 {
		lp.planClaim(byEntry, rep+c.Wait, lp.spread)
	}
	if len(lp.promises) > 0 {
		lp.planClaim(byTime, lp.promises[0], 0)
	}
}

// believe says whether a reply shows a step forward that is to be mended, and
// keeps what the next claim has to say for that. It is mended on a shard without
// turns too: what is pushed there counts on the time as it is.
func (lp *loop) believe(shard int, adj string, req, rep time.Duration, logical int64) bool {
	said := &lp.forward[shard]
	if said.adj != "" && micros(adj) == micros(said.adj)+said.move {
		lp.mended[shard] = mending{from: micros(said.adj), at: rep}
		lp.stepped(shard, said.move)
	}
	*said = forward{}
	step, _ := lp.clocks[shard].Step(req, rep, logical)
	switch {
	case step < stepSize:
		return false
	case lp.mended[shard].undone(adj, rep):
		lp.clocks[shard].Forget() // see turnAgain
		return false
	}
	*said = forward{adj, -step.Microseconds()}
	return true
}

// forward is a step forward that was seen: adj of the clock then, and what has
// to be added to it.
type forward struct {
	adj  string
	move int64
}

// spreadLooks lets looks that find nothing come later each time.
func (lp *loop) spreadLooks(found bool) {
	switch {
	case found && lp.why == byWake:
		lp.spread, lp.wakes = minSpread, 0
	case found:
		lp.spread = minSpread
	case lp.why == byEntry:
		lp.spread = min(2*lp.spread, maxSpread)
	case lp.why == byWake:
		lp.wakes = min(max(2*lp.wakes, wakeSpread), maxSpread)
	}
}

// planClaim looks for due lanes at a time plus a random part of spread, if that is earlier.
func (lp *loop) planClaim(why reason, at, spread time.Duration) {
	at += lp.part(spread)
	if at < lp.nextClaim {
		lp.nextClaim, lp.why = at, why
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
	lp.planClaim(byTime, at, 0)
}

// wake looks at a lane that became due: at once when it is held here.
func (lp *loop) wake(name string) {
	now := redisdb.Monotonic()
	if l := lp.lanes[name]; l != nil && l.holding {
		lp.agenda.hasten(l, now)
		return
	}
	if lp.woken {
		return // the look for the wake before is still to come
	}
	lp.woken = true
	lp.promise(now+lp.part(lp.wakes), now)
}

// part is a random part of d.
func (lp *loop) part(d time.Duration) time.Duration {
	return time.Duration(lp.d.cfg.Rand() * float64(d))
}

// jitter spreads a pause over half to one and a half of its length.
func (lp *loop) jitter(d time.Duration) time.Duration {
	return d/2 + lp.part(d)
}

// observe feeds a reply into the bounds of a shard's clock.
func (lp *loop) observe(shard int, req, rep time.Duration, logical int64) {
	step, stepped := lp.clocks[shard].Observe(req, rep, logical)
	if stepped && step.Abs() >= stepSize {
		lp.d.cfg.Metrics.clockSteps.Inc()
		lp.d.log.Warn("the clock of Redis stepped", "shard", shard, "step", step)
	}
}
