package bank

import (
	"slices"
	"time"
)

// joint is the delays of the requests found both in a write log and at the bank.
type joint struct {
	delays   []int64
	unlogged int // arrivals without a write
	unread   int // writes without an arrival
}

// stampSlack is how far an arrival may lie before its write: a log stamped just
// after the call.
const stampSlack = int64(time.Millisecond)

// join pairs the nth write of a job with its nth arrival. Where one of them is
// missing (a broken connection, the torn end of a log), counting would pair
// attempts that are seconds apart: there each arrival takes the latest write
// before it.
func join(writes []Write, arrivals []Arrival) joint {
	type attempts struct{ written, arrived []int64 }
	jobs := make(map[string]*attempts, len(writes))
	of := func(id string) *attempts {
		a := jobs[id]
		if a == nil {
			a = &attempts{}
			jobs[id] = a
		}
		return a
	}
	for i := range writes {
		a := of(writes[i].Job)
		a.written = append(a.written, writes[i].At)
	}
	for i := range arrivals {
		a := of(arrivals[i].Job)
		a.arrived = append(a.arrived, arrivals[i].At)
	}
	var j joint
	for _, a := range jobs {
		slices.Sort(a.written)
		slices.Sort(a.arrived)
		if len(a.written) == len(a.arrived) {
			j.inOrder(a.written, a.arrived)
		} else {
			j.byTime(a.written, a.arrived)
		}
	}
	return j
}

func (j *joint) inOrder(written, arrived []int64) {
	for i := range written {
		j.delays = append(j.delays, arrived[i]-written[i])
	}
}

func (j *joint) byTime(written, arrived []int64) {
	paired, w := 0, 0
	for _, at := range arrived {
		latest := -1
		for ; w < len(written) && written[w] <= at+stampSlack; w++ {
			latest = w
		}
		if latest < 0 {
			j.unlogged++
			continue
		}
		j.delays = append(j.delays, at-written[latest])
		paired++
	}
	j.unread += len(written) - paired
}

// spread is how much the delays differ at most.
func (j *joint) spread() time.Duration {
	if len(j.delays) == 0 {
		return 0
	}
	return time.Duration(slices.Max(j.delays) - slices.Min(j.delays))
}
