package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

const (
	modelTimeout = 10_000_000
	modelGrace   = 5_000_000
)

// turn makes one call of a worker: results of leases, real, late, repeated and
// foreign ones, then new leases; sometimes its reply never comes.
func (m *model) turn() {
	worker := []string{"w1", "w2", "w3"}[m.rng.IntN(3)]
	results := m.results(worker)
	t := Turn{Want: m.rng.IntN(15), Keep: m.rng.IntN(2) == 0, Ahead: time.Duration(m.rng.IntN(4)) * 100 * time.Millisecond,
		Lead: time.Duration(m.rng.IntN(2)) * time.Millisecond, Lost: m.lost[worker], Result: results}
	if m.rng.IntN(5) == 0 {
		t.Want = 0
	}
	before := m.b.dump()
	r := m.b.turnAs(worker, t)
	m.note("turn %s call %d: want %d, %d results %v, lost %v: %d leases, %s", worker, m.b.call, t.Want, len(results), r.Verdicts, t.Lost,
		len(r.Leases), r.Why)
	if r.Status != TurnOK {
		m.fail("status %s", r.Status)
	}
	m.now, m.raw = r.Logical, r.Logical-m.offset
	if t.Want > 0 {
		m.claimed = false
	}
	norecover := m.norecover(before, r)
	m.settle(results, r.Verdicts)
	m.takeBack(worker, t.Lost)
	m.lost[worker] = nil
	m.recover(norecover)
	m.promote()
	m.expire()
	m.leases(worker, &t, &r)
	if m.rng.IntN(10) == 0 && len(r.Leases) > 0 {
		m.note("the reply of call %d is lost", m.b.call)
		m.held = m.held[:len(m.held)-len(r.Leases)]
		m.lost[worker] = []LostCall{{Call: m.b.call, From: m.now + modelTimeout + modelGrace, To: m.now + 2*(modelTimeout+modelGrace)}}
	}
}

func (m *model) norecover(before *dump, r TurnReply) int64 {
	spare := before.number("norecover")
	planned, err := strconv.ParseInt(before.state["planned"], 10, 64)
	if err == nil && r.Logical > planned+5_000_000 && len(before.leased) > 0 {
		spare = r.Logical + modelTimeout + r.Tolerance.Microseconds() + modelGrace
	}
	return spare
}

// results are what a worker has to tell: of what it holds, and sometimes again
// or under a token that is not its own any more.
func (m *model) results(worker string) []Result {
	var out []Result
	keep := m.held[:0:0]
	for _, h := range m.held {
		if h.worker != worker || m.rng.IntN(3) == 0 || len(out) > 20 {
			keep = append(keep, h)
			continue
		}
		kinds := []Kind{KindDelivered, KindDelivered, KindDelivered, KindDead, KindUnknown, KindRetry, KindReturn, KindRelease}
		r := settleAll([]Lease{h.lease}, kinds[m.rng.IntN(len(kinds))])[0]
		r.Counts = r.Counts && m.rng.IntN(2) == 0
		if len(h.lease.History) > 0 {
			r.Note = h.lease.History // a worker keeps what it was told of the job
		}
		if r.Kind == KindRetry {
			r.Delay = time.Duration(m.rng.IntN(5000)) * time.Millisecond
		}
		out = append(out, r)
		switch m.rng.IntN(12) {
		case 0:
			out = append(out, r) // twice in one call
		case 1:
			keep = append(keep, h) // and again later
		case 2:
			r.Token = "w9:1:1"
			out = append(out, r)
		}
	}
	m.held = keep
	return out
}

func (m *model) settle(results []Result, verdicts []string) {
	if len(results) != len(verdicts) {
		m.fail("%d verdicts for %d results", len(verdicts), len(results))
	}
	seen := map[job.ID]bool{}
	for i := range results {
		if want := m.settleOne(&results[i], seen); want != verdicts[i] {
			m.fail("result %d, %s of %s: %s, want %s", i, results[i].Kind, results[i].ID, verdicts[i], want)
		}
	}
}

func (m *model) settleOne(r *Result, seen map[job.ID]bool) string {
	j := m.jobs[r.ID]
	switch {
	case seen[r.ID]:
		return "again"
	case j == nil, j.state.Live() && !j.tried:
		return "gone"
	case j.state == job.Cancelled && !j.trimmed && r.Kind == KindDelivered:
		m.end(j, job.Delivered)
		return "ok"
	case j.trimmed:
		return "gone"
	case j.state == job.Dead && j.lost && r.Kind == KindDelivered:
		m.end(j, job.Delivered)
		return "ok"
	case !j.state.Live():
		return "again"
	case j.token != r.Token, j.state != job.Leased && r.Kind != KindDelivered:
		return "stale"
	}
	seen[r.ID] = true
	ends := map[Kind]job.State{KindDelivered: job.Delivered, KindDead: job.Dead, KindUnknown: job.Unknown}
	if end, ok := ends[r.Kind]; ok {
		m.end(j, end)
		return "ok"
	}
	if r.Kind != KindRelease {
		j.sent++
		if r.Counts {
			j.used++
		}
		if j.first == 0 {
			j.first = j.slot
		}
	}
	j.token, j.state, j.started = "", job.Ready, false
	if r.Kind == KindRetry {
		j.state, j.due = job.Waiting, m.now+r.Delay.Microseconds()
	}
	return "ok"
}

