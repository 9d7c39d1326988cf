package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"tundish/internal/bank"
	"tundish/internal/deliver"
	"tundish/internal/drain"
	"tundish/internal/job"
)

// stamper keeps to slots and gates as a sender does, and sends nothing: it
// notes when it would have written.
type stamper struct {
	mu     sync.Mutex
	stamps []int64
	dead   int
}

func (s *stamper) Send(ctx context.Context, a deliver.Attempt) deliver.Result {
	if wait := time.Until(a.At); wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return deliver.Result{Outcome: job.OutcomeInterrupted}
		}
	}
	err := a.Gate()
	at := bank.Monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.dead++
		return deliver.Result{Outcome: job.OutcomeNotSent}
	}
	s.stamps = append(s.stamps, at)
	return deliver.Result{Outcome: job.OutcomeDelivered, Wrote: true, StartedAt: time.Now()}
}

// take hands out what was noted since the last time.
func (s *stamper) take() (stamps []int64, dead int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stamps, dead, s.stamps, s.dead = s.stamps, s.dead, nil, 0
	return stamps, dead
}

// BenchmarkRateInProcess drains at rates at which requests on the wire would
// be what is measured: several workers in this process and nothing sent.
func BenchmarkRateInProcess(b *testing.B) {
	s := &section{file: "12-rate-in-process", title: "Rates beyond the wire",
		about: "Workers without HTTP, all in one process, on a real Redis: a job's write is noted and not made. " +
			"*Dead slots* are those whose moment had passed before the write; each costs one T of the rate. *CPU* is that of the process with all its workers.",
		head: []string{"rate", "workers", "use", "worst window", "gap p50", "gap p99", "dead slots", "CPU/job", "Redis", "bar"}}
	for _, rate := range either([]int64{10_000}, []int64{10_000, 20_000}) {
		for _, workers := range either([]int{4}, []int{1, 4}) {
			b.Run(fmt.Sprintf("rate=%d/workers=%d", rate, workers), func(b *testing.B) { rateInProcess(b, s, rate, workers) })
		}
	}
	s.publish(b)
}

func rateInProcess(b *testing.B, s *section, rate int64, workers int) {
	l := openLanes(b, newRig(b, true).redis)
	l.apply("bank", "https://bank.example/", rate, time.Second, roomy)
	seconds := either(1, 4)
	var sender stamper
	for i := range workers {
		own := openLanes(b, l.server)
		d := drain.New(drain.Config{Worker: fmt.Sprintf("w%d", i), Concurrency: 20_000}, own.store, own.store, &sender)
		d.Start()
		b.Cleanup(d.Stop)
	}
	var use, p50, p99, share, cost []float64
	worst, dead := 0, 0
	for b.Loop() {
		jobs := l.fill("bank", int(rate)*seconds)
		before, beforeRedis, begin := cpu(b, os.Getpid()), cpu(b, l.server.PID()), time.Now()
		l.release("bank")
		took := time.Since(begin)
		stamps, n := sender.take()
		gap50, gap99 := bank.Gaps(stamps)
		use, p50, p99 = append(use, bank.Use(stamps, rate, time.Second)), append(p50, micros(gap50)), append(p99, micros(gap99))
		share = append(share, (cpu(b, l.server.PID())-beforeRedis).Seconds()/took.Seconds())
		cost = append(cost, micros(cpu(b, os.Getpid())-before)/float64(jobs))
		worst, dead = max(worst, bank.Worst(stamps, time.Second)), dead+n
	}
	s.row(count(rate)+" per 1 s", count(workers), fmt.Sprintf("%.2f %%", 100*median(use)), fmt.Sprintf("%s / %s", count(worst), count(rate)),
		fmt.Sprintf("%.0f µs", median(p50)), fmt.Sprintf("%.0f µs", median(p99)), count(dead), fmt.Sprintf("%.0f µs", median(cost)),
		fmt.Sprintf("%.0f %%", 100*median(share)), bar(median(use) >= least(rate) && int64(worst) <= rate, "≥ %.0f %%, never above", 100*least(rate)))
	b.ReportMetric(100*median(use), "%use")
	if int64(worst) > rate {
		b.Errorf("%d in one second, at most %d are allowed", worst, rate)
	}
}

// fill pushes a backlog to a lane that is paused meanwhile.
func (l *lanes) fill(lane string, n int) int {
	l.Helper()
	if _, err := l.store.Pause(context.Background(), lane, "the backlog is made"); err != nil {
		l.Fatal(err)
	}
	body := bodyOf(300)
	for i := 0; i < n; i += 200 {
		l.push(lane, newJobs(200, body, nil))
	}
	return n
}

// release lets it go, and waits until it is gone.
func (l *lanes) release(lane string) {
	l.Helper()
	if _, err := l.store.Resume(context.Background(), lane); err != nil {
		l.Fatal(err)
	}
	late := time.After(2 * patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for l.depth(lane) > 0 {
		select {
		case <-tick.C:
		case <-late:
			l.Fatalf("%d jobs are left", l.depth(lane))
		}
	}
}
