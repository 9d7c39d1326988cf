package bank

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

// smooth is a run of n jobs at 10 per second exactly, each read 1 ms after its
// write and accepted.
func smooth(n int) Case {
	c := Case{Rate: 10, Per: time.Second, Jobs: n}
	for i := range n {
		id, at := fmt.Sprint("job-", i), int64(i)*100*ms
		c.Writes = append(c.Writes, Write{Lane: "bank", Job: id, At: at})
		c.Arrivals = append(c.Arrivals, Arrival{Job: id, At: at + ms, Attempt: 1, Status: 200})
	}
	return c
}

func TestASmoothRunPasses(t *testing.T) {
	t.Parallel()
	v := Judge(smooth(40))
	if !v.OK || v.TooBusy || v.Jobs != 40 || v.Requests != 40 || v.WorstWrite != 10 || v.WorstBank != 10 ||
		v.BoundWrite != 10 || v.BoundBank != 10 || v.Spread != 0 || v.Use != 1 || v.GapP50 != 100*time.Millisecond {
		t.Errorf("verdict = %+v", v)
	}
	if text := v.String(); !strings.HasPrefix(text, "verdict: OK\n") || strings.Contains(text, "because") {
		t.Errorf("it reads:\n%s", text)
	}
}

func TestVerdictsThatFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Case)
		reason string
	}{
		"overshoot at the write": {func(c *Case) {
			c.Writes[20].At -= ms // its arrival stays: a spread of 1 ms, which the bank's side concedes
		}, "at the write: 11 in 1s, bound 10"},
		"overshoot at the bank": {func(c *Case) {
			// Requests that no log knows: the write's side looks well.
			for i := range 3 {
				c.Arrivals = append(c.Arrivals, Arrival{Job: fmt.Sprint("x", i), At: 2050 * ms, Status: 429})
			}
			c.MayMiss = 3
		}, "at the bank: 13 in 1s, bound 10"},
		"a duplicate": {func(c *Case) {
			again := c.Arrivals[39]
			again.At += 100 * ms
			c.Arrivals = append(c.Arrivals, again)
			c.Writes = append(c.Writes, Write{Job: again.Job, At: again.At - ms})
		}, "1 accepted twice, 0 explained"},
		"a lost job":             {func(c *Case) { c.Jobs = 41 }, "1 jobs never accepted"},
		"a job that failed":      {func(c *Case) { c.Jobs, c.Arrivals[3].Status = 0, 500 }, "1 jobs never accepted"},
		"a write not logged":     {func(c *Case) { c.Writes = c.Writes[1:] }, "1 arrivals are in no write log"},
		"a bank that has forgot": {func(c *Case) { c.Forgotten = 5 }, "forgotten 5"},
		"nothing at all":         {func(c *Case) { c.Jobs, c.Writes, c.Arrivals = 0, nil, nil }, "nothing arrived"},
		"no rate":                {func(c *Case) { c.Rate, c.Per = 0, 0 }, "no rate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := smooth(40)
			c.change(&run)
			v := Judge(run)
			if v.OK || len(v.Reasons) != 1 || !strings.Contains(v.Reasons[0], c.reason) {
				t.Errorf("OK %v, reasons %q, want one: %q", v.OK, v.Reasons, c.reason)
			}
			if text := v.String(); !strings.HasPrefix(text, "verdict: FAILED\n") || !strings.Contains(text, c.reason) {
				t.Errorf("it reads:\n%s", text)
			}
		})
	}
}

func TestWhatAKillExplains(t *testing.T) {
	t.Parallel()
	c := smooth(40)
	again := c.Arrivals[39]
	again.At += 100 * ms
	c.Arrivals = append(c.Arrivals, again)
	c.Writes = c.Writes[:39] // the killed worker's last lines
	if v := Judge(c); v.OK || len(v.Reasons) != 2 {
		t.Errorf("reasons = %q", v.Reasons)
	}
	c.MayRepeat, c.MayMiss = 1, 2
	if v := Judge(c); !v.OK || v.Duplicates != 1 || v.Unlogged != 2 {
		t.Errorf("verdict = %+v", v)
	}
}

func TestTheSpreadExplainsAndBeyondItTheMachineIsTooBusy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		late time.Duration
		busy bool
	}{{4 * time.Millisecond, false}, {5 * time.Millisecond, false}, {6 * time.Millisecond, true}} {
		run := smooth(40)
		run.Arrivals[20].At += int64(c.late) // now 10 more follow within a second of it
		v := Judge(run)
		if !v.OK || v.Spread != c.late || v.TooBusy != c.busy || v.WorstBank != 11 || v.BoundBank != 11 {
			t.Errorf("%v late: %+v", c.late, v)
		}
		if strings.Contains(v.String(), "machine too busy") != c.busy {
			t.Errorf("%v late, it reads:\n%s", c.late, v)
		}
	}
}

func TestABusyMachineAboveTheBoundSaysBoth(t *testing.T) {
	t.Parallel()
	run := smooth(40)
	for i := range 12 {
		run.Arrivals[10+i].At = run.Arrivals[21].At // a clump: what a stopped bank reads at once
	}
	for i := range 30 {
		run.Arrivals = append(run.Arrivals, Arrival{Job: fmt.Sprint("x", i), At: run.Arrivals[21].At, Status: 429})
	}
	run.MayMiss = 30
	v := Judge(run)
	if v.OK || !v.TooBusy || len(v.Reasons) != 1 || !strings.Contains(v.Reasons[0], "too busy") {
		t.Errorf("verdict = %+v", v)
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		written, arrived []int64
		delays           []int64
		unlogged, unread int
	}{
		"nth with nth":             {[]int64{20 * ms, 10 * ms}, []int64{21 * ms, 12 * ms}, []int64{2 * ms, ms}, 0, 0},
		"a broken connection":      {[]int64{10 * ms, 900 * ms}, []int64{901 * ms}, []int64{ms}, 0, 1},
		"a torn log":               {[]int64{900 * ms}, []int64{11 * ms, 901 * ms}, []int64{ms}, 1, 0},
		"the last never arrived":   {[]int64{10 * ms, 900 * ms}, []int64{11 * ms}, []int64{ms}, 0, 1},
		"no write":                 {nil, []int64{5}, nil, 1, 0},
		"no arrival":               {[]int64{5}, nil, nil, 0, 1},
		"a stamp after the call":   {[]int64{100, 300 * ms, 301 * ms}, []int64{50, 302 * ms}, []int64{-50, ms}, 0, 1},
		"more arrivals than bytes": {[]int64{10 * ms}, []int64{11 * ms, 12 * ms, 13 * ms}, []int64{ms}, 2, 0},
	} {
		var writes []Write
		for _, at := range c.written {
			writes = append(writes, Write{Job: "a", At: at})
		}
		var arrivals []Arrival
		for _, at := range c.arrived {
			arrivals = append(arrivals, Arrival{Job: "a", At: at})
		}
		j := join(writes, arrivals)
		if !slices.Equal(j.delays, c.delays) || j.unlogged != c.unlogged || j.unread != c.unread {
			t.Errorf("%s: join = %+v, want %v, %d, %d", name, j, c.delays, c.unlogged, c.unread)
		}
	}
}
