package e2e

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
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
	if l := r.live(destination); l.Dead != 0 {
		r.Errorf("%d jobs are dead", l.Dead)
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

// keyed pushes jobs with a key each, and each of them until it is taken, as a
// producer does that must lose none and make none twice.
type keyed struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex
	ids   []string
	tries int
}

func (r *rig) startKeyed(url, prefix string, every time.Duration) *keyed {
	ctx, stop := context.WithCancel(context.Background())
	k := &keyed{stop: stop}
	r.Cleanup(func() { stop(); k.done.Wait() })
	k.done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			key := fmt.Sprintf("%s-%d", prefix, n)
			for { // a key that was begun is pushed to its end
				<-tick.C
				a, err := r.try(http.MethodPost, url, `{"body":1}`, "Idempotency-Key", key)
				if err != nil {
					r.Error(err)
					return
				}
				if k.note(a) {
					break
				}
				if a.status != http.StatusServiceUnavailable {
					r.Errorf("a push was answered with %d: %s", a.status, a.body)
					return
				}
			}
		}
	})
	return k
}

func (k *keyed) note(a answer) (taken bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tries++
	if a.status == http.StatusAccepted {
		k.ids = append(k.ids, a.header.Get("Tundish-Job-Id"))
	}
	return a.status == http.StatusAccepted
}

// end stops when the last key is taken and answers one id a key.
func (k *keyed) end(t testing.TB) []string {
	t.Helper()
	k.stop()
	k.done.Wait()
	seen := map[string]bool{}
	for _, id := range k.ids {
		if seen[id] {
			t.Errorf("job %s was answered to two keys", id)
		}
		seen[id] = true
	}
	return k.ids
}

// startProducers starts n producers with keys of their own.
func (r *rig) startProducers(n int, every time.Duration) []*keyed {
	producers := make([]*keyed, n)
	for i := range producers {
		producers[i] = r.startKeyed(r.at("bank")+"/jobs", fmt.Sprintf("p%d", i), every)
	}
	return producers
}

// judgeKeyed ends the producers and holds all that they were told against the
// bank: each key is one job, sent once, at the rate.
func (r *rig) judgeKeyed(destination string, s *site, rate int64, producers []*keyed) (keys, tries int) {
	r.Helper()
	var ids []string
	for _, p := range producers {
		ids = append(ids, p.end(r)...)
		tries += p.tries
	}
	r.recount(destination, s, ids)
	r.mustJudge(destination, s, bank.Case{Rate: rate, Per: time.Second, Jobs: len(ids)})
	if seen, _ := s.Arrivals(); len(seen) != len(ids) {
		r.Errorf("%d requests for %d keys", len(seen), len(ids))
	}
	r.Logf("%d keys in %d pushes", len(ids), tries)
	return len(ids), tries
}
