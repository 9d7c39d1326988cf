package queue

// Counts are the names under which scripts tell what a call did beside what it
// was asked for, to jobs and keys of whomever.
const (
	CountExpired        = "expired"         // jobs that ended because their time was over
	CountEndedDead      = "ended_dead"      // jobs that ended as dead by no result: their workers were lost, or nobody could read them
	CountEndedUnknown   = "ended_unknown"   // jobs that ended as unknown by no result: their worker was lost, or they expired in doubt
	CountCrashes        = "crashes"         // leases that ran out
	CountUnreadable     = "unreadable"      // jobs put aside because no program could read them
	CountTrimmedDead    = "trimmed_dead"    // dead jobs removed, for their age or beyond the bounds
	CountTrimmedResults = "trimmed_results" // results of finished jobs removed before their time
	CountTrimmedKeys    = "trimmed_keys"    // idempotency keys removed before their time
	CountBreakerOpen    = "breaker_open"    // times that a breaker opened, also after a probe
	CountBreakerProbing = "breaker_probing" // probes
	CountBreakerClosed  = "breaker_closed"  // times that it closed
)

// Tell has fn told of what calls of this Store counted. Set it before the first
// call; fn is called by many at once.
func (s *Store) Tell(fn func(name string, n int64)) { s.counts = fn }

func (s *Store) tell(counted map[string]int64) {
	if s.counts == nil {
		return
	}
	for name, n := range counted {
		s.counts(name, n)
	}
}

// counted reads "name, number …"; nil when there is nothing.
func (p *parser) counted(l []any, i int) map[string]int64 {
	flat := p.list(p.at(l, i))
	if len(flat) == 0 {
		return nil
	}
	counts := make(map[string]int64, len(flat)/2)
	for k := 0; k+1 < len(flat); k += 2 {
		counts[p.text(flat, k)] += p.number(flat, k+1)
	}
	return counts
}
