package drain

import (
	"context"
	"time"

	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// turn sends the turns of some lanes in one pipeline.
func (lp *loop) turn(lanes []*lane, now time.Duration) {
	turns := make([]queue.Turn, len(lanes))
	for i, l := range lanes {
		l.turning = true
		turns[i] = lp.prepare(l, now)
	}
	lp.turns++
	lp.beside(func(ctx context.Context) event {
		req := redisdb.Monotonic()
		replies := lp.d.store.Turns(ctx, lp.d.cfg.Worker, turns)
		rep := redisdb.Monotonic()
		return func(lp *loop) {
			lp.turns--
			lp.trips.add(rep - req)
			for i, l := range lanes {
				lp.turned(l, &turns[i], &replies[i], req, rep)
			}
		}
	})
}

// prepare makes the turn of a lane and takes its results along.
func (lp *loop) prepare(l *lane, now time.Duration) queue.Turn {
	lp.call++
	t := queue.Turn{Lane: l.name, Call: lp.call, Lost: l.lost, Clock: lp.view(l.shard, now), MyLast: l.myLast,
		Lead: lp.trips.lead(), Ahead: lp.trips.horizon()}
	t.Clock.Confirmed, t.Clock.Move = l.confirmed, l.move
	if l.holding {
		t.Want, t.Short = lp.allowed(l)
		t.Keep = now-l.since < keepFor && !t.Short
	}
	n := min(len(l.results), queue.MaxResults)
	t.Result, l.results = l.results[:n:n], l.results[n:]
	return t
}

// allowed is how many senders a lane may get: it may hold at most as many as
// are free, so that lanes which hang never take all.
func (lp *loop) allowed(l *lane) (want int, short bool) {
	room := lp.d.cfg.Concurrency - lp.used - l.busy
	return min(max(room, 0), queue.MaxLease), room < queue.MaxLease
}

func (lp *loop) turned(l *lane, t *queue.Turn, r *queue.TurnReply, req, rep time.Duration) {
	l.turning = false
	lp.d.setTrouble(r.Err)
	switch {
	case r.Err != nil:
		lp.turnFailed(l, t, r.Err, req, rep)
	case r.Status == queue.TurnClock:
		lp.turnAgain(l, t, r, req, rep)
	case r.Status == queue.TurnNoLane:
		l.holding = false
		lp.verdicts(l, t, r)
		lp.agenda.plan(l, never)
	case r.Status == queue.TurnFaulty:
		l.holding = false
		l.results = append(t.Result, l.results...)
		lp.agenda.plan(l, rep+lp.jitter(10*backOff))
	default:
		lp.turnDone(l, t, r, req, rep)
	}
	if l.again {
		l.again = false
		lp.agenda.hasten(l, rep)
	}
	if len(l.results) > 0 {
		lp.flush(l, rep)
	}
	lp.forget(l)
}

// turnFailed keeps the results for the next turn, which also names the call:
// what it may have handed out comes back uncounted.
func (lp *loop) turnFailed(l *lane, t *queue.Turn, err error, req, rep time.Duration) {
	l.results = append(t.Result, l.results...)
	if redisdb.Lost(err) && t.Want > 0 {
		l.lost = append(l.lost, lp.lostCall(l, t, req, rep))
		if len(l.lost) > 4 {
			l.lost = l.lost[1:] // those come back at their deadline
		}
	}
	l.holding = false
	pause := rep + lp.jitter(backOff)
	lp.nextClaim = max(lp.nextClaim, pause)
	if len(l.results) > 0 || len(l.lost) > 0 {
		lp.agenda.plan(l, pause)
	} else {
		lp.agenda.plan(l, never)
	}
}

// lostCall spans the deadlines that leases of a call can have, by the bounds of
// the clock; without bounds any deadline.
func (lp *loop) lostCall(l *lane, t *queue.Turn, req, rep time.Duration) queue.LostCall {
	call := queue.LostCall{Call: t.Call, From: 0, To: 1 << 52}
	if t.Clock.Expect == 0 || l.timeout == 0 {
		return call
	}
	fixed := (l.timeout + queue.LeaseGrace).Microseconds()
	call.From = t.Clock.Expect + fixed
	call.To = t.Clock.Expect + t.Clock.Width + fixed + (rep - req + 2*maxHorizon + time.Second).Microseconds()
	return call
}

// turnAgain follows a turn that found time ahead of what was expected: the
// reply tells a step of the clock from a call that was merely late.
func (lp *loop) turnAgain(l *lane, t *queue.Turn, r *queue.TurnReply, req, rep time.Duration) {
	l.results = append(t.Result, l.results...)
	l.confirmed, l.move = "", 0
	if step, known := lp.clocks[l.shard].Step(req, rep, r.Logical); known && step > 0 {
		l.confirmed, l.move = r.Adj, -step.Microseconds()
	}
	// Bounds that go on contradicting the reply are worth nothing.
	if l.clockTries++; l.clockTries > 5 {
		l.clockTries = 0
		lp.clocks[l.shard].Forget()
	}
	lp.agenda.plan(l, rep)
}

func (lp *loop) turnDone(l *lane, t *queue.Turn, r *queue.TurnReply, req, rep time.Duration) {
	if r.Stepped {
		lp.d.cfg.Metrics.clockSteps.Inc()
		lp.d.log.Warn("the clock of Redis stepped and was mended", "shard", l.shard, "move_us", t.Clock.Move)
	}
	if r.LostMemory {
		lp.d.cfg.Metrics.stateLost.Inc()
		lp.d.log.Warn("Redis lost memory or was replaced; slots start late", "destination", l.name)
	}
	lp.observe(l.shard, req, rep, r.Logical)
	l.confirmed, l.move, l.clockTries = "", 0, 0
	l.lost = dropLost(l.lost, len(t.Lost))
	l.epoch.Store(max(r.Epoch, l.epoch.Load()))
	l.tolerance, l.timeout = r.Tolerance, r.Timeout
	lp.verdicts(l, t, r)
	lp.handOut(l, r, rep)
	lp.planNext(l, t, r, rep)
}

func dropLost(lost []queue.LostCall, n int) []queue.LostCall {
	if n >= len(lost) {
		return nil
	}
	return lost[n:]
}

func (lp *loop) verdicts(l *lane, t *queue.Turn, r *queue.TurnReply) {
	for i, v := range r.Verdicts {
		if v != "ok" && v != "again" && i < len(t.Result) {
			lp.d.cfg.Metrics.stale.WithLabelValues(lp.d.cfg.Metrics.label(l.name)).Inc()
		}
	}
}

// planNext keeps the lane until its next look, or lets it go.
func (lp *loop) planNext(l *lane, t *queue.Turn, r *queue.TurnReply, rep time.Duration) {
	if t.Want == 0 && !t.Short { // only results were settled
		if l.holding { // and it was claimed meanwhile
			lp.agenda.hasten(l, rep)
		} else {
			lp.agenda.plan(l, never)
		}
		return
	}
	at, planned := never, r.Look != 0
	if planned {
		at = lp.moment(l.shard, r.Look, rep)
	}
	if t.Keep && r.Why != "senders" && planned && lp.stopBy == never {
		lp.agenda.plan(l, at)
		return
	}
	l.holding = false
	lp.agenda.plan(l, never)
	if planned && lp.stopBy == never {
		lp.promise(at+time.Duration(lp.d.cfg.Rand()*float64(minSpread)), rep)
	}
}

// moment is when logical time reaches t, at the middle of the bounds.
func (lp *loop) moment(shard int, t int64, now time.Duration) time.Duration {
	lower, upper, ok := lp.clocks[shard].Bounds(now)
	if !ok {
		return now
	}
	return time.Duration(t+(lower+upper)/2) * time.Microsecond
}

// flush lets results go alone unless a turn is planned soon.
func (lp *loop) flush(l *lane, now time.Duration) {
	if l.turning {
		return
	}
	if len(l.results) >= flushAt {
		lp.agenda.hasten(l, now)
		return
	}
	lp.agenda.hasten(l, now+flushWithin)
}
