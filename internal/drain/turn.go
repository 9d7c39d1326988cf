package drain

import (
	"context"
	"slices"
	"time"

	"tundish/internal/destination"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// maxLost is how many calls with lost replies a turn names at most.
const maxLost = 4

// turn sends the turns of some lanes, decided on at now, in one pipeline.
func (lp *loop) turn(g *group, lanes []*lane, turns []queue.Turn, now time.Duration) {
	g.turns++
	lp.beside(func(ctx context.Context) event {
		req := redisdb.Monotonic()
		replies := lp.d.store.Turns(ctx, lp.d.cfg.Worker, turns)
		rep := redisdb.Monotonic()
		return func(lp *loop) {
			g.turns--
			if replies[0].Err == nil {
				g.trips.add(rep - req)
			}
			w := ways{}
			for i, l := range lanes {
				lp.turned(l, &turns[i], &replies[i], req, rep)
				if r := &replies[i]; r.Err == nil && r.Logical != 0 {
					w.add(lp, l.shard, r.Logical, now, req, rep)
				}
			}
			g.learn(w, rep)
		}
	})
}

// prepare makes the turn of a lane and takes its results along.
func (lp *loop) prepare(l *lane, now time.Duration) queue.Turn {
	l.turning = true
	lp.call++
	lead := lp.lead(l, now)
	t := queue.Turn{Lane: l.name, Call: lp.call, Lost: l.lost, Clock: lp.view(l.shard, now), MyLast: l.myLast,
		Lead: lead, Ahead: l.group.trips.ahead(lead), Late: lp.lags.p99}
	t.Clock.Confirmed, t.Clock.Move = l.confirmed, l.move
	switch {
	case l.holding && lp.stopping():
		t.Short = true // which lets it go
	case l.holding:
		if l.contract == nil && !l.fetching {
			lp.fetch(l) // beside the turn: slots that it brings would not wait
		}
		t.Want, t.Short = lp.ask(l)
		t.Keep = now-l.since < keepFor
		if !t.Keep {
			t.Ahead = min(t.Ahead+l.group.trips.handOver(), maxHorizon)
		}
	}
	n := queue.Fit(l.results)
	t.Result, l.results = l.results[:n:n], l.results[n:]
	return t
}

func (lp *loop) turned(l *lane, t *queue.Turn, r *queue.TurnReply, req, rep time.Duration) {
	l.turning = false
	lp.got(l, t.Want, len(r.Leases), r.Err == nil && r.Status == queue.TurnOK)
	switch {
	case r.Err != nil:
		lp.turnFailed(l, t, r.Err, req, rep)
	case r.Status == queue.TurnClock:
		lp.turnAgain(l, t, r, req, rep)
	case r.Status == queue.TurnNoLane:
		lp.turnedNone(l, t, r)
	case r.Status == queue.TurnFaulty:
		lp.turnedFaulty(l, t, rep)
	default:
		lp.turnDone(l, t, r, req, rep)
	}
	if r.Err == nil {
		lp.success(rep)
	}
	if l.again {
		l.again = false
		l.group.agenda.hasten(l, rep)
	}
	lp.flush(l, rep)
	lp.rest(l, rep)
}

// turnFailed keeps the results for the next turn, which also names the call:
// what it may have handed out comes back uncounted.
func (lp *loop) turnFailed(l *lane, t *queue.Turn, err error, req, rep time.Duration) {
	l.results = append(t.Result, l.results...)
	if redisdb.Lost(err) {
		l.resent = max(l.resent, len(t.Result))
		l.lost = lp.addLost(l, t, req, rep)
	}
	if lp.stopping() {
		l.lost = nil // their deadline brings them back
	}
	l.holding = false
	pause := rep + lp.jitter(backOff)
	if redisdb.Unavailable(err) {
		lp.failure(err, rep)
		l.group.nextClaim = max(l.group.nextClaim, pause)
	} else {
		lp.fault(l, err)
	}
	l.group.agenda.pause(l, pause)
	if len(l.lost) > 0 {
		l.group.agenda.hasten(l, pause)
	}
}

// turnedNone follows a turn of a lane that is no more: its results are taken.
func (lp *loop) turnedNone(l *lane, t *queue.Turn, r *queue.TurnReply) {
	l.holding, l.lost, l.contract = false, nil, nil
	lp.verdicts(l, t, r)
	l.group.agenda.plan(l, never)
}

// turnedFaulty follows a turn that could not even settle. The results wait for
// a contract that can be read, but no stop waits for that.
func (lp *loop) turnedFaulty(l *lane, t *queue.Turn, rep time.Duration) {
	l.holding = false
	l.results = append(t.Result, l.results...)
	if lp.stopping() {
		l.results, l.lost = nil, nil
	}
	l.group.agenda.pause(l, rep+lp.jitter(10*backOff))
	if len(l.lost) > 0 {
		l.group.agenda.hasten(l, rep)
	}
}

// addLost notes a call whose leases, if it gave any, are to be taken back.
func (lp *loop) addLost(l *lane, t *queue.Turn, req, rep time.Duration) []queue.LostCall {
	if t.Want == 0 {
		return l.lost
	}
	lost := append(slices.Clone(l.lost), lp.lostCall(l, t, req, rep))
	return lost[max(0, len(lost)-maxLost):] // what is beyond comes back at its deadline
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
	lp.heard(l.shard, req, rep, r.Logical, r.Adj)
	step, known := lp.clocks[l.shard].Step(req, rep, r.Logical)
	switch {
	case !known:
	case step > 0 && lp.mended[l.shard].undone(r.Adj, rep):
		lp.clocks[l.shard].Forget() // it is this process' clock that stood still, not Redis' that stepped
	default: // with 0 the call was merely late, and the next may be as well
		l.confirmed, l.move = r.Adj, -max(0, step).Microseconds()
	}
	// Bounds that go on contradicting the reply are worth nothing.
	if l.clockTries++; l.clockTries > 5 {
		l.clockTries = 0
		lp.clocks[l.shard].Forget()
	}
	l.group.agenda.plan(l, rep)
}

func (lp *loop) turnDone(l *lane, t *queue.Turn, r *queue.TurnReply, req, rep time.Duration) {
	lp.heard(l.shard, req, rep, r.Logical, r.Adj)
	if r.Stepped {
		lp.mended[l.shard] = mending{}
		if t.Clock.Confirmed != "" && t.Clock.Move != 0 { // otherwise the script mended a step backward by itself
			lp.mended[l.shard] = mended(micros(t.Clock.Confirmed), req, rep, r.Logical-micros(r.Adj))
		}
		lp.stepped(l.shard, t.Clock.Move)
	}
	if r.LostMemory {
		lp.d.cfg.Metrics.stateLost.Inc()
		lp.d.log.Warn("Redis lost memory or was replaced; slots start late", "destination", l.name)
	}
	lp.observe(l.shard, req, rep, r.Logical)
	l.confirmed, l.move, l.clockTries = "", 0, 0
	l.lost = l.lost[min(len(t.Lost), len(l.lost)):]
	l.timeout, l.tolerance = r.Timeout, r.Tolerance
	lp.fault(l, nil)
	l.inForce(r)
	lp.d.cfg.Metrics.turned(l.label, r)
	lp.tellBreaker(l, t, r)
	lp.verdicts(l, t, r)
	lp.handOut(l, r)
	lp.planNext(l, t, r, rep)
}

// inForce takes in which contract is in force. Turns of a lane come one after
// the other, so the last reply is right even when its epoch is lower, as after
// a loss of memory.
func (l *lane) inForce(r *queue.TurnReply) {
	if r.LostMemory || r.Epoch < l.epoch.Load() || l.generation != 0 && r.Generation != l.generation {
		l.contract, l.outdated = nil, l.fetching // versions begin again
	}
	l.epoch.Store(r.Epoch)
	l.generation, l.version = r.Generation, r.Version
}

func (lp *loop) verdicts(l *lane, t *queue.Turn, r *queue.TurnReply) {
	for i, v := range r.Verdicts {
		if v == "ok" && i < len(t.Result) && t.Result[i].Kind.Final() {
			lp.d.cfg.Metrics.finished.WithLabelValues(l.label, string(t.Result[i].Kind)).Inc()
		}
		if v != "ok" && v != "again" && i >= l.resent && i < len(t.Result) {
			lp.d.cfg.Metrics.stale.WithLabelValues(l.label).Inc()
		}
	}
	l.resent = max(0, l.resent-len(t.Result))
}

// planNext keeps the lane until its next look, or lets it go.
func (lp *loop) planNext(l *lane, t *queue.Turn, r *queue.TurnReply, rep time.Duration) {
	if t.Want == 0 && !t.Short { // only results were settled
		if l.holding { // and it was claimed meanwhile
			l.group.agenda.hasten(l, rep)
		} else {
			l.group.agenda.plan(l, never)
		}
		return
	}
	at, planned := never, r.Look != 0
	if planned {
		at = lp.moment(l.shard, r.Look, rep)
	}
	if t.Keep && r.Why != "senders" && planned && !lp.stopping() {
		l.group.agenda.plan(l, at)
		return
	}
	l.holding = false
	l.group.agenda.plan(l, never)
	switch {
	case t.Want == 0: // no sender was to be had: others come first
		pause := rep + lp.jitter(starvedFor)
		l.group.nextClaim = max(l.group.nextClaim, pause)
		if planned {
			l.group.promise(max(at, pause), rep)
		}
	case planned:
		l.group.promise(at+lp.part(minSpread), rep)
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

// urgent says that a result must not wait for others: the lane has to cool down,
// or what is not known of the job keeps it from ever being sent again.
func (l *lane) urgent() bool {
	return l.contract != nil && l.contract.Delivery == destination.AtMostOnce ||
		slices.ContainsFunc(l.results, func(r queue.Result) bool {
			return r.Kind == queue.KindThrottled || r.Kind.Final() && r.Delay > 0
		})
}

// flush lets results go alone unless a turn is planned soon.
func (lp *loop) flush(l *lane, now time.Duration) {
	switch {
	case l.turning || len(l.results) == 0:
	case len(l.results) >= flushAt, l.urgent(), lp.stopping() && l.busy == 0:
		l.group.agenda.hasten(l, now)
	default:
		l.group.agenda.hasten(l, now+flushWithin)
	}
}
