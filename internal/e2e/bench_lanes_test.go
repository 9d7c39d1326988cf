package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"tundish/internal/bank"
)

// crowd is many lanes that share a total rate.
type crowd struct {
	lanes int
	rate  int64 // of each
	per   time.Duration
}

func (c crowd) total() float64 { return float64(c.lanes) * float64(c.rate) / c.per.Seconds() }

// pass is how long it takes to push one round of jobs: what each lane may send in its per.
func (c crowd) pass() time.Duration { return max(either(time.Second, 2*time.Second), c.per) }

// BenchmarkLanes spreads one total rate over more and more lanes, with pushes
// going on: what a job costs by the rate of its lane.
func BenchmarkLanes(b *testing.B) {
	const workers = 2
	s := &section{file: "70-lanes", title: "Many destinations",
		about: fmt.Sprintf("The same total spread over more and more destinations, %d workers, one bank process, and a producer that keeps up with them, straight to the store. "+
			"*Use* is the share of all rates together; *of 99 %%* is what 99 %% of the lanes reach at least. *Redis* is its share of a core, pushes included, also divided by the jobs sent; the producer goes on at the whole rate where the workers fall behind. "+
			"*Above* counts lanes that ever sent more than their rate in a window.", workers),
		head: []string{"destinations", "rate of each", "use", "of 99 %", "above", "Redis", "Redis/job", "scripts/job", "dead slots/job", "worker CPU/job", "bar"}}
	for _, c := range either([]crowd{{1, 200, time.Second}, {200, 1, time.Second}},
		[]crowd{{1, 2000, time.Second}, {100, 20, time.Second}, {1000, 2, time.Second}, {10_000, 1, 5 * time.Second}}) {
		b.Run(fmt.Sprintf("lanes=%d", c.lanes), func(b *testing.B) { crowded(b, s, c, workers) })
	}
	s.publish(b)
}

func crowded(b *testing.B, s *section, c crowd, workers int) {
	r := newRig(b, true)
	r.look = 100 * time.Millisecond
	r.startEnqueuer()
	site := r.startBankProcess(20 * time.Millisecond)
	l := openLanes(b, r.redis)
	l.applyMany("lane", site.url, c.lanes, c.rate, c.per)
	r.startWorkers(workers)
	stop := l.feed(c)
	after(c.pass() + either(500*time.Millisecond, 2*time.Second))
	begin, before := bank.Monotonic(), r.usage()
	for b.Loop() {
		after(max(either(2*time.Second, 5*time.Second), either(c.per, 3*c.per)))
	}
	end, took := bank.Monotonic(), time.Since(before.at).Seconds()
	used := r.usage().since(before)
	stop()
	writes := r.writesBetween(begin, end)
	jobs := 0
	var uses []float64
	above := 0
	for _, stamps := range writes {
		jobs += len(stamps)
		if bank.Worst(stamps, c.per) > int(c.rate) {
			above++
		}
		if len(stamps) > 1 {
			uses = append(uses, bank.Use(stamps, c.rate, c.per))
		}
	}
	slowest := percentile(uses, 1)
	if len(uses) < c.lanes && !brief() {
		slowest = 0 // a lane that sent nothing used nothing
	}
	use := float64(jobs) / took / c.total()
	share := used.redis.Seconds() / took
	ok := use >= 0.985 && slowest >= 0.98 && share < 0.6 && above == 0
	s.row(count(c.lanes), fmt.Sprintf("%d per %s", c.rate, short(c.per)), fmt.Sprintf("%.2f %%", 100*use), fmt.Sprintf("%.2f %%", 100*slowest), count(above),
		fmt.Sprintf("%.0f %%", 100*share), fmt.Sprintf("%.0f µs", micros(used.redis)/float64(jobs)), fmt.Sprintf("%.3f", float64(used.scripts)/float64(jobs)), fmt.Sprintf("%.3f", float64(used.dead)/float64(jobs)),
		fmt.Sprintf("%.0f µs", micros(used.workers)/float64(jobs)), bar(ok, "use ≥ 98.5 %%, of 99 %% ≥ 98 %%, none above, Redis < 60 %%"))
	b.ReportMetric(100*use, "%use")
	b.ReportMetric(100*share, "%redis-cpu")
	if above > 0 {
		b.Errorf("%d lanes were above their rate", above)
	}
}

// writesBetween are the moments of all writes in a span, by lane.
func (r *rig) writesBetween(from, to int64) map[string][]int64 {
	r.Helper()
	r.eventually("the write logs of the span", patience, func() bool { return bank.Monotonic() > to+int64(500*time.Millisecond) })
	out := map[string][]int64{}
	for _, w := range r.writes(r.logs...) {
		if w.At >= from && w.At < to {
			out[w.Lane] = append(out[w.Lane], w.At)
		}
	}
	return out
}

const (
	feedTick   = 100 * time.Millisecond
	feedCalls  = 8 // at once
	feedDouble = 2 // jobs for one during the first pass: then each lane has some in stock
)

// feed pushes to the lanes in turn, as fast as they may send, until it is
// stopped. The lanes begin spread over a pass, and do not march in step.
func (l *lanes) feed(c crowd) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); done.Wait() }) }
	l.Cleanup(stop)
	done.Go(func() {
		tick := time.NewTicker(feedTick)
		defer tick.Stop()
		begin, fed := time.Now(), 0
		for ctx.Err() == nil {
			gone := time.Since(begin)
			l.feedSome(c, fed, int(gone.Seconds()*c.total()), gone < c.pass())
			fed = max(fed, int(gone.Seconds()*c.total()))
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return stop
}

// feedSome pushes the jobs from to to−1 of the stream, each lane's in one call.
func (l *lanes) feedSome(c crowd, from, to int, double bool) {
	counts := map[int]int{}
	for i := from; i < to; i++ {
		counts[i%c.lanes]++
	}
	var order []int
	for lane := range counts {
		order = append(order, lane)
	}
	slices.Sort(order)
	body := bodyOf(smallBody)
	among(feedCalls, len(order), func(i int) {
		n := counts[order[i]]
		if double {
			n *= feedDouble
		}
		l.push("lane-"+strconv.Itoa(order[i]), newJobs(n, body, nil))
	})
}
