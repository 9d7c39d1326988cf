package drain

import (
	"context"
	"time"

	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// stepSize is what a contradiction must exceed to be a step of the clock;
// less is one clock being slewed, which new bounds follow.
const stepSize = 50 * time.Millisecond

// mayClaim says whether the worker could do anything with a lane.
func (lp *loop) mayClaim(g *group) bool {
	return !lp.stopping() && !g.claiming && lp.senders.share(0) > 0
}

func (lp *loop) claim(g *group, now time.Duration) {
	first, views := g.begin(now), lp.views(now)
	lp.beside(func(ctx context.Context) event {
		req := redisdb.Monotonic()
		c, err := lp.d.store.Claim(ctx, g.shards, first, queue.MaxClaim, &views)
		rep := redisdb.Monotonic()
		return func(lp *loop) { lp.claimed(g, c, err, now, req, rep) }
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
	return queue.ClockView{Expect: expect, Width: width, Slack: lp.groupOf[shard].theres.slack().Microseconds()}
}

// claimed takes in what a claim answered that was decided on at began.
func (lp *loop) claimed(g *group, c queue.Claim, err error, began, req, rep time.Duration) {
	g.claiming = false
	if err != nil {
		lp.failure(err, rep)
		g.nextClaim = rep + lp.jitter(backOff)
		return
	}
	lp.success(rep)
	g.trips.add(rep - req)
	again := false
	for _, shard := range g.shards {
		if lp.believe(shard, c.Adj[shard], req, rep, c.Logical[shard]) {
			again = true
		} else {
			lp.observe(shard, req, rep, c.Logical[shard])
		}
	}
	if shard := g.shards[0]; rep-g.learnt >= lookEvery/2 { // no turn told how long the ways are
		w := ways{}
		w.add(lp, shard, c.Logical[shard], began, req, rep)
		g.learn(w, rep)
	}
	for _, name := range c.Lanes {
		l := lp.lane(name)
		if lp.passes(l, rep) {
			continue
		}
		l.holding, l.since, l.notBefore = true, rep, 0
		g.agenda.hasten(l, rep)
	}
	g.spreadLooks(len(c.Lanes) > 0)
	g.nextClaim, g.why = began+lookEvery, byTime
	if len(c.Lanes) == queue.MaxClaim || again {
		g.nextClaim = rep
	} else if c.Wait >= 0 {
		g.planClaim(byEntry, rep+c.Wait+lp.part(g.spread))
	}
	if len(g.promises) > 0 {
		g.planClaim(byTime, g.promises[0])
	}
}

// believe says whether a reply shows a step forward that is to be mended, and
// keeps what the next claim has to say for that. It is mended on a shard without
// turns too: what is pushed there counts on the time as it is.
func (lp *loop) believe(shard int, adj string, req, rep time.Duration, logical int64) bool {
	lp.heard(shard, req, rep, logical, adj)
	said, passed := &lp.forward[shard], lp.forward[shard].adj == adj && adj != ""
	if said.adj != "" && micros(adj) == micros(said.adj)+said.move {
		lp.mended[shard] = mended(micros(said.adj), req, rep, logical-micros(adj))
		lp.stepped(shard, said.move)
	}
	*said = forward{}
	step, _ := lp.clocks[shard].Step(req, rep, logical)
	switch {
	case step < stepSize, passed: // by what the script knows it is no step: it passes as time
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

// wake looks at a lane that became due: at once when it is held here.
func (lp *loop) wake(name string) {
	now := redisdb.Monotonic()
	if l := lp.lanes[name]; l != nil && l.holding {
		l.group.agenda.hasten(l, now)
		return
	}
	g := lp.groupOf[redisdb.ShardOf(name)]
	if g.woken {
		return // the look for the wake before is still to come
	}
	g.woken = true
	g.promise(now+lp.part(g.wakes), now)
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
