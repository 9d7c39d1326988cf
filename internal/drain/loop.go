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
	agenda     agenda
	call       uint64
	turns      int // pipelines under way
	senders    senders
	trips      trips
	lags       lags
	health     health

	claiming  bool
	nextClaim time.Duration
	why       reason          // of the next claim, or of that under way
	woken     bool            // a lane became due since the last claim began
	first     int             // shard to begin the next claim with
	spread    time.Duration   // by which a look at somebody else's entry is put off at random
	wakes     time.Duration   // by which a look after a wake is put off at random
	promises  []time.Duration // moments at or after which a claim must begin, sorted

	stopBy time.Duration // end of the grace; never: not stopping
	cut    bool
}

func newLoop(d *Drain) *loop {
	now := redisdb.Monotonic()
	return &loop{d: d, lanes: map[string]*lane{}, nextForget: now + remembered, nextClaim: now,
		senders: senders{total: d.cfg.Concurrency}, spread: minSpread, stopBy: never}
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

// step starts what is due: turns, then a claim.
func (lp *loop) step(now time.Duration) {
	for lp.turns < pipelines {
		lanes, turns := lp.due(now)
		if len(lanes) == 0 {
			break
		}
		lp.turn(lanes, turns)
	}
	if lp.mayClaim() && now >= lp.nextClaim {
		lp.claim(now)
	}
}

// due takes the lanes whose turn has come from the agenda. It stops at one
// whose senders have to be waited for.
func (lp *loop) due(now time.Duration) (lanes []*lane, turns []queue.Turn) {
	for len(lanes) < queue.MaxClaim && len(lp.agenda) > 0 && lp.agenda[0].next <= now && !lp.blocked() {
		l := heap.Pop(&lp.agenda).(*lane)
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
func (lp *loop) blocked() bool {
	l := lp.agenda[0]
	return lp.turns >= pipelines || l.holding && !l.turning && !lp.stopping() && lp.senders.spoken(l.busy)
}

func (lp *loop) until(now time.Duration) time.Duration {
	at := now + lookEvery
	if lp.mayClaim() {
		at = min(at, lp.nextClaim)
	}
	if len(lp.agenda) > 0 && !lp.blocked() {
		at = min(at, lp.agenda[0].next)
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
