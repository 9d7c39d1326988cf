package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tundish/internal/bank"
	"tundish/internal/redistest"
)

// Redis is killed and comes back at once with its data, under load: sending
// goes on soon, and both lives of the server together keep the rate.
func TestFaultRedisRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	const rate = 50
	r := newRig(t, false, redistest.WithAOF())
	r.startEnqueuer()
	r.startWorkers(3)
	site := r.startBank(bank.Config{Latency: 100 * time.Millisecond}) // results are under way at each kill
	r.put("bank", contract{URL: site.url, Rate: rate})
	producers := r.startProducers(1, 25*time.Millisecond)
	for i := range 3 {
		r.requests(site, 40+60*i)
		r.redis.Restart(t)
		r.sendsAgain("bank", bank.Monotonic())
	}
	r.judgeKeyed("bank", site, rate, producers)
}

// Redis reads its data for a while. Who is there waits and says why; who starts
// meanwhile becomes ready with it.
func TestFaultRedisLoads(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 150
	r := newRig(t, false, redistest.WithAOF(), redistest.WithConfig("key-load-delay", "100000"),
		redistest.WithConfig("loading-process-events-interval-bytes", "1024"))
	site, ids := r.startDrain(1, rate, jobs)
	pushes := r.startStream("bank", 50*time.Millisecond)
	r.requests(site, 20)
	if err := r.redis.Client(t).BgRewriteAOF(t.Context()).Err(); err != nil { // only keys of a snapshot are delayed
		t.Fatal(err)
	}
	r.redis.WaitForLog(t, "Background AOF rewrite finished successfully")
	loaded := make(chan struct{})
	go func() { defer close(loaded); r.redis.Restart(t) }()
	t.Cleanup(func() { <-loaded })
	// A server that loads may refuse or, between two looks at its clients, say
	// nothing for longer than a call waits.
	r.eventually("the worker says that Redis does not serve", patience, func() bool {
		ready, why := r.readiness(r.workers[0])
		return !ready && strings.Contains(why, "redis")
	})
	late, door := r.spawnWorker(), r.spawnEnqueuer()
	<-loaded
	moment := bank.Monotonic()
	late.awaitWorker(r)
	door.awaitEnqueuer(r)
	r.sendsAgain("bank", moment)
	r.takenNow(pushes, soon)
	r.allReady()
	r.judgeStream("bank", site, rate, pushes, ids)
}

// Delays run on while Redis is away: what became due meanwhile goes soon after,
// the rest when it is due, and nothing before.
func TestFaultDelaysOutliveARestart(t *testing.T) {
	t.Parallel()
	const jobs, step = 10, 500 * time.Millisecond
	r := newRig(t, false, redistest.WithAOF())
	r.startEnqueuer()
	r.startWorkers(2)
	site := r.startBank(bank.Config{})
	r.put("bank", contract{URL: site.url, Rate: 50})
	due := map[string]int64{}
	var ids []string
	for n := range jobs {
		delay := time.Duration(n+1) * step
		now := bank.Monotonic()
		a := r.do(http.MethodPost, r.at("bank")+"/jobs", fmt.Sprintf(`{"body":1,"delay":"%dms"}`, delay.Milliseconds()), http.StatusAccepted)
		id := a.header.Get("Tundish-Job-Id")
		ids, due[id] = append(ids, id), now+delay.Nanoseconds()
	}
	r.requests(site, 1)
	r.redis.Kill(t)
	after(3 * step)
	r.redis.Restart(t)
	back := bank.Monotonic()
	r.recount("bank", site, ids)
	for _, w := range r.writesAfter("bank", 0) {
		if early := time.Duration(due[w.Job] - w.At); early > 0 {
			t.Errorf("a job was sent %s before it was due", early)
		}
		if late := time.Duration(w.At - max(due[w.Job], back)); late > soon {
			t.Errorf("a job was sent %s late", late)
		}
	}
	r.mustJudge("bank", site, bank.Case{Rate: 50, Per: time.Second, Jobs: jobs})
}
