package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"tundish/internal/bank"
	queues "tundish/internal/queue" // queue is a name of the rig
)

// BenchmarkIdleLatency pushes single jobs to an idle lane at random moments:
// from the start of the push to the arrival at the bank.
func BenchmarkIdleLatency(b *testing.B) {
	const workers = 4
	s := &section{file: "50-latency", title: "From push to arrival, where nothing waits",
		about: fmt.Sprintf("Single jobs at random moments, %d workers, a bank that answers at once. Ours is pushed over HTTP to an enqueuer and sent by worker processes; "+
			"asynq's is enqueued from the benchmark's process and sent by servers in it, with a plain HTTP client and asynq's own defaults. In turn, one by one.", workers),
		head: []string{"what", "pushes", "p50", "p95", "worst", "bar"}}
	r := newRig(b, true)
	r.startEnqueuer()
	site := r.startBank(bank.Config{})
	r.put("bank", contract{URL: site.url, Rate: 50})
	r.startWorkers(workers)
	r.arrived(site, r.push("bank", 1), patience) // connections and scripts are there
	p := openLanes(b, r.redis).openPeer()
	p.serve(workers, site.url)
	var ours, theirs []float64
	for b.Loop() {
		for range either(6, 25) {
			ours = append(ours, r.arrives(site, func() string {
				return r.do(http.MethodPost, r.at("bank")+"/jobs", `{"body":1}`, http.StatusAccepted).header.Get("Tundish-Job-Id")
			}))
			theirs = append(theirs, r.arrives(site, func() string {
				t, err := p.asynq.Enqueue(asynq.NewTask("bench", []byte("1")))
				if err != nil {
					b.Fatal(err)
				}
				return t.ID
			}))
		}
	}
	row := func(what string, waits []float64, bar string) {
		s.row(what, count(len(waits)), fmt.Sprintf("%.1f ms", median(waits)), fmt.Sprintf("%.1f ms", percentile(waits, 95)),
			fmt.Sprintf("%.1f ms", percentile(waits, 100)), bar)
	}
	row("tundish", ours, bar(median(ours) <= median(theirs) && percentile(ours, 95) <= percentile(theirs, 95), "no more than asynq"))
	row("asynq", theirs, "")
	b.ReportMetric(median(ours), "p50-ms")
	b.ReportMetric(percentile(ours, 95), "p95-ms")
	s.publish(b)
}

// arrives is how long a push takes to the bank, ms.
func (r *rig) arrives(site *site, push func() string) float64 {
	r.Helper()
	after(30*time.Millisecond + rand.N(120*time.Millisecond))
	site.Reset()
	from := bank.Monotonic()
	r.arrived(site, []string{push()}, patience)
	got, _ := site.Arrivals()
	return ms(time.Duration(got[0].At - from))
}

// serve starts servers of asynq that send what is enqueued.
func (p *peer) serve(servers int, url string) {
	p.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	client := &http.Client{Transport: transport}
	p.Cleanup(transport.CloseIdleConnections)
	send := func(ctx context.Context, t *asynq.Task) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
		if err != nil {
			return err
		}
		id, _ := asynq.GetTaskID(ctx)
		req.Header.Set("Tundish-Job-Id", id)
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		return res.Body.Close()
	}
	for range servers {
		server := asynq.NewServerFromRedisClient(p.server.Client(p), asynq.Config{Concurrency: 4, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Second})
		if err := server.Start(asynq.HandlerFunc(send)); err != nil {
			p.Fatal(err)
		}
		p.Cleanup(server.Shutdown)
	}
}

// mostSweep is the share of a core that sweeps may take, of Redis and the worker together.
const mostSweep = 0.02

// BenchmarkIdleCost measures what destinations cost to which nothing is sent.
// The processor time is taken first: watching the traffic costs some.
func BenchmarkIdleCost(b *testing.B) {
	const workers = 4
	s := &section{file: "60-idle", title: "Destinations to which nothing is sent",
		about: fmt.Sprintf("One enqueuer, %d workers, no job. *Commands* are those that clients send, by `MONITOR`; asynq's are those of the background work inside our workers. "+
			"*Redis* and *workers* (all together) are shares of a core. *Sweep* is the comparison of all lanes with their due entries that one worker of the fleet makes each minute: "+
			"how long one takes that is not spread over its minute, and what it costs of a core over its minute, Redis and worker together.", workers),
		head: []string{"destinations", "commands/s", "asynq's", "Redis", "workers", "sweep takes", "sweep CPU", "bar: commands", "bar: sweep"}}
	first := 0.0
	for _, n := range either([]int{200, 2000}, []int{1000, 10_000, 100_000}) {
		b.Run(fmt.Sprintf("destinations=%d", n), func(b *testing.B) {
			c := idleCost(b, n, workers)
			if first == 0 {
				first = c.commands
			}
			s.row(count(n), fmt.Sprintf("%.1f", c.commands), fmt.Sprintf("%.1f", c.asynq), fmt.Sprintf("%.2f %%", 100*c.redis), fmt.Sprintf("%.2f %%", 100*c.workers),
				fmt.Sprintf("%.1f s", c.sweep.Seconds()), fmt.Sprintf("%.2f %%", 100*c.sweepShare),
				bar(c.commands <= 1.25*first, "as with the fewest"), bar(c.sweepShare <= mostSweep, "≤ %.0f %%", 100*mostSweep))
			b.ReportMetric(c.commands, "commands/s")
			b.ReportMetric(100*c.redis, "%redis-cpu")
		})
	}
	s.publish(b)
}

type idle struct {
	commands, asynq float64 // a second
	redis, workers  float64 // shares of a core
	sweep           time.Duration
	sweepShare      float64
}

func idleCost(b *testing.B, n, workers int) idle {
	r := newRig(b, true)
	l := openLanes(b, r.redis)
	r.startEnqueuer()
	l.applyMany("idle", "https://bank.example/", n, 50, time.Second)
	r.startWorkers(workers)
	after(2 * time.Second) // what is asked once at the start
	watch := either(time.Second, 4*time.Second)
	var commands, asynq, redis, own []float64
	for b.Loop() { // ends before the workers' first sweep, a minute after their start
		before := r.usage()
		after(watch)
		used := r.usage().since(before)
		ours, theirs := r.traffic(watch)
		commands, asynq = append(commands, float64(total(ours))/watch.Seconds()), append(asynq, float64(total(theirs))/watch.Seconds())
		redis, own = append(redis, used.redis.Seconds()/watch.Seconds()), append(own, used.workers.Seconds()/watch.Seconds())
	}
	c := idle{commands: median(commands), asynq: median(asynq), redis: median(redis), workers: median(own)}
	for _, w := range r.workers {
		w.kill()
	}
	c.sweep, c.sweepShare = l.sweep()
	return c
}

// sweep looks at all lanes as the worker does, but in less time: how long that
// takes when nothing is to be spread, and the share of a core that it needs over its minute.
func (l *lanes) sweep() (took time.Duration, share float64) {
	l.Helper()
	before, begin := cpu(l, os.Getpid())+cpu(l, l.server.PID()), time.Now()
	found, err := l.store.Sweep(context.Background(), 0)
	took = time.Since(begin)
	if err != nil || found != (queues.Repairs{}) {
		l.Errorf("a sweep of idle lanes mended %+v: %v", found, err)
	}
	used := cpu(l, os.Getpid()) + cpu(l, l.server.PID()) - before
	return took, used.Seconds() / time.Minute.Seconds()
}
