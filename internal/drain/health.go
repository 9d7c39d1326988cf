package drain

import (
	"time"

	"tundish/internal/destination"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// quietFor is how long nothing may fail before a trouble is over: a Redis that
// answers one call and refuses the next has not recovered.
const quietFor = 3 * time.Second

// health tells of the failures of Redis when they change, not each time.
type health struct {
	kind   string
	failed time.Duration // last time
}

// failure notes that Redis could not serve.
func (lp *loop) failure(err error, now time.Duration) {
	kind := redisdb.Kind(err)
	lp.health.failed = now
	if kind == lp.health.kind {
		return
	}
	lp.health.kind = kind
	lp.d.trouble.Store(&kind)
	lp.d.log.Warn("Redis cannot serve, no jobs are taken", "kind", kind, "error", err)
}

// success notes that Redis served.
func (lp *loop) success(now time.Duration) {
	if lp.health.kind == "" || now-lp.health.failed < quietFor {
		return
	}
	lp.health.kind = ""
	lp.d.trouble.Store(nil)
	lp.d.log.Info("Redis serves again")
}

// fault notes that one lane cannot be turned, or can be again. That is no
// reason to keep from the others.
func (lp *loop) fault(l *lane, err error) {
	kind := ""
	if err != nil {
		kind = redisdb.Kind(err)
	}
	if kind == l.fault {
		return
	}
	l.fault = kind
	if err != nil {
		lp.d.log.Error("the destination cannot be served", "destination", l.name, "kind", kind, "error", err)
	} else {
		lp.d.log.Info("the destination is served again", "destination", l.name)
	}
}

// tellBreaker logs that a destination fell ill or got well, and no failed probe between.
func (lp *loop) tellBreaker(l *lane, t *queue.Turn, r *queue.TurnReply) {
	if r.Counted[queue.CountBreakerFell] > 0 {
		outcome := ""
		for i := range t.Result {
			if t.Result[i].Health == queue.HealthBad {
				outcome = t.Result[i].Outcome
			}
		}
		lp.d.log.Warn("the destination fails; its breaker is open, and only probes go", "destination", l.name, "outcome", outcome)
	}
	if r.Counted[queue.CountBreakerClosed] > 0 {
		lp.d.log.Info("the destination answers again; its breaker is closed", "destination", l.name)
	}
}

// tellAgain is how often a trouble is told again that goes on.
const tellAgain = time.Minute

// unmarked tells that a job was not sent since nobody confirmed that it is
// started: it takes slot after slot, and nothing else would say why.
func (lp *loop) unmarked(l *lane, c *destination.Contract) {
	now := redisdb.Monotonic()
	if l.unmarked != 0 && now-l.unmarked < tellAgain {
		return
	}
	l.unmarked = now
	lp.d.log.Warn("a job is not sent: Redis did not confirm in time that it is started", "destination", l.name, "durability", c.Durability)
}
