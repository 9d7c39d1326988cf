package drain

import (
	"container/heap"
	"context"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// event is something that happened beside the loop.
type event func(*loop)

// loop owns the state of a worker. Only its goroutine touches it.
type loop struct {
	d      *Drain
	clocks [redisdb.Shards]redisdb.Clock
	lanes  map[string]*lane
	agenda agenda
	call   uint64
	turns  int // pipelines under way
	used   int // senders in use
	trips  trips

	claiming  bool
	nextClaim time.Duration
	first     int             // shard to begin the next claim with
	spread    time.Duration   // by which a look at somebody else's entry is put off at random
	told      bool            // the next claim is for an entry that a claim told of
	promises  []time.Duration // moments at or after which a claim must begin, sorted

	stopBy time.Duration // end of the grace; never: not stopping
	cut    bool
}

func newLoop(d *Drain) *loop {
	return &loop{d: d, lanes: map[string]*lane{}, spread: minSpread, stopBy: never}
}

func (lp *loop) run() {
	defer close(lp.d.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := lp.d.stopCh
	for {
		select {
		case e := <-lp.d.events:
			e(lp)
			lp.drainEvents()
		case name := <-lp.d.cfg.Wake:
			lp.wake(name)
		case <-timer.C:
		case <-stop:
			stop = nil
			lp.beginStop()
		}
		now := redisdb.Monotonic()
		lp.d.lastLoop.Store(time.Now().UnixNano())
		lp.step(now)
		if lp.stopped(now) {
			lp.d.busy.Wait()
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
		due := lp.due(now)
		if len(due) == 0 {
			break
		}
		lp.turn(due, now)
	}
	if lp.mayClaim() && now >= lp.nextClaim {
		lp.claim(now)
	}
}

// due takes the lanes whose turn has come from the agenda.
func (lp *loop) due(now time.Duration) []*lane {
	var due []*lane
	for len(due) < queue.MaxClaim && len(lp.agenda) > 0 && lp.agenda[0].next <= now {
		l := heap.Pop(&lp.agenda).(*lane)
		l.next = never
		if l.turning {
			l.again = true
			continue
		}
		due = append(due, l)
	}
	return due
}

func (lp *loop) until(now time.Duration) time.Duration {
	at := now + lookEvery
	if lp.mayClaim() {
		at = min(at, lp.nextClaim)
	}
	if len(lp.agenda) > 0 && lp.turns < pipelines {
		at = min(at, lp.agenda[0].next)
	}
	if lp.stopBy != never && !lp.cut {
		at = min(at, lp.stopBy)
	}
	return max(0, at-now)
}

// lane finds or makes the state of a lane.
func (lp *loop) lane(name string) *lane {
	l := lp.lanes[name]
	if l == nil {
		l = &lane{name: name, shard: redisdb.ShardOf(name), index: -1, next: never}
		lp.lanes[name] = l
	}
	return l
}

// forget drops a lane of which nothing is left.
func (lp *loop) forget(l *lane) {
	if l.idle() {
		lp.agenda.plan(l, never)
		delete(lp.lanes, l.name)
	}
}

func (lp *loop) wake(name string) {
	now := redisdb.Monotonic()
	if l := lp.lanes[name]; l != nil && l.holding {
		lp.agenda.hasten(l, now)
		return
	}
	lp.promise(now, now)
	lp.told = false
}

func (lp *loop) beginStop() {
	lp.stopBy = redisdb.Monotonic() + lp.d.cfg.StopGrace
	for _, l := range lp.lanes {
		l.holding = false
		if len(l.results) == 0 && len(l.lost) == 0 {
			lp.agenda.plan(l, never)
		}
	}
}

// stopped says whether a stopping worker is through, and cuts what outlives the grace.
func (lp *loop) stopped(now time.Duration) bool {
	if lp.stopBy == never {
		return false
	}
	for _, l := range lp.lanes {
		l.lost = nil // their deadline brings them back
		if len(l.results) > 0 && !l.turning && l.next == never {
			lp.agenda.plan(l, now)
		}
		lp.forget(l)
	}
	if lp.used == 0 && lp.turns == 0 && !lp.claiming && len(lp.lanes) == 0 {
		return true
	}
	if now < lp.stopBy {
		return false
	}
	if !lp.cut {
		lp.cut = true
		lp.d.cutOff(deliver.ErrStopped)
	}
	// What Redis does not take by now comes back at its deadline.
	return now >= lp.stopBy+2*time.Second && lp.used == 0 && lp.turns == 0
}

// beside runs f in a goroutine; the event it returns comes back to the loop.
func (lp *loop) beside(f func(ctx context.Context) event) {
	lp.d.busy.Go(func() {
		lp.d.post(f(context.WithoutCancel(lp.d.cut)))
	})
}

// post hands an event to the loop, or drops it when the loop has ended.
func (d *Drain) post(e event) {
	select {
	case d.events <- e:
	case <-d.done:
	}
}
