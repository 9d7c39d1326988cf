package drain

import (
	"sync/atomic"
	"time"

	"tundish/internal/destination"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// never is a look that is not planned.
const never = time.Duration(-1)

// remembered is how long a lane is remembered of which nothing is left to do:
// its contract, and the last slot granted here.
const remembered = time.Minute

// lane is what the worker knows of a lane it holds, owes results to, or did lately.
// The loop owns it; attempts read only name, label and epoch.
type lane struct {
	name  string
	label string // in metrics
	shard int
	group *group

	live   bool          // something is left to do
	rested time.Duration // since when nothing is

	holding   bool          // it looks by its own timer
	since     time.Duration // when it was claimed
	next      time.Duration // next turn, monotonic; never: none planned
	notBefore time.Duration // pause after a failure
	index     int           // in the agenda; -1: not there
	turning   bool
	again     bool // its turn came while it was turning

	marks time.Duration // when a job was handed out whose sending has to be marked; 0: never

	appetite int // jobs it asks for
	busy     int // senders that its jobs occupy
	results  []queue.Result
	resent   int // of the results, how many may have been settled by a call whose reply was lost
	lost     []queue.LostCall
	myLast   int64

	epoch      atomic.Int64
	generation int64 // of the contract in force
	version    int64
	contract   *destination.Contract
	have       int64 // version of contract
	fetching   bool
	outdated   bool      // what is being fetched may be from before a change
	fetches    int       // in a row that brought an outdated contract
	waiting    []granted // leases that wait for the contract
	timeout    time.Duration
	tolerance  time.Duration // of the slots that it was granted last
	unfit      string        // why this worker cannot send to it; empty: it can
	recheck    time.Duration // when it looks at that again
	fault      string        // kind of the failure that keeps it from being turned
	confirmed  string        // adj for which a step forward was seen
	move       int64
	clockTries int

	unmarked time.Duration // when it was last told that jobs cannot be marked as started; 0: never
}

// granted is a lease with what the turn said about it.
type granted struct {
	queue.Lease
	epoch     int64
	tolerance time.Duration
	timeout   time.Duration
}

// idle says that nothing of the lane is left to do here.
func (l *lane) idle() bool {
	return !l.holding && !l.turning && !l.fetching && l.busy == 0 && len(l.results) == 0 && len(l.lost) == 0
}

// lane finds or makes the state of a lane that has something to do.
func (lp *loop) lane(name string) *lane {
	l := lp.lanes[name]
	if l == nil {
		shard := redisdb.ShardOf(name)
		l = &lane{name: name, label: lp.d.cfg.Metrics.label(name), shard: shard, group: lp.groupOf[shard], index: -1, next: never, appetite: minAsk}
		lp.lanes[name] = l
	}
	if !l.live {
		l.live = true
		lp.live++
	}
	return l
}

// rest lays a lane down of which nothing is left to do.
func (lp *loop) rest(l *lane, now time.Duration) {
	if !l.live || !l.idle() {
		return
	}
	l.group.agenda.plan(l, never)
	l.live, l.rested = false, now
	lp.live--
}

// forget drops what was remembered for long enough.
func (lp *loop) forget(now time.Duration) {
	if now < lp.nextForget {
		return
	}
	lp.nextForget = now + remembered/2
	for name, l := range lp.lanes {
		if !l.live && now-l.rested > remembered {
			delete(lp.lanes, name)
		}
	}
}
