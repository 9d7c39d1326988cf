package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// fakeJob is a job in a fakeLane; place is where it stands.
type fakeJob struct {
	id                    job.ID
	place                 string // ready, waiting, leased, or the kind of its end
	token                 string
	slot, deadline, until int64 // µs
	first                 int64
	sent, used, crashes   int
	releases              int
	note                  []byte
	env                   []byte
}

// fakeLane does with one lane what the turn script does.
type fakeLane struct {
	name       string
	contract   *destination.Contract
	interval   int64 // µs between slots
	timeout    time.Duration
	cap        int
	epoch      int64
	version    int64
	generation int64
	paused     bool
	unreadable bool  // the script itself cannot read the contract
	damaged    bool  // the worker cannot
	marked     int64 // version marked faulty
	unfit      string
	lostMemory bool             // told once
	counted    map[string]int64 // told with the next result

	jobs     map[job.ID]*fakeJob
	order    []*fakeJob // as pushed
	last     int64
	due      int64 // entry; 0: none
	planned  int64
	verdicts map[string]int
}

func newLane(name string) *fakeLane {
	return &fakeLane{name: name, contract: &destination.Contract{Name: name,
		Retry: destination.Retry{MaxAttempts: 8, MaxAge: 24 * time.Hour, MinBackoff: time.Second, MaxBackoff: time.Minute}},
		interval: 20_000, timeout: 10 * time.Second, cap: 1000, epoch: 1, version: 1, generation: 1,
		jobs: map[job.ID]*fakeJob{}, verdicts: map[string]int{}}
}

func (l *fakeLane) push(n int, now int64) {
	for range n {
		id := job.NewID()
		j := &fakeJob{id: id, place: "ready", env: envelope()}
		l.jobs[id], l.order = j, append(l.order, j)
	}
	l.planEarlier(now, now)
}

// envelope is a stored job with neither meta data nor a body; see queue's codec.
func envelope() []byte { return fmt.Appendf(nil, "25%014d|1|-|\x00\x00", 0) }

func (l *fakeLane) in(place string) []*fakeJob {
	var out []*fakeJob
	for _, j := range l.order {
		if j.place == place {
			out = append(out, j)
		}
	}
	return out
}

func (l *fakeLane) settle(results []queue.Result, now int64) []string {
	out := make([]string, len(results))
	for i, r := range results {
		out[i] = l.settleOne(r, now)
		l.verdicts[out[i]]++
	}
	return out
}

func (l *fakeLane) settleOne(r queue.Result, now int64) string {
	j := l.jobs[r.ID]
	switch {
	case j == nil:
		return "gone"
	case j.place != "leased" && j.place != "ready" && j.place != "waiting":
		return "again"
	case j.token != r.Token, j.place != "leased" && r.Kind != queue.KindDelivered:
		return "stale"
	}
	switch r.Kind {
	case queue.KindDelivered, queue.KindDead, queue.KindUnknown:
		j.place, j.note = string(r.Kind), r.Note
		return "ok"
	case queue.KindRelease:
		j.releases++
		j.place = "ready"
	case queue.KindReturn:
		j.sent, j.place, j.note = j.sent+1, "ready", r.Note
	case queue.KindRetry:
		j.sent, j.used, j.place, j.until, j.note = j.sent+1, j.used+1, "waiting", now+r.Delay.Microseconds(), r.Note
	}
	if r.Kind != queue.KindRelease && j.first == 0 {
		j.first = j.slot
	}
	j.token = ""
	return "ok"
}

func (l *fakeLane) takeBack(worker string, lost []queue.LostCall) {
	for _, c := range lost {
		prefix := fmt.Sprintf("%s:%d:", worker, c.Call)
		for _, j := range l.in("leased") {
			if strings.HasPrefix(j.token, prefix) && j.deadline >= c.From && j.deadline <= c.To {
				j.place, j.token = "ready", ""
			}
		}
	}
}

// move recovers leases that ran out and promotes jobs whose wait is over.
func (l *fakeLane) move(now int64) {
	for _, j := range l.order {
		switch {
		case j.place == "leased" && j.deadline <= now:
			j.place, j.sent, j.crashes = "ready", j.sent+1, j.crashes+1
		case j.place == "waiting" && j.until <= now:
			j.place = "ready"
		}
	}
}

func (l *fakeLane) running() bool { return !l.paused && l.marked != l.version }

func (l *fakeLane) lease(worker string, t *queue.Turn, now, tolerance int64) (leases []queue.Lease, why string) {
	if t.Want <= 0 && !t.Short {
		return nil, "none"
	}
	if t.Want <= 0 {
		return nil, l.shortOfSenders(t, now)
	}
	ready := l.in("ready")
	room := l.cap - len(l.in("leased"))
	if room <= 0 {
		return nil, "cap"
	}
	want := min(t.Want, room)
	for _, j := range ready {
		slot := max(l.last+l.interval, now+t.Lead.Microseconds())
		if slot > now+max(t.Ahead, t.Lead).Microseconds() {
			return leases, "slot"
		}
		if len(leases) == want {
			break
		}
		l.last = slot
		j.place, j.slot, j.token = "leased", slot, fmt.Sprintf("%s:%d:%d", worker, t.Call, len(leases)+1)
		j.deadline = slot + tolerance + (l.timeout + queue.LeaseGrace).Microseconds()
		leases = append(leases, queue.Lease{ID: j.id, Token: j.token, Slot: slot, Sent: j.sent, Used: j.used, Crashes: j.crashes,
			First: j.first, History: j.note, Envelope: j.env})
	}
	switch {
	case len(leases) < want:
		return leases, "empty"
	case want == room:
		return leases, "cap"
	case t.Short:
		return leases, l.shortOfSenders(t, now)
	}
	return leases, "more"
}

func (l *fakeLane) shortOfSenders(t *queue.Turn, now int64) string {
	if max(l.last+l.interval, now+t.Lead.Microseconds()) > now+t.Ahead.Microseconds()/2 {
		return "slot"
	}
	return "senders"
}

// look is when the lane must be looked at next; 0: not at all.
func (l *fakeLane) look(t *queue.Turn, now int64, why string) int64 {
	var looks []int64
	leased := l.in("leased")
	if l.running() {
		if len(l.in("ready")) > 0 && len(leased) < l.cap {
			if why == "more" || why == "senders" {
				looks = append(looks, now)
			} else {
				looks = append(looks, max(l.last+l.interval, now+t.Lead.Microseconds())-t.Ahead.Microseconds()/2)
			}
		}
		for _, j := range l.in("waiting") {
			looks = append(looks, j.until)
		}
	}
	for _, j := range leased {
		looks = append(looks, j.deadline)
	}
	if len(looks) == 0 {
		return 0
	}
	return max(slices.MinFunc(looks, cmp.Compare[int64]), now)
}

func (l *fakeLane) planTurn(look int64, keep bool) {
	l.planned, l.due = look, look
	if look != 0 && keep {
		l.due = look + 50_000
	}
}

// planEarlier answers whether workers are to be woken.
func (l *fakeLane) planEarlier(look, now int64) bool {
	if look == 0 || l.due != 0 && l.planned != 0 && l.planned <= look && l.due >= l.planned {
		return false
	}
	wake := look < now+500_000 && (l.due == 0 || l.due > look+2000)
	l.planned, l.due = look, look
	return wake
}
