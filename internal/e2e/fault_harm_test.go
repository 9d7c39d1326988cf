package e2e

import (
	"testing"
	"time"

	"tundish/internal/bank"
	"tundish/internal/redistest"
)

// harms are what all links to Redis do at once, one line after the other.
var harms = []struct {
	name  string
	lasts time.Duration // each
	goes  bool          // sending goes on meanwhile
	lines [][]redistest.Harm
}{
	{"half open", 2500 * time.Millisecond, false, [][]redistest.Harm{ // longer than a call waits
		{redistest.Swallowed(true)},
		{redistest.Swallowed(false)},
	}},
	{"cut off", time.Second, false, [][]redistest.Harm{ // odd numbers: mostly within a message; the first while a connection is made
		{redistest.CutOff(false, 61)},
		{redistest.CutOff(false, 1777)},
		{redistest.CutOff(true, 4999)},
	}},
	{"reset", time.Second, false, [][]redistest.Harm{
		{redistest.Reset(false, 0)},
		{redistest.Reset(true, 30*time.Millisecond)},
		{redistest.Reset(false, 300*time.Millisecond)},
	}},
	{"closed late", time.Second, false, [][]redistest.Harm{
		{redistest.CutOff(false, 2999), redistest.SlowClose(false, 500*time.Millisecond)},
		{redistest.CutOff(true, 2999), redistest.SlowClose(true, 500*time.Millisecond)},
	}},
	{"slow", 1500 * time.Millisecond, true, [][]redistest.Harm{
		{redistest.Sliced(false, 40, 500*time.Microsecond), redistest.Sliced(true, 300, time.Millisecond)},
		{redistest.Narrow(false, 40), redistest.Narrow(true, 40)},
	}},
}

// Links to Redis do harm to what goes over them: what was taken is there
// afterwards, nothing is sent twice or too often, and sending begins again soon.
func TestFaultLinksDoHarm(t *testing.T) {
	t.Parallel()
	for _, h := range harms {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			const rate = 50
			r := newRig(t, false)
			site, links := r.startLinked(2, rate, 50*time.Millisecond, true)
			producers := r.startProducers(2, 50*time.Millisecond)
			r.requests(site, 20)
			for _, together := range h.lines {
				for _, l := range links {
					for _, harm := range together {
						l.Harm(t, harm)
					}
				}
				begin := bank.Monotonic()
				after(h.lasts)
				if n := len(r.writesAfter("bank", begin)); h.goes && n < rate/4 {
					t.Errorf("%d requests in %s over a link that does %v", n, h.lasts, together)
				}
				for _, l := range links {
					l.Heal()
				}
				r.sendsAgain("bank", bank.Monotonic())
			}
			for _, w := range r.workers {
				if n := r.metric(w, "tundish_redis_errors_total"); n == 0 != h.goes {
					t.Errorf("%s counts %v errors of Redis", w.name, n)
				}
			}
			r.judgeKeyed("bank", site, rate, producers)
		})
	}
}
