package e2e

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	queues "tundish/internal/queue" // queue is a name of the rig
)

const smallBody = 300

// peer is asynq on the same Redis.
type peer struct {
	*lanes
	asynq *asynq.Client
}

func (l *lanes) openPeer() *peer { return &peer{l, asynq.NewClientFromRedisClient(l.client)} }

func (p *peer) enqueue(body []byte) {
	if _, err := p.asynq.Enqueue(asynq.NewTask("bench", body), asynq.MaxRetry(5)); err != nil {
		p.Error(err)
	}
}

// among divides calls 0 to n−1 among goroutines and answers how long they took.
func among(goroutines, n int, call func(i int)) time.Duration {
	var next atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for range goroutines {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				call(i)
			}
		})
	}
	wg.Wait()
	return time.Since(begin)
}

// perSecond of n things that took so long.
func perSecond(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

// manyCallers is how many push at the same time.
const manyCallers = 64

// BenchmarkStore pushes and turns in this process, beside asynq's client and
// server doing the same, in turn, on the same Redis.
func BenchmarkStore(b *testing.B) {
	s := &section{file: "30-store", title: "Jobs through Redis, unthrottled",
		about: fmt.Sprintf("No HTTP, no rate to keep, bodies of %d bytes, one process, one Redis; ours and asynq take turns and each figure is the median. ", smallBody) +
			fmt.Sprintf("%d callers push or enqueue at once. A turn of ours settles 50 delivered jobs and leases 50 more, for %d destinations at once; asynq runs its server, %d tasks at once, with a handler that does nothing. *Ratio* is ours over asynq's.", manyCallers, storeLanes, manyCallers),
		head: []string{"what", "jobs/s", "asynq", "ratio", "bar"}}
	l := openLanes(b, newRig(b, true).redis)
	n := either(2000, 40_000)
	var batch, single, turns, enqueue, process []float64
	for b.Loop() {
		l.emptyLanes()
		batch = append(batch, l.pushed(manyCallers, 100, n))
		l.emptyLanes()
		single = append(single, l.pushed(manyCallers, 1, n/2))
		turns = append(turns, l.turned(n/2))
		l.empty()
		p := l.openPeer()
		enqueue = append(enqueue, perSecond(n/2, among(manyCallers, n/2, func(int) { p.enqueue(bodyOf(smallBody)) })))
		process = append(process, p.processed(n/2))
	}
	row := func(what string, ours, theirs []float64, least float64) {
		ratio, verdict := median(ours)/median(theirs), ""
		if least > 0 {
			verdict = bar(ratio >= least, "≥ %.1f", least)
		}
		s.row(what, count(median(ours)), count(median(theirs)), fmt.Sprintf("%.2f", ratio), verdict)
	}
	row("push, calls of 100", batch, enqueue, 1.2)
	row("push, one by one", single, enqueue, 0) // which the door makes calls of many of
	row("turns of 50", turns, process, 5)
	b.ReportMetric(median(batch)/median(enqueue), "push-ratio")
	b.ReportMetric(median(turns)/median(process), "turn-ratio")
	s.publish(b)
}

// storeLanes is over how many lanes turns go: one is spaced out to 50,000 a second.
const storeLanes = 4

func (l *lanes) emptyLanes() {
	l.Helper()
	l.empty()
	for i := range storeLanes {
		l.apply("bank-"+strconv.Itoa(i), "https://bank.example/", 50_000, time.Second, roomy)
	}
}

// pushed is how many jobs a second so many callers push, size in a call.
func (l *lanes) pushed(callers, size, n int) float64 {
	body := bodyOf(smallBody)
	return perSecond(n, among(callers, n/size, func(i int) {
		l.push("bank-"+strconv.Itoa(i%storeLanes), newJobs(size, body, nil))
	}))
}

// turned is how many jobs a second are leased and settled, the lanes at once.
func (l *lanes) turned(n int) float64 {
	var call atomic.Uint64
	return perSecond(n, among(storeLanes, storeLanes, func(lane int) { l.drained("bank-"+strconv.Itoa(lane), n/storeLanes, &call) }))
}

// drained leases and settles n jobs of a lane.
func (l *lanes) drained(lane string, n int, call *atomic.Uint64) {
	const size = 50
	var results []queues.Result
	for done, idle := 0, 0; done < n; {
		r := l.store.Turns(context.Background(), "w1", []queues.Turn{{Lane: lane, Call: call.Add(1), Want: size, Ahead: 400 * time.Millisecond, Result: results}})[0]
		if idle++; r.Err != nil || idle > 1000 {
			l.Errorf("%s: %d jobs of %d were settled: %v", lane, done, n, r.Err)
			return
		}
		done += len(results)
		results = delivered(r.Leases)
		if len(r.Leases) > 0 {
			idle = 0
		}
	}
}

func delivered(leases []queues.Lease) []queues.Result {
	out := make([]queues.Result, len(leases))
	for i, l := range leases {
		out[i] = queues.Result{ID: l.ID, Token: l.Token, Kind: queues.KindDelivered, Outcome: "delivered", Note: []byte("{}"), Counts: true}
	}
	return out
}

// processed is how many tasks a second asynq's server gets through.
func (p *peer) processed(n int) float64 {
	p.Helper()
	left := atomic.Int64{}
	left.Store(int64(n))
	done := make(chan struct{})
	server := asynq.NewServerFromRedisClient(p.client, asynq.Config{Concurrency: manyCallers, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Second})
	begin := time.Now()
	err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if left.Add(-1) == 0 {
			close(done)
		}
		return nil
	}))
	if err != nil {
		p.Fatal(err)
	}
	defer server.Shutdown()
	select {
	case <-done:
	case <-time.After(2 * patience):
		p.Errorf("asynq has left %d tasks", left.Load())
	}
	return perSecond(n, time.Since(begin))
}

