package drain

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"tundish/internal/deliver"
	"tundish/internal/job"
	"tundish/internal/redisdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begin lies behind the moment from which redisdb.Monotonic counts. A bubble
// begins in the year 2000; there it would run before zero, which no real
// process sees, so each bubble first sleeps past this moment.
var begin = time.Now().Round(0).Add(time.Hour)

// write is one request that left.
type write struct {
	lane string
	id   job.ID
	at   time.Time
}

// fakeSender keeps to a slot and asks the gate as package deliver does.
type fakeSender struct {
	mu      sync.Mutex
	writes  []write
	shut    []error // what the gate said
	now     int
	most    int
	hold    time.Duration // the connection is at hand this long after the slot
	attempt func(a *deliver.Attempt) (time.Duration, job.Outcome)
	fault   func() error // asked before anything else
}

func (s *fakeSender) count(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += by
	s.most = max(s.most, s.now)
}

func (s *fakeSender) Send(ctx context.Context, a deliver.Attempt) deliver.Result {
	s.count(1)
	defer s.count(-1)
	s.mu.Lock()
	hold, fault := s.hold, s.fault
	s.mu.Unlock()
	if fault != nil {
		if err := fault(); err != nil {
			return deliver.Result{Outcome: job.OutcomeNotSent, Fault: err}
		}
	}
	if !sleep(ctx, time.Until(a.At)+hold) {
		return deliver.Result{Outcome: job.OutcomeInterrupted}
	}
	if err := a.Gate(); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.shut = append(s.shut, err)
		return deliver.Result{Outcome: job.OutcomeNotSent}
	}
	a.Writing()
	res := deliver.Result{Wrote: true, StartedAt: time.Now()}
	s.mu.Lock()
	s.writes = append(s.writes, write{a.Lane, a.Job.ID, res.StartedAt})
	f := s.attempt
	s.mu.Unlock()
	d, outcome := 20*time.Millisecond, job.OutcomeDelivered
	if f != nil {
		d, outcome = f(&a)
	}
	res.Outcome = outcome
	if !sleep(ctx, d) {
		res.Outcome = job.OutcomeTimeout
		if errors.Is(context.Cause(ctx), deliver.ErrStopped) {
			res.Outcome = job.OutcomeInterrupted
		}
	}
	res.Duration = time.Since(res.StartedAt)
	return res
}

// pass lets time pass in the bubble.
func pass(d time.Duration) { sleep(context.Background(), d) }

// sleep answers whether the time passed before the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// world is a worker among fakes.
type world struct {
	t      *testing.T
	store  *fakeStore
	sender *fakeSender
	cfg    Config
	reg    *prometheus.Registry
	d      *Drain
	logs   bytes.Buffer // read it with the loop at rest
}

// inWorld runs f in virtual time with a worker that has not started.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		pass(time.Until(begin))
		w := &world{t: t, sender: &fakeSender{}, reg: prometheus.NewRegistry(),
			store: &fakeStore{lanes: map[string]*fakeLane{}, wake: make(chan string, 1024), latency: 100 * time.Microsecond}}
		w.cfg = Config{Worker: "w1", Concurrency: 100, StopGrace: 5 * time.Second, Wake: w.store.wake, Metrics: NewMetrics(w.reg),
			Logger: slog.New(slog.NewTextHandler(&w.logs, nil))}
		f(w)
		if w.d != nil {
			w.d.Stop()
			w.whole()
		}
	})
}

func (w *world) start() {
	w.d = New(w.cfg, w.store, w.store, w.sender)
	w.d.Start()
}

// lane adds a destination with jobs.
func (w *world) lane(name string, jobs int, change ...func(*fakeLane)) *fakeLane {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	l := newLane(name)
	for _, f := range change {
		f(l)
	}
	w.store.lanes[name] = l
	if jobs > 0 {
		l.push(jobs, w.store.raw())
	}
	return l
}

// push adds jobs and wakes the worker if the lane says so.
func (w *world) push(l *fakeLane, jobs int) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	l.push(jobs, w.store.raw()+w.store.adj[redisdb.ShardOf(l.name)])
	w.store.tell(l.name)
}

// change alters the fakes between two calls.
func (w *world) change(f func()) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	f()
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	pass(d)
	synctest.Wait()
}

func (w *world) count(l *fakeLane, place string) int {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	return len(l.in(place))
}

func (w *world) want(l *fakeLane, place string, n int) {
	w.t.Helper()
	if got := w.count(l, place); got != n {
		w.t.Errorf("%s: %d jobs %s, want %d (%s)", l.name, got, place, n, w.places(l))
	}
}

func (w *world) places(l *fakeLane) string {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	count := map[string]int{}
	for _, j := range l.order {
		count[j.place]++
	}
	return strings.Join(slices.Sorted(maps.Keys(count)), " ")
}

// seen lists the calls of one kind since a moment.
func (w *world) seen(op string, since time.Time) []seen {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	var out []seen
	for _, c := range w.store.calls {
		if c.op == op && !c.at.Before(since) {
			out = append(out, c)
		}
	}
	return out
}

func (w *world) writes() []write {
	w.sender.mu.Lock()
	defer w.sender.mu.Unlock()
	return slices.Clone(w.sender.writes)
}

func (w *world) metric(name string) float64 {
	w.t.Helper()
	n := 0.0
	families, err := w.reg.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			n += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return n
}

// whole checks that the senders add up and that no sender is in use.
func (w *world) whole() {
	w.t.Helper()
	if w.sender.now != 0 || w.sender.most > w.cfg.Concurrency {
		w.t.Errorf("%d attempts go on, %d at once were the most, with %d senders", w.sender.now, w.sender.most, w.cfg.Concurrency)
	}
	if n := w.metric("tundish_senders_busy"); n != 0 {
		w.t.Errorf("senders_busy is %v at rest", n)
	}
}
