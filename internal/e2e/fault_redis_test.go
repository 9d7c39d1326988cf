package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tundish/internal/bank"
	"tundish/internal/redistest"
)

// A full Redis takes no more jobs, and what it holds is drained all the same:
// that is what makes room.
func TestFaultRedisIsFull(t *testing.T) {
	t.Parallel()
	const rate = 50
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(2)
	var failing atomic.Bool
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond, Script: func(int, *http.Request) *bank.Answer {
		if failing.Load() {
			return &bank.Answer{Status: http.StatusInternalServerError}
		}
		return nil
	}})
	r.put("bank", contract{URL: site.url, Rate: rate, More: `, "breaker": {"failures": 0}`})
	backlog := r.push("bank", 200)
	pushes := r.startStream("bank", 20*time.Millisecond)
	r.requests(site, 40)

	r.redis.Config(t, "maxmemory", "100kb")
	r.refusedNow(pushes)
	moment := bank.Monotonic()
	failing.Store(true) // what fails now has to be kept for a retry
	after(500 * time.Millisecond)
	failing.Store(false)
	after(1500 * time.Millisecond)
	if n := len(r.writesAfter("bank", moment)); n < rate {
		t.Errorf("%d requests in 2 s while Redis was full, want at least %d", n, rate)
	}
	if l := r.live("bank"); l.State != "running" {
		t.Errorf("the destination is %q while Redis is full", l.State)
	}
	if r.metric(r.enqueuers[0], `tundish_redis_errors_total\{kind="oom"`) == 0 {
		t.Error("no metric tells that Redis is full")
	}
	r.redis.Config(t, "maxmemory", "0")
	r.takenNow(pushes, soon)
	r.judgeStream("bank", site, rate, pushes, backlog)
}

// writesRefused holds what must be while Redis answers reads and refuses
// writes, and after it: nothing is sent without a lease, nothing is lost.
func writesRefused(t *testing.T, kind string, refuse, allow func(*rig)) {
	t.Helper()
	const rate = 50
	r := newRig(t, false, redistest.WithAOF())
	site, backlog := r.startDrain(2, rate, 150)
	pushes := r.startStream("bank", 20*time.Millisecond)
	r.requests(site, 40)

	refuse(r)
	begin := bank.Monotonic()
	r.refusedNow(pushes)
	r.sendsNothing("bank", begin, 2*time.Second)
	for _, s := range r.servers() {
		if r.metric(s, `tundish_redis_errors_total\{kind="`+kind+`"`) == 0 {
			t.Errorf("no metric of %s tells of %s", s.name, kind)
		}
	}
	for _, w := range r.workers {
		if lines := strings.Count(w.log(), kind); lines > 4 {
			t.Errorf("%s said %d times in some seconds that Redis is %s", w.name, lines, kind)
		}
	}
	r.do(http.MethodGet, r.at("bank")+"/jobs/"+backlog[0], "", http.StatusOK)
	allow(r)
	moment := bank.Monotonic()
	r.takenNow(pushes, soon)
	r.sendsAgain("bank", moment)
	r.judgeStream("bank", site, rate, pushes, backlog)
}

func TestFaultRedisIsAReplica(t *testing.T) {
	t.Parallel()
	follow := func(host, port string) func(*rig) {
		return func(r *rig) {
			if err := r.redis.Client(r).SlaveOf(r.Context(), host, port).Err(); err != nil {
				r.Fatal(err)
			}
		}
	}
	writesRefused(t, "readonly", follow("127.0.0.1", "1"), follow("NO", "ONE"))
}

// Redis cannot write its snapshot: a folder stands where the file goes.
func TestFaultRedisCannotSave(t *testing.T) {
	t.Parallel()
	save := func(r *rig, log string) {
		if err := r.redis.Client(r).BgSave(r.Context()).Err(); err != nil {
			r.Fatal(err)
		}
		r.redis.WaitForLog(r, log)
	}
	obstacle := func(r *rig) string { return filepath.Join(r.redis.Dir(), "dump.rdb") }
	writesRefused(t, "misconf", func(r *rig) {
		if err := os.MkdirAll(filepath.Join(obstacle(r), "full"), 0o700); err != nil {
			r.Fatal(err)
		}
		r.redis.Config(r, "save", "3600 1000000")
		save(r, "Background saving error")
	}, func(r *rig) {
		if err := os.RemoveAll(obstacle(r)); err != nil {
			r.Fatal(err)
		}
		save(r, "Background saving terminated with success")
	})
}
