package app

import (
	"fmt"
	"strings"
	"time"

	"tundish/internal/bank"
)

// DemoResult is what a demo has to say, for people and for programs.
type DemoResult struct {
	Word    string // ok, failed or stopped; empty: it did not come to that
	Text    string
	Verdict any // for JSON
}

// demoVerdict is the verdict for programs.
type demoVerdict struct {
	Verdict       string   `json:"verdict"`
	RatePerSecond int64    `json:"rate_per_second"`
	Jobs          int      `json:"jobs"`
	Delivered     int      `json:"delivered"`
	Twice         int      `json:"delivered_twice"`
	Requests      int      `json:"requests"`
	ToldToWait    int64    `json:"told_to_wait"`
	WorstWritten  int      `json:"worst_second_written"`
	WrittenBound  int64    `json:"worst_second_written_bound"`
	WorstArrived  int      `json:"worst_second_arrived"`
	ArrivedBound  int64    `json:"worst_second_arrived_bound"`
	SpreadUS      int64    `json:"spread_us"`
	UsedShare     float64  `json:"used_share"`
	Reasons       []string `json:"reasons"`
}

// verdict is what the bank saw. stopped is why the demo ended before all was
// delivered; nil: it did not.
func (d *demo) verdict(stopped error) (DemoResult, error) {
	d.e.stopWorkers() // then their logs are whole, and nothing is under way
	arrivals, forgotten := d.e.bank.Arrivals()
	writes, err := bank.ReadWriteLogs(d.e.logs...)
	if err != nil {
		return DemoResult{}, err
	}
	c := bank.Case{Rate: d.o.Rate, Per: time.Second, Jobs: d.o.Jobs, Writes: writes, Arrivals: arrivals, Forgotten: forgotten}
	if stopped != nil {
		c.Jobs = 0 // what was never written is not lost
	}
	v := bank.Judge(c)
	switch {
	case stopped != nil:
		return d.result("stopped", d.soFar(&v), &v), stopped
	case !v.OK:
		return d.result("failed", "\n"+v.String(), &v), ErrVerdict
	}
	return d.result("ok", "\n"+v.String(), &v), nil
}

// soFar is the verdict of a run that did not come to its end.
func (d *demo) soFar(v *bank.Verdict) string {
	if v.Requests == 0 {
		return fmt.Sprintf("\nstopped: none of %d jobs delivered\n", d.o.Jobs)
	}
	text := fmt.Sprintf("\nstopped: %d of %d jobs delivered so far, %d of them twice; at most %d written in a second, bound %d\n",
		v.Jobs, d.o.Jobs, v.Duplicates, v.WorstWrite, v.BoundWrite)
	if !v.OK {
		text += "  because        " + strings.Join(v.Reasons, "; ") + "\n"
	}
	return text
}

func (d *demo) result(word, text string, v *bank.Verdict) DemoResult {
	return DemoResult{Word: word, Text: text, Verdict: demoVerdict{
		Verdict: word, RatePerSecond: v.Rate, Jobs: d.o.Jobs, Delivered: v.Jobs, Twice: v.Duplicates, Requests: v.Requests,
		ToldToWait: d.refused.Load(), WorstWritten: v.WorstWrite, WrittenBound: v.BoundWrite, WorstArrived: v.WorstBank,
		ArrivedBound: v.BoundBank, SpreadUS: v.Spread.Microseconds(), UsedShare: v.Use, Reasons: append([]string{}, v.Reasons...),
	}}
}
