package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"tundish/internal/bank"
)

// BenchmarkIdleLatency pushes single jobs to an idle lane at random moments:
// from the start of the push to the arrival at the bank.
func BenchmarkIdleLatency(b *testing.B) {
	const workers = 4
	jobs := 100
	if brief() {
		jobs = 30
	}
	r := newRig(b, true)
	r.startEnqueuer()
	site := r.startBank(bank.Config{})
	r.put("bank", contract{URL: site.url, Rate: 50})
	r.startWorkers(workers)
	r.arrived(site, r.push("bank", 1), patience) // connections and scripts are there
	var waits []time.Duration
	for b.Loop() {
		for range jobs {
			after(30*time.Millisecond + rand.N(120*time.Millisecond))
			site.Reset()
			from := bank.Monotonic()
			id := r.do(http.MethodPost, r.at("bank")+"/jobs", `{"body":1}`, http.StatusAccepted).header.Get("Tundish-Job-Id")
			r.arrived(site, []string{id}, patience)
			got, _ := site.Arrivals()
			waits = append(waits, time.Duration(got[0].At-from))
		}
	}
	slices.Sort(waits)
	p50, p95, worst := waits[len(waits)/2], waits[len(waits)*95/100], waits[len(waits)-1]
	b.ReportMetric(ms(p50), "p50-ms")
	b.ReportMetric(ms(p95), "p95-ms")
	fmt.Fprintf(os.Stdout, "\nidle lane, %d workers, %d pushes: push to arrival p50 %.1f ms, p95 %.1f ms, worst %.1f ms\n\n",
		workers, len(waits), ms(p50), ms(p95), ms(worst))
}

// BenchmarkIdleCost measures what 1,000 destinations cost to which nothing is
// sent. The processor time is taken first: watching the traffic costs some.
func BenchmarkIdleCost(b *testing.B) {
	const destinations, workers = 1000, 4
	watch := 10 * time.Second
	if brief() {
		watch = 2 * time.Second
	}
	r := newRig(b, true)
	r.startEnqueuer("--destinations", idleFile(b, destinations))
	r.startWorkers(workers)
	after(2 * time.Second) // what is asked once at the start
	for b.Loop() {
		before := r.usage()
		after(watch)
		used := r.usage().since(before)
		ours, asynq := r.traffic(watch)
		redis, own := used.redis.Seconds()/watch.Seconds(), used.workers.Seconds()/watch.Seconds()
		perSecond := float64(total(ours)) / watch.Seconds()
		b.ReportMetric(perSecond, "commands/s")
		b.ReportMetric(100*redis, "%redis-cpu")
		fmt.Fprintf(os.Stdout, "\n%d idle destinations, %d workers: %.1f commands/s (and %.1f of asynq), Redis %.2f %% CPU, workers %.2f %%: %v\n\n",
			destinations, workers, perSecond, float64(total(asynq))/watch.Seconds(), 100*redis, 100*own, ours)
	}
}
