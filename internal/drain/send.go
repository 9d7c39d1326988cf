package drain

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// attempt is one lease on its way: when its request may be written, and what
// its gate looks at.
type attempt struct {
	d        *Drain
	lane     *lane // only name, label and epoch are read beside the loop
	lease    granted
	contract *destination.Contract
	from     time.Duration // monotonic: no write before
	until    time.Duration // and none after
	wall     time.Time     // until, by the wall clock: it goes on while the machine sleeps
	late     atomic.Bool   // the gate found the slot over
	at       atomic.Int64  // when it was written, or the gate found the slot over; monotonic ns, 0: neither
	unmarked bool          // nobody confirmed that it is started, so it was not sent
}

// handOut sends what a turn granted, once the contract in force is known.
func (lp *loop) handOut(l *lane, r *queue.TurnReply) {
	if len(r.Leases) == 0 {
		return
	}
	lp.d.cfg.Metrics.granted.WithLabelValues(l.label).Add(float64(len(r.Leases)))
	for _, lease := range r.Leases {
		l.myLast = max(l.myLast, lease.Slot)
		if lease.Crashes > 0 || l.contract != nil && l.contract.Delivery == destination.AtMostOnce {
			l.marks = redisdb.Monotonic()
		}
		g := granted{Lease: lease, epoch: r.Epoch, tolerance: r.Tolerance, timeout: r.Timeout}
		lp.senders.used++
		l.busy++
		if l.contract != nil && l.have == r.Version {
			lp.send(l, g)
		} else {
			l.waiting = append(l.waiting, g)
		}
	}
	if len(l.waiting) > 0 && !l.fetching {
		lp.fetch(l)
	}
}

// maxFetches is how often a contract is fetched again that is not the one in force.
const maxFetches = 2

func (lp *loop) fetch(l *lane) {
	l.fetching = true
	before := l.unfit
	lp.beside(func(ctx context.Context) event {
		c, version, err := lp.d.store.Contract(ctx, l.name)
		if _, damaged := errors.AsType[*queue.DamagedError](err); damaged {
			lp.d.log.Error("the destination is faulty and sends nothing", "destination", l.name, "error", err)
			_ = lp.d.marks.MarkFaulty(ctx, l.name, version) // fails: the next turn comes here again
		}
		why := ""
		if err == nil {
			why = lp.check(ctx, l, c, before)
		}
		return func(lp *loop) { lp.fetched(l, c, version, why, err) }
	})
}

func (lp *loop) fetched(l *lane, c *destination.Contract, version int64, why string, err error) {
	l.fetching = false
	outdated := l.outdated || err == nil && version < l.version
	l.outdated = false
	if outdated && l.fetches < maxFetches {
		l.fetches++
		lp.fetch(l)
		return
	}
	waiting := l.waiting
	l.waiting, l.fetches = nil, 0
	if err == nil {
		l.contract, l.have = c, version
		lp.unfit(l, why, redisdb.Monotonic())
	}
	for _, g := range waiting {
		if err != nil || why != "" {
			lp.settle(l, release(g.Lease))
		} else {
			lp.send(l, g)
		}
	}
	lp.rest(l, redisdb.Monotonic())
}

// send starts the attempt of one lease, or gives it back when its slot is over.
func (lp *loop) send(l *lane, g granted) {
	now := redisdb.Monotonic()
	from, until, ok := lp.clocks[l.shard].Window(g.Slot, g.tolerance.Microseconds(), now)
	late := !ok || now > until || until < from
	if late {
		lp.dead(l)
	}
	if late || lp.stopping() {
		lp.settle(l, release(g.Lease))
		return
	}
	a := &attempt{d: lp.d, lane: l, lease: g, contract: l.contract, from: from, until: until, wall: time.Now().Round(0).Add(until - now)}
	lp.beside(func(context.Context) event {
		result, fault := a.run()
		return func(lp *loop) {
			if at := a.at.Load(); at > 0 {
				lp.lags.add(time.Duration(at) - a.from)
			}
			if a.late.Load() {
				lp.dead(l)
			}
			if a.unmarked {
				lp.unmarked(l, a.contract)
			}
			lp.settle(l, result)
			if fault {
				lp.faulted(l, a.contract)
			}
			lp.rest(l, redisdb.Monotonic())
		}
	})
}

// dead counts a slot that was over before the write.
func (lp *loop) dead(l *lane) {
	lp.d.cfg.Metrics.slotsDead.WithLabelValues(l.label).Inc()
}

