package drain

import (
	"slices"
	"time"
)

const (
	// A worker that a claim told of somebody else's entry looks a random time
	// after it: the first to look takes a lane whose holder is late. Looks that
	// find nothing spread further, so that many workers do not look all at
	// once. After a wake the worker that found something last looks at once.
	minSpread  = 20 * time.Millisecond
	maxSpread  = 320 * time.Millisecond
	wakeSpread = 5 * time.Millisecond

	// claimEvery is how long after a claim the next one begins at the earliest:
	// lanes that become due one after the other are found together.
	claimEvery = 5 * time.Millisecond
)

// reason is why a worker looks for due lanes.
type reason int

const (
	byTime  reason = iota // it has not looked for a while, or it let a lane go
	byEntry               // a claim told of somebody else's entry
	byWake                // a lane became due
)

// group is the shards that one script can look through, and the work on them.
// Nothing of it waits for a server that another group is on.
type group struct {
	shards []int
	agenda agenda
	turns  int           // pipelines under way
	trips  trips         // of calls, there and back
	theres trips         // from call to script alone
	backs  trips         // from script to reply alone
	learnt time.Duration // when these two were last added to
	asked  int           // senders that turns under way have asked for

	claiming  bool
	claimed   time.Duration // when the last claim began
	nextClaim time.Duration
	why       reason          // of the next claim, or of that under way
	woken     bool            // a lane became due since the last claim began
	first     int             // shard to begin the next claim with, by its place in shards
	spread    time.Duration   // by which a look at somebody else's entry is put off at random
	wakes     time.Duration   // by which a look after a wake is put off at random
	promises  []time.Duration // moments at or after which a claim must begin, sorted
}

// claimAt is when the next claim may begin.
func (g *group) claimAt() time.Duration { return max(g.nextClaim, g.claimed+claimEvery) }

// begin starts a claim and says with which shard.
func (g *group) begin(now time.Duration) (first int) {
	g.claiming, g.claimed = true, now
	if g.woken {
		g.why, g.woken = byWake, false
	}
	kept, _ := slices.BinarySearch(g.promises, now+1)
	g.promises = slices.Delete(g.promises, 0, kept)
	g.first = (g.first + 1) % len(g.shards)
	return g.first
}

// spreadLooks lets looks that find nothing come later each time.
func (g *group) spreadLooks(found bool) {
	switch {
	case found && g.why == byWake:
		g.spread, g.wakes = minSpread, 0
	case found:
		g.spread = minSpread
	case g.why == byEntry:
		g.spread = min(2*g.spread, maxSpread)
	case g.why == byWake:
		g.wakes = min(max(2*g.wakes, wakeSpread), maxSpread)
	}
}

// planClaim looks for due lanes at a time, if that is earlier.
func (g *group) planClaim(why reason, at time.Duration) {
	if at < g.nextClaim {
		g.nextClaim, g.why = at, why
	}
}

// promise plans a claim that begins no earlier than at. One that is under way
// or comes before may run too early to see what is due then, and must not put
// it off. What is further away a claim tells of in time.
func (g *group) promise(at, now time.Duration) {
	if at > now+lookEvery {
		return
	}
	i, _ := slices.BinarySearch(g.promises, at)
	g.promises = slices.Insert(g.promises, i, at)
	g.planClaim(byTime, at)
}