func (m *model) takeBack(worker string, lost []LostCall) {
	for _, l := range lost {
		prefix := fmt.Sprintf("%s:%d:", worker, l.Call)
		for _, j := range m.in(job.Leased) {
			if strings.HasPrefix(j.token, prefix) && j.deadline >= l.From && j.deadline <= l.To {
				j.token, j.state = "", job.Ready
			}
		}
	}
}

func (m *model) recover(norecover int64) {
	if m.now < norecover {
		return
	}
	for _, j := range m.in(job.Leased) {
		if j.deadline > m.now {
			continue
		}
		j.sent++
		if j.crashes == 0 || j.started {
			j.crashes++
		}
		if j.first == 0 {
			j.first = j.slot
		}
		j.started, j.state = false, job.Ready
		if j.crashes >= 3 {
			m.end(j, job.Dead)
			j.lost = true
		}
	}
}

func (m *model) promote() {
	for _, j := range m.in(job.Waiting) {
		if j.due <= m.now {
			j.state = job.Ready
		}
	}
}

func (m *model) expire() {
	for _, state := range []job.State{job.Ready, job.Waiting} {
		for _, j := range m.in(state) {
			if j.expiry > 0 && j.expiry <= m.raw {
				m.end(j, job.Expired)
			}
		}
	}
}

// leases checks what was handed out against what may be: the first job of each
// tenant, never one that expires before its slot, slots apart, within the cap.
func (m *model) leases(worker string, t *Turn, r *TurnReply) {
	room := int(m.cfg.cap) - len(m.in(job.Leased))
	for _, j := range m.in(job.Ready) { // those that would be over at their slot
		if j.expiry > 0 && j.expiry <= m.raw+m.slotsEnd(t) {
			if _, live := m.b.dump().jobs[string(j.src.ID)]; !live {
				m.end(j, job.Expired)
			}
		}
	}
	for i, l := range r.Leases {
		j := m.jobs[l.ID]
		if j == nil || j.state != job.Ready {
			m.fail("lease of %s, which is %+v", l.ID, j)
		}
		for _, other := range m.in(job.Ready) {
			if other.src.Tenant == j.src.Tenant && other.order+string(other.src.ID) < j.order+string(l.ID) {
				m.fail("%s of %q goes before %s", l.ID, j.src.Tenant, other.src.ID)
			}
		}
		if l.Sent != j.sent || l.Used != j.used || l.Crashes != j.crashes || l.First != j.first {
			m.fail("lease %+v of %+v", l, j)
		}
		gap := 1_005_000/m.cfg.rate - 1
		if l.Slot < m.now+t.Lead.Microseconds() || l.Slot > m.now+max(t.Ahead, t.Lead).Microseconds() || l.Slot-m.lastSlot < gap {
			m.fail("slot %d at %d, the last was %d", l.Slot, m.now, m.lastSlot)
		}
		if j.expiry > 0 && j.expiry <= l.Slot-m.offset {
			m.fail("a slot behind the expiry")
		}
		m.lastSlot = l.Slot
		j.state, j.token, j.slot, j.started = job.Leased, l.Token, l.Slot, false
		j.tried = true
		j.deadline = l.Slot + r.Tolerance.Microseconds() + modelTimeout + modelGrace
		if l.Token != fmt.Sprintf("%s:%d:%d", worker, m.b.call, i+1) {
			m.fail("token %s", l.Token)
		}
		m.held = append(m.held, heldLease{worker, l})
	}
	m.why(t, r, room)
}

func (m *model) slotsEnd(t *Turn) int64 { return max(t.Ahead, t.Lead).Microseconds() }

// halves is 2 where half of the horizon is enough: senders are short.
func (m *model) halves(t *Turn) int64 {
	if t.Short {
		return 2
	}
	return 1
}

// why checks the reason for handing out no more.
func (m *model) why(t *Turn, r *TurnReply, room int) {
	n, ready := len(r.Leases), len(m.in(job.Ready))
	ok := map[string]bool{
		"paused":  m.paused && n == 0,
		"none":    t.Want == 0,
		"cap":     n >= room,
		"empty":   ready == 0,
		"slot":    m.lastSlot+1_005_000/m.cfg.rate+1+1_000_000/m.cfg.rate*2 >= m.now+m.slotsEnd(t)/m.halves(t),
		"more":    n == t.Want || ready >= 0 && m.expiredNow(),
		"senders": t.Short,
	}
	if !ok[r.Why] || n > t.Want || n > max(room, 0) || m.paused && r.Why != "paused" {
		m.fail("want %d, room %d, ready %d, %d leases: %q", t.Want, room, ready, n, r.Why)
	}
}

