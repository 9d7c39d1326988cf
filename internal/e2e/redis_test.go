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
	site, backlog := r.startDrain(2, rate, 150)
	pushes := r.startStream("bank", 20*time.Millisecond)
	r.requests(site, 40)

	r.redis.Kill(t)
	r.refusedNow(pushes)
	for _, s := range r.servers() {
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
	r.allReady()
	r.takenNow(pushes, patience)
	r.judgeStream("bank", site, rate, pushes, backlog)
}

// Redis comes back empty, flushed or as another server: what a file says is
// there again, what was only in Redis is not, and the rate holds through it.
func TestRedisComesBackEmpty(t *testing.T) {
	t.Parallel()
	for name, empty := range map[string]func(*rig) error{
		"flushed":   func(r *rig) error { return r.redis.Client(r).FlushAll(r.Context()).Err() },
		"restarted": func(r *rig) error { r.redis.Restart(r); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const rate, within = 50, 5 * time.Second
			r := newRig(t, false)
			site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
			file := filepath.Join(t.TempDir(), "destinations.yaml")
			if err := os.WriteFile(file, fmt.Appendf(nil, "destinations:\n- name: bank\n  target: {http: {url: %q}}\n"+
				"  limits: [{algorithm: leaky_bucket, rate: %d, per: 1s}]\n", site.url, rate), 0o600); err != nil {
				t.Fatal(err)
			}
			r.startEnqueuer("--destinations", file)
			r.put("by-api", contract{URL: site.url, Rate: rate})
			r.startWorkers(2)
			r.push("bank", 100)
			r.requests(site, 50)
			if err := empty(r); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			var ids []string
			r.eventually("the file's destination takes jobs", within, func() bool {
				a, err := r.try(http.MethodPost, r.at("bank")+"/jobs", `{"body":"after"}`)
				if err != nil || a.status >= http.StatusInternalServerError && a.status != http.StatusServiceUnavailable {
					t.Fatalf("%v, %d: %s", err, a.status, a.body)
				}
				if a.status == http.StatusAccepted {
					ids = append(ids, a.header.Get("Tundish-Job-Id"))
				}
				return len(ids) == 10
			})
			r.arrived(site, ids, within-time.Since(begin))
			r.recount("bank", site, ids)
			r.do(http.MethodPost, r.at("by-api")+"/jobs", `{"body":1}`, http.StatusNotFound)
			// What was in the lane is gone with the memory; the rate is not.
			r.mustJudgeWrites("bank", site, rate)
		})
	}
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