// settle frees the sender of a lease and keeps its result for the next turn.
func (lp *loop) settle(l *lane, r queue.Result) {
	lp.senders.used--
	l.busy--
	l.results = append(l.results, r)
	lp.flush(l, redisdb.Monotonic())
}

func release(l queue.Lease) queue.Result {
	return queue.Result{ID: l.ID, Token: l.Token, Kind: queue.KindRelease}
}

// run makes the attempt. fault: nothing can be sent under the contract here.
func (a *attempt) run() (result queue.Result, fault bool) {
	j, err := queue.Decode(a.lane.name, a.lease.ID, a.lease.Envelope)
	if err != nil {
		return queue.Result{ID: a.lease.ID, Token: a.lease.Token, Kind: queue.KindDead, Outcome: "unreadable", Note: (&queue.Note{}).Encode()}, false
	}
	timeout := a.lease.timeout
	if j.Timeout > 0 {
		timeout = min(timeout, j.Timeout)
	}
	ctx, cancel := context.WithTimeoutCause(a.d.cut, a.until+timeout-redisdb.Monotonic(), context.DeadlineExceeded)
	defer cancel()
	decide, request := decide, j
	switch {
	case a.lease.InDoubt && a.contract.Verify == "": // it was there when the doubt began
		return unverified(&a.lease, j), false
	case a.lease.InDoubt:
		decide, request = decideDoubt, question(a.contract, j)
	case (a.lease.Crashes > 0 || a.contract.Delivery == destination.AtMostOnce) && !a.markStarted(ctx):
		return release(a.lease.Lease), false
	}
	a.d.cfg.Metrics.sendersBusy.Inc()
	res := a.d.sender.Send(ctx, deliver.Attempt{
		Lane: a.lane.name, Contract: a.contract, Job: request, Number: a.lease.Sent + 1, Key: j.DownstreamKey, Timeout: timeout,
		At:   a.moment(),
		Gate: a.gate,
		Writing: func() {
			if a.d.cfg.Record != nil {
				a.d.cfg.Record.Record(a.lane.name, string(a.lease.ID), a.lease.Slot)
			}
		},
	})
	a.d.cfg.Metrics.sendersBusy.Dec()
	if res.Wrote && !res.StartedAt.IsZero() {
		a.at.Store(int64(redisdb.Monotonic() - time.Since(res.StartedAt)))
	}
	a.observe(res, j)
	return decide(a.contract, &a.lease, j, res, a.d.cfg.Rand), res.Fault != nil
}

// moment is a.from for the sender. The monotonic clock is read first: a pause
// between the two readings makes it late, which the gate sees, never early.
func (a *attempt) moment() time.Time {
	now := redisdb.Monotonic()
	return time.Now().Add(a.from - now)
}

// markStarted notes that the sending of a job begins that is sent at most once, or
// whose worker was lost before: should this worker be lost as well, the one is
// unknown and the other counts a crash. Without a confirmation nothing is sent.
func (a *attempt) markStarted(ctx context.Context) bool {
	held, err := a.d.marks.Start(ctx, a.lane.name, a.contract.Durability, []queue.Lease{a.lease.Lease})
	ok := err == nil && len(held) == 1 && held[0]
	a.unmarked = !ok
	return ok
}

// gate is the last check, right before the first byte. One that opens changes
// nothing: the write may not follow.
func (a *attempt) gate() error {
	now := redisdb.Monotonic()
	switch {
	case now < a.from:
		return errEarly
	case now > a.until, time.Now().Round(0).After(a.wall):
		a.late.Store(true)
		a.at.Store(int64(redisdb.Monotonic()))
		return errLate
	case a.lane.epoch.Load() != a.lease.epoch:
		return errEpoch
	case a.d.stopping.Load():
		return errStopping
	}
	return nil
}

func (a *attempt) observe(res deliver.Result, j *job.Job) {
	if res.Outcome == job.OutcomeNotSent {
		return
	}
	m := a.d.cfg.Metrics
	name := a.lane.label
	m.attempts.WithLabelValues(name, string(res.Outcome), string(res.Outcome.Class())).Inc()
	if res.Outcome == job.OutcomeThrottled || res.HTTPStatus == http.StatusTooManyRequests || res.HTTPStatus == http.StatusServiceUnavailable {
		m.throttled.WithLabelValues(name).Inc()
	}
	if res.Wrote {
		m.duration.WithLabelValues(name).Observe(res.Duration.Seconds())
		m.lateness.WithLabelValues(name).Observe(max(0, (time.Duration(a.at.Load()) - a.from).Seconds()))
		m.queueWait.WithLabelValues(name).Observe(max(0, res.StartedAt.Sub(j.CreatedAt).Seconds()))
	}
}
