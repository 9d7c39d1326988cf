package drain

import (
	"context"
	"errors"
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
	lane     *lane // only name and epoch are read beside the loop
	lease    granted
	contract *destination.Contract
	from     time.Duration // monotonic: no write before
	until    time.Duration // and none after
	wall     time.Time     // until, by the wall clock: it goes on while the machine sleeps
}

// handOut sends what a turn granted, once the contract in force is known.
func (lp *loop) handOut(l *lane, r *queue.TurnReply, now time.Duration) {
	lp.d.cfg.Metrics.granted.WithLabelValues(lp.d.cfg.Metrics.label(l.name)).Add(float64(len(r.Leases)))
	for _, lease := range r.Leases {
		l.myLast = max(l.myLast, lease.Slot)
		g := granted{Lease: lease, epoch: r.Epoch, tolerance: r.Tolerance, timeout: r.Timeout}
		lp.used++
		l.busy++
		if l.contract != nil && l.version == r.Version {
			lp.send(l, g, now)
		} else {
			l.waiting = append(l.waiting, g)
		}
	}
	if len(l.waiting) > 0 && !l.fetching {
		lp.fetch(l)
	}
}

func (lp *loop) fetch(l *lane) {
	l.fetching = true
	lp.beside(func(ctx context.Context) event {
		c, version, err := lp.d.store.Contract(ctx, l.name)
		if _, damaged := errors.AsType[*queue.DamagedError](err); damaged {
			lp.d.log.Error("the destination is faulty and sends nothing", "destination", l.name, "error", err)
			_ = lp.d.marks.MarkFaulty(ctx, l.name, version) // fails: the next turn comes here again
		}
		return func(lp *loop) { lp.fetched(l, c, version, err) }
	})
}

func (lp *loop) fetched(l *lane, c *destination.Contract, version int64, err error) {
	l.fetching = false
	now := redisdb.Monotonic()
	waiting := l.waiting
	l.waiting = nil
	if err == nil {
		l.contract, l.version = c, version
	}
	for _, g := range waiting {
		if err != nil {
			lp.settle(l, release(g.Lease))
		} else {
			lp.send(l, g, now)
		}
	}
	lp.forget(l)
}

// send starts the attempt of one lease, or gives it back when its slot is over.
func (lp *loop) send(l *lane, g granted, now time.Duration) {
	from, until, ok := lp.clocks[l.shard].Window(g.Slot, g.tolerance.Microseconds(), now)
	if !ok || now > until || until < from {
		lp.dead(l, errLate)
		lp.settle(l, release(g.Lease))
		return
	}
	a := &attempt{d: lp.d, lane: l, lease: g, contract: l.contract, from: from, until: until, wall: time.Now().Round(0).Add(until - now)}
	lp.beside(func(context.Context) event {
		result, err := a.run()
		return func(lp *loop) {
			if err != nil {
				lp.dead(l, err)
			}
			lp.settle(l, result)
			lp.forget(l)
		}
	})
}

func (lp *loop) dead(l *lane, err error) {
	if errors.Is(err, errLate) {
		lp.d.cfg.Metrics.slotsDead.WithLabelValues(lp.d.cfg.Metrics.label(l.name)).Inc()
	}
}

// settle frees the sender of a lease and keeps its result for the next turn.
func (lp *loop) settle(l *lane, r queue.Result) {
	lp.used--
	l.busy--
	l.results = append(l.results, r)
	lp.flush(l, redisdb.Monotonic())
}

func release(l queue.Lease) queue.Result {
	return queue.Result{ID: l.ID, Token: l.Token, Kind: queue.KindRelease}
}

// run makes the attempt; err says why the gate was shut.
func (a *attempt) run() (queue.Result, error) {
	j, err := queue.Decode(a.lane.name, a.lease.ID, a.lease.Envelope)
	if err != nil {
		return queue.Result{ID: a.lease.ID, Token: a.lease.Token, Kind: queue.KindDead, Outcome: "unreadable", Note: (&queue.Note{}).Encode()}, nil
	}
	timeout := a.lease.timeout
	if j.Timeout > 0 {
		timeout = min(timeout, j.Timeout)
	}
	now := redisdb.Monotonic()
	ctx, cancel := context.WithTimeoutCause(a.d.cut, a.until+timeout-now, context.DeadlineExceeded)
	defer cancel()
	if a.lease.Crashes > 0 && !a.markStarted(ctx) {
		return release(a.lease.Lease), nil
	}
	var shut error
	a.d.cfg.Metrics.sendersBusy.Inc()
	res := a.d.sender.Send(ctx, deliver.Attempt{
		Lane: a.lane.name, Contract: a.contract, Job: j, Number: a.lease.Sent + 1, Key: j.DownstreamKey, Timeout: timeout,
		At:   time.Now().Add(a.from - now),
		Gate: func() error { shut = a.gate(); return shut },
		Writing: func() {
			if a.d.cfg.Record != nil {
				a.d.cfg.Record.Record(a.lane.name, string(a.lease.ID), a.lease.Slot)
			}
		},
	})
	a.d.cfg.Metrics.sendersBusy.Dec()
	a.observe(res, j)
	return decide(a.contract, &a.lease, j, res, a.d.cfg.Rand), shut
}

// markStarted notes that the sending of a job begins whose worker was lost
// before: should this worker be lost as well, it counts as a crash.
func (a *attempt) markStarted(ctx context.Context) bool {
	held, err := a.d.marks.Start(ctx, a.lane.name, []queue.Lease{a.lease.Lease})
	return err == nil && len(held) == 1 && held[0]
}

// gate is the last check, right before the first byte. It changes nothing: it
// may be asked before a write that does not follow.
func (a *attempt) gate() error {
	switch {
	case redisdb.Monotonic() > a.until, time.Now().Round(0).After(a.wall):
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
	name := m.label(a.lane.name)
	m.attempts.WithLabelValues(name, string(res.Outcome), string(res.Outcome.Class())).Inc()
	if res.Wrote {
		m.duration.WithLabelValues(name).Observe(res.Duration.Seconds())
		m.queueWait.WithLabelValues(name).Observe(max(0, res.StartedAt.Sub(j.CreatedAt).Seconds()))
	}
}
