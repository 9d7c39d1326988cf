package drain

import (
	"time"

	"tundish/internal/deliver"
	"tundish/internal/redisdb"
)

// settleFor is how long after the grace results may still be settled; what
// Redis does not take by then comes back at its deadline.
const settleFor = 2 * time.Second

func (lp *loop) stopping() bool { return lp.stopBy != never }

// beginStop gives the lanes back: one last turn settles what there is and
// leaves the rest to others.
func (lp *loop) beginStop() {
	now := redisdb.Monotonic()
	lp.stopBy = now + lp.d.cfg.StopGrace
	for _, l := range lp.lanes {
		l.notBefore = 0
		if l.holding || len(l.results) > 0 || len(l.lost) > 0 {
			l.group.agenda.hasten(l, now)
		}
	}
}

// stopped says whether a stopping worker is through, and cuts what outlives the grace.
func (lp *loop) stopped(now time.Duration) bool {
	if !lp.stopping() {
		return false
	}
	turns, claims := 0, 0
	for _, g := range lp.groups {
		turns += g.turns
		if g.claiming {
			claims++
		}
	}
	quiet := lp.senders.used == 0 && turns == 0
	if quiet && claims == 0 && lp.live == 0 {
		return true
	}
	if now < lp.stopBy {
		return false
	}
	if !lp.cut {
		lp.cut = true
		lp.d.cutOff(deliver.ErrStopped)
	}
	return quiet && now >= lp.stopBy+settleFor
}
