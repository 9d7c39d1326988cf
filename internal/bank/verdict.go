package bank

import (
	"fmt"
	"strings"
	"time"
)

// BusySpread is the spread beyond which a machine is too busy to say anything
// about the bank's side: the bound then explains almost everything.
const BusySpread = 5 * time.Millisecond

// Case is one run of one lane: what was written and what arrived.
type Case struct {
	Rate  int64
	Per   time.Duration
	Burst int64 // 0 is 1

	Jobs     int // that had to be accepted by the bank; 0: those that were written
	Writes   []Write
	Arrivals []Arrival

	// What a run that kills processes has to concede: jobs sent twice (at least
	// once), and writes whose last 100 ms of log are lost.
	MayRepeat int
	MayMiss   int
	// Forgotten is how many arrivals the bank no longer has.
	Forgotten int64
}

// Verdict is what Judge found.
type Verdict struct {
	Rate  int64
	Per   time.Duration
	Burst int64

	Jobs       int // accepted by the bank, distinct
	Lost       int // never accepted
	Requests   int // that arrived
	Duplicates int // accepted again
	Written    int
	Unlogged   int // arrivals without a write
	Unread     int // writes that never arrived: their connection broke

	WorstWrite int // most writes in one window, and their bound
	BoundWrite int64
	Spread     time.Duration // of the delay from write to arrival
	WorstBank  int           // most arrivals in one window, and their bound
	BoundBank  int64

	Use            float64 // of the rate, by the writes
	GapP50, GapP99 time.Duration

	TooBusy bool // Spread is over BusySpread: nothing can be said of the bank's side
	OK      bool
	Reasons []string // why it is not
}

// Judge holds a run against its rate, at the write and at the bank.
func Judge(c Case) Verdict {
	v := Verdict{Rate: c.Rate, Per: c.Per, Burst: max(c.Burst, 1)}
	v.count(&c)
	joined := join(c.Writes, c.Arrivals)
	v.Spread, v.Unlogged, v.Unread = joined.spread(), joined.unlogged, joined.unread

	writes := make([]int64, len(c.Writes))
	for i := range c.Writes {
		writes[i] = c.Writes[i].At
	}
	writes = sorted(writes)
	v.WorstWrite, v.BoundWrite = Worst(writes, c.Per), Allowed(c.Rate, c.Burst, c.Per, 0)
	v.WorstBank, v.BoundBank = Worst(Stamps(c.Arrivals), c.Per), Allowed(c.Rate, c.Burst, c.Per, v.Spread)
	v.Use = Use(writes, c.Rate, c.Per)
	v.GapP50, v.GapP99 = Gaps(writes)
	v.TooBusy = v.Spread > BusySpread
	v.Reasons = v.reasons(&c)
	v.OK = len(v.Reasons) == 0
	return v
}

// count fills in what became of the jobs.
func (v *Verdict) count(c *Case) {
	accepted := make(map[string]struct{}, len(c.Arrivals))
	for i := range c.Arrivals {
		if a := &c.Arrivals[i]; a.succeeded() {
			accepted[a.Job] = struct{}{}
		}
	}
	v.Jobs, v.Requests, v.Written = len(accepted), len(c.Arrivals), len(c.Writes)
	v.Duplicates = Duplicates(c.Arrivals)
	if c.Jobs > 0 {
		v.Lost = max(0, c.Jobs-v.Jobs)
		return
	}
	lost := make(map[string]struct{})
	for i := range c.Writes {
		if _, ok := accepted[c.Writes[i].Job]; !ok {
			lost[c.Writes[i].Job] = struct{}{}
		}
	}
	v.Lost = len(lost)
}

func (v *Verdict) reasons(c *Case) []string {
	var reasons []string
	fail := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	if c.Rate < 1 || c.Per <= 0 {
		fail("there is no rate to judge by")
	}
	if v.Requests == 0 {
		fail("nothing arrived at the bank")
	}
	if int64(v.WorstWrite) > v.BoundWrite {
		fail("at the write: %d in %v, bound %d", v.WorstWrite, v.Per, v.BoundWrite)
	}
	if int64(v.WorstBank) > v.BoundBank {
		if v.TooBusy {
			fail("at the bank: %d in %v, bound %d, but the machine was too busy to tell whose fault it is",
				v.WorstBank, v.Per, v.BoundBank)
		} else {
			fail("at the bank: %d in %v, bound %d", v.WorstBank, v.Per, v.BoundBank)
		}
	}
	if v.Duplicates > c.MayRepeat {
		fail("%d accepted twice, %d explained", v.Duplicates, c.MayRepeat)
	}
	if v.Lost > 0 {
		fail("%d jobs never accepted", v.Lost)
	}
	if v.Unlogged > c.MayMiss {
		fail("%d arrivals are in no write log, %d explained", v.Unlogged, c.MayMiss)
	}
	if c.Forgotten > 0 {
		fail("the bank has forgotten %d arrivals", c.Forgotten)
	}
	return reasons
}

// String is the verdict for people.
func (v Verdict) String() string {
	var s strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&s, "  %-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&s, "verdict: %s\n", word(v.OK, "OK", "FAILED"))
	line("rate", "%d per %v, burst %d", v.Rate, v.Per, v.Burst)
	line("jobs", "%d accepted in %d requests, %d twice, %d lost", v.Jobs, v.Requests, v.Duplicates, v.Lost)
	line("at the write", "worst window %d, bound %d", v.WorstWrite, v.BoundWrite)
	line("at the bank", "worst window %d, bound %d with a spread of %s%s", v.WorstBank, v.BoundBank,
		short(v.Spread), word(v.TooBusy, ": machine too busy", ""))
	line("use", "%.1f %% of the rate", 100*v.Use)
	line("gap", "p50 %s, p99 %s", short(v.GapP50), short(v.GapP99))
	if v.Unlogged > 0 || v.Unread > 0 {
		line("not joined", "%d arrivals without a write, %d writes without an arrival", v.Unlogged, v.Unread)
	}
	for _, reason := range v.Reasons {
		line("because", "%s", reason)
	}
	return s.String()
}

// short is a duration in milliseconds, to the microsecond.
func short(d time.Duration) string { return fmt.Sprintf("%.3f ms", milliseconds(d)) }