func (m *model) expiredNow() bool {
	for _, j := range m.jobs {
		if j.state == job.Expired && j.endedAt == m.raw {
			return true
		}
	}
	return false
}

func (m *model) start() {
	var leases []Lease
	for _, h := range m.held {
		if m.rng.IntN(2) == 0 {
			leases = append(leases, h.lease)
		}
	}
	m.note("start %d", len(leases))
	held, err := m.b.s.Start(context.Background(), m.b.lane, destination.Memory, leases)
	if err != nil {
		m.fail("%v", err)
	}
	for i, l := range leases {
		j := m.jobs[l.ID]
		want := j != nil && j.state == job.Leased && j.token == l.Token
		if held[i] != want {
			m.fail("start of %s: %v, want %v", l.ID, held[i], want)
		}
		if want {
			j.started = true
		}
	}
}

// compare holds Redis against the model.
func (m *model) compare() {
	d := m.b.dump()
	if p := d.problems(m.gone); len(p) > 0 {
		m.fail("%s", strings.Join(p, "\n"))
	}
	m.compareJobs(d)
	if n := int64(len(d.leased)); n > 100 || int64(len(d.jobs)) > 60 {
		m.fail("%d leased, %d jobs", n, len(d.jobs))
	}
	m.compareDue(d)
}

func (m *model) compareJobs(d *dump) {
	live := 0
	for id, j := range m.jobs {
		place := d.place(string(id))
		var want []string
		switch j.state {
		case job.Ready, job.Leased, job.Waiting:
			live++
			want = []string{string(j.state)}
		case job.Dead, job.Unknown:
			want = []string{"dead"}
		default:
			want = []string{"done"}
		}
		if !slices.Contains(want, place) && !m.outlived(j, place) {
			m.fail("%s is %s in the model and in %q", id, j.state, place)
		}
		if text := d.done[string(id)]; place == "done" && !strings.HasPrefix(text, string(j.state)+"|") {
			m.fail("%s is %s in the model and ended as %.40q", id, j.state, text)
		}
		if due, ok := d.waiting[string(id)]; ok && int64(due) != j.due {
			m.fail("%s is due at %.0f, want %d", id, due, j.due)
		}
		if deadline, ok := d.leased[string(id)]; ok && int64(deadline) != j.deadline {
			m.fail("%s has the deadline %.0f, want %d", id, deadline, j.deadline)
		}
	}
	if live != len(d.jobs) {
		m.fail("%d live jobs in the model, %d stored", live, len(d.jobs))
	}
}

// outlived lets the model forget what bounds removed: results after their
// keeping, dead jobs beyond their number.
func (m *model) outlived(j *modelJob, place string) bool {
	if place != "" || j.state.Live() {
		return false
	}
	if j.trimmed {
		return true
	}
	dead := j.state == job.Dead || j.state == job.Unknown
	if dead && m.older(j) < m.cfg.deadMax || !dead && m.raw-j.endedAt < minDoneKept.Microseconds() {
		return false
	}
	j.trimmed = true
	if dead { // its key begins the rest of its life
		j.keyEnd = m.raw + m.cfg.keep
	}
	return true
}

// older counts the dead jobs that are kept and not older than j.
func (m *model) older(j *modelJob) int64 {
	n := int64(0)
	for _, other := range m.jobs {
		if (other.state == job.Dead || other.state == job.Unknown) && other != j && !other.trimmed && other.endedAt >= j.endedAt {
			n++
		}
	}
	return n
}

// compareDue checks that the lane is looked at when anything can happen.
func (m *model) compareDue(d *dump) {
	if m.gone {
		if d.due != 0 {
			m.fail("a deleted lane has an entry")
		}
		return
	}
	m.sync()
	look, found := int64(0), false
	at := func(t int64) {
		if !found || t < look {
			look, found = t, true
		}
	}
	if !m.paused {
		if len(d.ready) > 0 && int64(len(d.leased)) < m.cfg.cap {
			at(m.lastSlot + 1_005_000/m.cfg.rate + 1)
		}
		for _, due := range d.waiting {
			at(int64(due))
		}
	}
	for _, deadline := range d.leased {
		at(max(int64(deadline), d.number("norecover")))
	}
	for _, expiry := range d.expires {
		at(int64(expiry) + m.offset)
	}
	late := int64(60_000)
	if m.claimed {
		late = 1_100_000
	}
	if found && (d.due == 0 || d.due > max(look, m.now)+late) {
		m.fail("the entry is %d at %d, and something can happen at %d", d.due, m.now, look)
	}
}
