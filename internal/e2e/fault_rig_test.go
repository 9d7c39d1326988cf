package e2e

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"tundish/internal/bank"
)

// soon is how long after the end of a fault sending must have begun again.
const soon = 2 * time.Second

// recount looks for each job that was taken, at the bank and in the API: it was
// accepted there and is delivered here, and nothing is left or dead.
func (r *rig) recount(destination string, s *site, ids []string) {
	r.Helper()
	r.arrived(s, ids, patience)
	r.settled(destination)
	for _, id := range ids {
		if j := r.job(destination, id); j.State != "delivered" {
			r.Errorf("job %s was taken and is %q", id, j.State)
		}
	}
	if l := r.live(destination); l.Dead+l.Unknown != 0 {
		r.Errorf("%d jobs are dead or unknown", l.Dead+l.Unknown)
	}
	if len(ids) == 0 {
		r.Error("no job was taken: the test shows nothing")
	}
}

// sendsAgain waits for the first write after a moment, which must come soon.
func (r *rig) sendsAgain(destination string, moment int64) {
	r.Helper()
	var late []bank.Write
	r.eventually("a write after the fault", patience, func() bool {
		late = r.writesAfter(destination, moment)
		return len(late) > 0
	})
	first := slices.MinFunc(late, func(a, b bank.Write) int { return int(a.At - b.At) })
	if waited := time.Duration(first.At - moment); waited > soon {
		r.Errorf("the first write came %s after the end of the fault, want at most %s", waited, soon)
	}
}

// sendsNothing watches for that long that nothing is written; what was granted
// before may still go, within the furthest horizon.
func (r *rig) sendsNothing(destination string, from int64, watch time.Duration) {
	r.Helper()
	from += (500 * time.Millisecond).Nanoseconds()
	after(watch)
	if n := len(r.writesAfter(destination, from)); n > 0 {
		r.Errorf("%d requests were written while no slot could be granted", n)
	}
}

// allReady waits until each program says that it can work.
func (r *rig) allReady() {
	r.Helper()
	for _, s := range r.servers() {
		r.eventually(s.name+" is ready", patience, func() bool { ready, _ := r.readiness(s); return ready })
	}
}

// refusedNow waits until more pushes of the stream were refused.
func (r *rig) refusedNow(s *stream) {
	r.Helper()
	_, before := s.count()
	r.eventually("pushes are refused", patience, func() bool { _, n := s.count(); return n >= before+3 })
}

// takenNow waits until more pushes of the stream were taken.
func (r *rig) takenNow(s *stream, within time.Duration) {
	r.Helper()
	before, _ := s.count()
	r.eventually("pushes are taken", within, func() bool { n, _ := s.count(); return n >= before+3 })
}

// allRetryLater holds refusals against what callers are promised.
func (r *rig) allRetryLater(refused []answer) {
	r.Helper()
	for _, a := range refused {
		if a.status != http.StatusServiceUnavailable {
			r.Errorf("a push was answered with %d: %s", a.status, a.body)
			continue
		}
		r.mustRetryLater(a, "unavailable")
	}
}

// metric is the sum of the series of a metric that match, as a program shows them.
func (r *rig) metric(s *server, series string) float64 {
	r.Helper()
	sum := 0.0
	text := r.do(http.MethodGet, s.admin+"/metrics", "", http.StatusOK).body
	for _, m := range regexp.MustCompile(`(?m)^`+series+`\S* (\S+)$`).FindAllSubmatch(text, -1) {
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			r.Fatal(err)
		}
		sum += v
	}
	return sum
}
