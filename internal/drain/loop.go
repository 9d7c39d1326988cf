package drain

import (
	"container/heap"
	"context"
	"time"

	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// event is something that happened beside the loop.
type event func(*loop)

// loop owns the state of a worker. Only its goroutine touches it.
type loop struct {
	d          *Drain
	clocks     [redisdb.Shards]redisdb.Clock
	mended     [redisdb.Shards]mending
	forward    [redisdb.Shards]forward // steps that the next claim confirms
	lanes      map[string]*lane
	live       int // lanes with something left to do
	nextForget time.Duration
	groups     []*group
	groupOf    [redisdb.Shards]*group
	call       uint64
	senders    senders
	lags       lags
	health     health

	stopBy time.Duration // end of the grace; never: not stopping
	cut    bool
}

func newLoop(d *Drain) *loop {
	now := redisdb.Monotonic()
	lp := &loop{d: d, lanes: map[string]*lane{}, nextForget: now + remembered,
		senders: senders{total: d.cfg.Concurrency}, stopBy: never}
	for _, shards := range d.store.Groups() {
		g := &group{shards: shards, nextClaim: now, spread: minSpread}
		lp.groups = append(lp.groups, g)
		for _, shard := range shards {
			lp.groupOf[shard] = g
		}
	}
	return lp
}

func (lp *loop) run() {
	defer close(lp.d.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop, wake := lp.d.stopCh, lp.d.cfg.Wake
	for {
		select {
		case e := <-lp.d.events:
			e(lp)
			lp.drainEvents()
		case name, open := <-wake:
			if !open {
				wake = nil
				break
			}
			lp.wake(name)
		case <-timer.C:
		case <-stop:
			stop = nil
			lp.beginStop()
		}
		now := redisdb.Monotonic()
		lp.d.lastLoop.Store(time.Now().UnixNano())
		lp.step(now)
		lp.forget(now)
		if lp.stopped(now) {
			lp.d.crew.wait()
			return
		}
		timer.Reset(lp.until(now))
	}
}

// drainEvents takes what else is at hand, so that one step serves many results.
func (lp *loop) drainEvents() {
	for range cap(lp.d.events) {
		select {
		case e := <-lp.d.events:
			e(lp)
		default:
			return
		}
	}
}

// step starts what is due: turns, then claims.
func (lp *loop) step(now time.Duration) {
	for _, g := range lp.groups {
		for g.turns < pipelines {
			lanes, turns := lp.due(g, now)
			if len(lanes) == 0 {
				break
			}
			lp.turn(g, lanes, turns, now)
		}
		if lp.mayClaim(g) && now >= g.claimAt() {
			lp.claim(g, now)
		}
	}
}

// due takes the lanes whose turn has come from the agenda. It stops at one
// whose senders have to be waited for.
func (lp *loop) due(g *group, now time.Duration) (lanes []*lane, turns []queue.Turn) {
	for len(lanes) < turnsAtOnce && len(g.agenda) > 0 && g.agenda[0].next <= now && !lp.blocked(g) {
		l := heap.Pop(&g.agenda).(*lane)
		l.next = never
		if l.turning {
			l.again = true
			continue
		}
		lanes = append(lanes, l)
		turns = append(turns, lp.prepare(l, now))
	}
	return lanes, turns
}

// blocked says that the first lane waits for the reply of a turn under way.
func (lp *loop) blocked(g *group) bool {
	l := g.agenda[0]
	return g.turns >= pipelines || l.holding && !l.turning && !lp.stopping() && lp.spoken(l)
}

func (lp *loop) until(now time.Duration) time.Duration {
	at := now + lookEvery
	for _, g := range lp.groups {
		if lp.mayClaim(g) {
			at = min(at, g.claimAt())
		}
		if len(g.agenda) > 0 && !lp.blocked(g) {
			at = min(at, g.agenda[0].next)
		}
	}
	if lp.stopping() && !lp.cut {
		at = min(at, lp.stopBy)
	}
	return max(0, at-now)
}

// beside runs f in a goroutine; the event it returns comes back to the loop.
func (lp *loop) beside(f func(ctx context.Context) event) {
	lp.d.crew.run(func() {
		lp.d.events <- f(context.WithoutCancel(lp.d.cut))
	})
}
