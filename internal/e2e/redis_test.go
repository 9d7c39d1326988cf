package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tundish/internal/bank"
	"tundish/internal/redistest"
)

// stream pushes one job after the other until it is stopped, and keeps what
// was answered.
type stream struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	taken   []string
	refused []answer
}

func (r *rig) startStream(destination string, every time.Duration) *stream {
	r.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &stream{stop: stop}
	r.Cleanup(func() { stop(); s.done.Wait() })
	url := r.at(destination) + "/jobs"
	s.done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			a, err := r.try(http.MethodPost, url, `{"body":1}`)
			if err != nil {
				r.Error(err) // an enqueuer that lives always answers
				return
			}
			s.note(a)
		}
	})
	return s
}

func (s *stream) note(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.status == http.StatusAccepted {
		s.taken = append(s.taken, a.header.Get("Tundish-Job-Id"))
	} else {
		s.refused = append(s.refused, a)
	}
}

// end stops the stream and answers the ids of jobs that were taken and all other answers.
func (s *stream) end() ([]string, []answer) {
	s.stop()
	s.done.Wait()
	return s.taken, s.refused
}

func (s *stream) count() (taken, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken), len(s.refused)
}

// readiness is what /readyz answers.
func (r *rig) readiness(s *server) (ready bool, why string) {
	r.Helper()
	a, err := r.try(http.MethodGet, s.admin+"/readyz", "")
	if err != nil {
		r.Fatal(err)
	}
	return a.status == http.StatusOK, string(a.body)
}

func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	const rate = 50
	r := newRig(t, false, redistest.WithAOF())
	r.startEnqueuer()
	r.startWorkers(2)
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: rate})
	backlog := r.push("bank", 150)
	pushes := r.startStream("bank", 20*time.Millisecond)
	r.requests(site, 40)

	r.redis.Kill(t)
	_, before := pushes.count()
	r.eventually("pushes are refused", patience, func() bool { _, n := pushes.count(); return n >= before+3 })
	for _, s := range append([]*server{r.enqueuers[0]}, r.workers...) {
		r.eventually(s.name+" says that Redis is away", patience, func() bool {
			ready, why := r.readiness(s)
			return !ready && strings.Contains(why, "redis")
		})
		if a, err := r.try(http.MethodGet, s.admin+"/healthz", ""); err != nil || a.status != http.StatusOK {
			t.Errorf("%s is not alive while Redis is away: %v, %d", s.name, err, a.status)
		}
	}
	stopped, _ := site.Arrivals()
	after(time.Second)
	if later, _ := site.Arrivals(); len(later) > len(stopped) {
		t.Errorf("%d requests were sent without Redis", len(later)-len(stopped))
	}

	r.redis.Restart(t)
	for _, s := range append([]*server{r.enqueuers[0]}, r.workers...) {
		r.eventually(s.name+" is ready again", patience, func() bool { ready, _ := r.readiness(s); return ready })
	}
	taken, _ := pushes.count()
	r.eventually("pushes are taken again", patience, func() bool { n, _ := pushes.count(); return n >= taken+3 })
	ids, refused := pushes.end()
	for _, a := range refused {
		if a.status != http.StatusServiceUnavailable {
			t.Errorf("a push was answered with %d: %s", a.status, a.body)
		}
		r.mustRetryLater(a, "unavailable")
	}
	r.arrived(site, append(ids, backlog...), patience)
	r.settled("bank")
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second})
}

func TestRedisComesBackEmpty(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	file := filepath.Join(t.TempDir(), "destinations.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "destinations:\n- name: bank\n  target: {http: {url: %q}}\n"+
		"  limits: [{algorithm: leaky_bucket, rate: 50, per: 1s}]\n", site.url), 0o600); err != nil {
		t.Fatal(err)
	}
	r.startEnqueuer("--destinations", file)
	r.put("by-api", contract{URL: site.url, Rate: 50})
	r.startWorkers(2)
	r.push("bank", 100)
	r.requests(site, 50)

	flushed := time.Now()
	if err := r.redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	r.eventually("the file's destination takes jobs", 5*time.Second, func() bool {
		a, err := r.try(http.MethodPost, r.at("bank")+"/jobs", `{"body":"after"}`)
		if err != nil || a.status >= http.StatusInternalServerError && a.status != http.StatusServiceUnavailable {
			t.Fatalf("%v, %d: %s", err, a.status, a.body)
		}
		if a.status == http.StatusAccepted {
			ids = append(ids, a.header.Get("Tundish-Job-Id"))
		}
		return len(ids) == 10
	})
	r.arrived(site, ids, 5*time.Second-time.Since(flushed))
	r.do(http.MethodPost, r.at("by-api")+"/jobs", `{"body":1}`, http.StatusNotFound)
	// What was in the lane is gone with the memory; the rate is not.
	r.mustJudgeWrites("bank", site, 50)
}

func TestScriptsAreFlushedUnderLoad(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 150
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(2)
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: rate})
	redis := r.redis.Client(t)
	ctx, stop := context.WithCancel(t.Context())
	var flushing sync.WaitGroup
	t.Cleanup(func() { stop(); flushing.Wait() })
	flushing.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := redis.ScriptFlush(context.Background()).Err(); err != nil {
				t.Error(err)
			}
			<-tick.C
		}
	})
	pushes := r.startStream("bank", 20*time.Millisecond)
	r.eventually("jobs are taken", patience, func() bool { n, _ := pushes.count(); return n >= jobs || t.Failed() })
	ids, refused := pushes.end()
	if len(refused) > 0 {
		t.Errorf("%d pushes were refused, the first with %d: %s", len(refused), refused[0].status, refused[0].body)
	}
	r.arrived(site, ids, patience)
	r.settled("bank")
	stop()
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: len(ids)})
}
