package drain

import (
	"context"
	"time"

	"tundish/internal/destination"
	"tundish/internal/redisdb"
)

const (
	// checkEvery is how often a worker looks whether it can send again to a
	// destination for which it lacked something.
	checkEvery = 3 * time.Second
	// markFor is how long the mark of that stands when nobody renews it: a worker
	// that is gone lacks nothing.
	markFor = 4 * checkEvery
)

// check says why this worker cannot send under a contract that can be read: a
// secret is missing here. It is no fault of a job and perhaps not of the other
// workers, so the lane stays open to them. What is wrong is kept where it is
// shown, and taken away when it is over.
func (lp *loop) check(ctx context.Context, l *lane, c *destination.Contract, before string) string {
	if lp.d.cfg.Check == nil {
		return ""
	}
	err := lp.d.cfg.Check(c)
	if err == nil {
		if before != "" {
			_ = lp.d.marks.MarkUnfit(ctx, l.name, "", 0) // fails: it ends by itself
		}
		return ""
	}
	_ = lp.d.marks.MarkUnfit(ctx, l.name, err.Error(), markFor) // fails: the next look comes here again
	return err.Error()
}

// unfit takes in whether the worker can send to a lane, and tells of a change.
func (lp *loop) unfit(l *lane, why string, now time.Duration) {
	before := l.unfit
	l.unfit, l.recheck = why, now+checkEvery
	switch why {
	case before:
	case "":
		lp.d.log.Info("this worker can send to the destination again", "destination", l.name)
	default:
		lp.d.log.Error("this worker cannot send to the destination", "destination", l.name, "error", why)
	}
	if why != "" {
		l.contract, l.holding = nil, false
		l.group.agenda.hasten(l, now) // settles what there is, and asks for nothing
	}
}

// passes says whether a claimed lane is left to others, because this worker
// cannot send to it; it looks now and then whether it can again.
func (lp *loop) passes(l *lane, now time.Duration) bool {
	if l.unfit == "" {
		return false
	}
	if now >= l.recheck && !l.fetching {
		lp.fetch(l)
	}
	lp.rest(l, now)
	return true
}

// faulted follows an attempt for which something was missing that was there
// when the contract was fetched.
func (lp *loop) faulted(l *lane, c *destination.Contract) {
	if l.contract == c && !l.fetching {
		l.contract = nil
		lp.fetch(l)
	}
	lp.rest(l, redisdb.Monotonic())
}