// BenchmarkMemory measures what Redis keeps for each queued job.
func BenchmarkMemory(b *testing.B) {
	s := &section{file: "40-memory", title: "Memory for a queued job",
		about: fmt.Sprintf("`used_memory` of Redis before and after %s jobs with bodies of %d bytes, divided. asynq takes the same body.", count(either(10_000, 20_000)), smallBody),
		head:  []string{"what", "bytes/job", "asynq", "ratio", "bar"}}
	l := openLanes(b, newRig(b, true).redis)
	n := either(10_000, 20_000)
	body := bodyOf(smallBody)
	grown := func(prepare, fill func()) float64 {
		l.empty()
		prepare()
		before := l.memory()
		fill()
		return float64(l.memory()-before) / float64(n)
	}
	var plain, keyed, theirs []float64
	for b.Loop() {
		p := l.openPeer()
		for _, of := range []struct {
			key  func(int) string
			into *[]float64
		}{{nil, &plain}, {func(i int) string { return "order-" + strconv.Itoa(i) }, &keyed}} {
			*of.into = append(*of.into, grown(l.emptyLanes, func() {
				jobs := newJobs(n, body, of.key)
				for i := 0; i < n; i += 100 {
					l.push("bank-0", jobs[i:i+100])
				}
			}))
		}
		theirs = append(theirs, grown(func() { p.enqueue(body) }, func() { among(16, n, func(int) { p.enqueue(body) }) }))
	}
	for _, r := range []struct {
		what string
		ours []float64
		most float64
	}{{"without Idempotency-Key", plain, 0.8}, {"with Idempotency-Key", keyed, 1}} {
		ratio := median(r.ours) / median(theirs)
		s.row(r.what, count(median(r.ours)), count(median(theirs)), fmt.Sprintf("%.2f", ratio), bar(ratio <= r.most, "≤ %.1f", r.most))
	}
	b.ReportMetric(median(plain), "B/job")
	b.ReportMetric(median(keyed), "B/job-keyed")
	s.publish(b)
}

// memory is what Redis says it uses.
func (l *lanes) memory() int64 { return l.info("memory", "used_memory") }
