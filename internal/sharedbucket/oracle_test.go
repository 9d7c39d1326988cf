package sharedbucket

// Twin is a lane's limits in exact integers: what the Lua parts must answer.
// All times are µs. It is no faster and no shorter than it must be to be
// believed; production asks the scripts.
type Twin struct {
	limits    []twinLimit
	given     tracked            // the lane's tolerance
	spaced    map[string]tracked // by name of the limit
	saved     map[string]bucket  // by name of the limit
	last      int64              // last slot granted
	tolerance int64
	blind     bool // nothing was known of the lane's tolerance
}

// TwinLimit is one limit of a Twin; algorithm is as in contracts.
type TwinLimit struct {
	Name, Algorithm     string
	Rate, Window, Burst int64
}

type twinLimit struct {
	TwinLimit
	n int64 // window and tolerance
	bucket
}

// The same figures stand in tolerance.lua.
const (
	minTolerance = 2_000
	memory       = 1_400_000
)

// NewTwin makes the limits of a lane that never sent.
func NewTwin() *Twin {
	return &Twin{spaced: map[string]tracked{}, saved: map[string]bucket{}}
}

// Open takes the limits in force and what the caller at now needs.
func (w *Twin) Open(limits []TwinLimit, now, guard, width int64) {
	short := limits[0].Window
	for _, l := range limits {
		short = min(short, l.Window)
	}
	w.blind = !w.given.known
	w.tolerance = w.given.track(min(MaxTolerance, max(guard, width+minTolerance)), now, short)
	w.limits = w.limits[:0]
	for _, l := range limits {
		t := w.spaced[l.Name]
		n := l.Window + t.track(w.tolerance, now, l.Window+memory)
		w.spaced[l.Name] = t
		w.limits = append(w.limits, twinLimit{l, n, w.load(l, n)})
		w.saved[l.Name] = w.limits[len(w.limits)-1].bucket
	}
}

func (w *Twin) load(l TwinLimit, n int64) bucket {
	old := w.saved[l.Name]
	if l.Algorithm == "leaky_bucket" {
		if b, ok := old.(*leaky); ok && b.slot() >= w.last {
			return b.adapt(l.Rate)
		}
		return &leaky{last: w.last, rate: l.Rate}
	}
	if b, ok := old.(*token); ok && b.last >= w.last {
		return b.adapt(l, n)
	}
	b := &token{rate: l.Rate, burst: l.Burst, last: w.last, have: l.Burst * n, n: n, from: w.last + 1}
	if w.last > 0 {
		b.have = 0 // what it would have let through is not known
	}
	return b
}

// Tolerance is what a write may be behind a slot granted now.
func (w *Twin) Tolerance() int64 { return w.tolerance }

// Earliest is the first time from t on that every limit allows.
func (w *Twin) Earliest(t int64) int64 {
	for {
		before := t
		for _, l := range w.limits {
			t = max(t, l.earliest(l.n, t))
		}
		if t == before {
			return t
		}
	}
}

// Grant charges up to n slots between now + lead and now + horizon.
func (w *Twin) Grant(now, lead, horizon int64, n int) []int64 {
	var slots []int64
	for from, to := now+lead, now+max(horizon, lead); len(slots) < n; {
		t := w.Earliest(from)
		if t > to {
			break
		}
		w.charge(t)
		slots, from = append(slots, t), t
	}
	return slots
}

func (w *Twin) charge(t int64) {
	for _, l := range w.limits {
		l.charge(l.n, t)
	}
	w.last = max(w.last, t)
}

// Regrant grants n slots and takes back all but the first keep of them.
func (w *Twin) Regrant(now, lead, horizon int64, n, keep int) []int64 {
	last, before := w.last, make([]bucket, len(w.limits))
	for i, l := range w.limits {
		before[i] = l.clone()
	}
	slots := w.Grant(now, lead, horizon, n)
	w.last = last
	for i := range w.limits {
		w.limits[i].bucket = before[i]
		w.saved[w.limits[i].Name] = before[i]
	}
	slots = slots[:min(keep, len(slots))]
	for _, t := range slots {
		w.charge(t)
	}
	return slots
}

// Lost treats the time up to the furthest slot that can have been granted as used
// up, and where nobody knows how late that may be used, all of that.
func (w *Twin) Lost(now int64) {
	late := int64(0)
	if w.blind {
		late = MaxTolerance - w.tolerance
	}
	for _, l := range w.limits {
		l.lost(now + MaxHorizon + late)
	}
	w.last = max(w.last, now+MaxHorizon)
}

// Refund gives back a slot at which nothing was written.
func (w *Twin) Refund(slot int64) {
	for _, l := range w.limits {
		l.refund(l.n, slot)
	}
}

// After is when the slot behind k others comes, from t on.
func (w *Twin) After(t, k int64) int64 {
	slot := t
	for _, l := range w.limits {
		slot = max(slot, l.after(l.n, t, k))
	}
	return slot
}

// State is the stored text of a limit's state, as the Lua writes it.
func (w *Twin) State(name string) string {
	for _, l := range w.limits {
		if l.Name == name {
			return l.saveText(l.n)
		}
	}
	return ""
}
