package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"tundish/internal/bank"
	"tundish/internal/redistest"
)

// rig is one whole system: a Redis of its own, programs, banks and a client.
type rig struct {
	testing.TB
	redis  *redistest.Server // the one, where there is one
	url    string            // of Redis
	dir    string
	client *http.Client

	look time.Duration // how often eventually looks
	env  []string      // of workers

	enqueuers []*server
	workers   []*server
	logs      []string                 // write logs of all workers that ever ran
	ahead     map[string]time.Duration // of ours: the monotonic clock of those whose log this is
}

// server is a program of ours that serves.
type server struct {
	*process
	url   string // of the API; enqueuers only
	admin string
}

// seats bounds how many rigs run at once: more would measure each other.
var (
	seats = make(chan struct{}, 2)
	queue sync.Mutex // whoever wants all seats takes them before others come
)

// newRig starts a Redis. The test runs beside one other at most; alone, beside none.
func newRig(t testing.TB, alone bool, options ...redistest.Option) *rig {
	t.Helper()
	takeSeats(t, alone)
	return newQuietRig(t, options...)
}

// newQuietRig is a rig that mostly waits: it needs no seat.
func newQuietRig(t testing.TB, options ...redistest.Option) *rig {
	t.Helper()
	program(t, "worker") // built before the clock runs
	redis := redistest.Start(t, options...)
	r := newRigOn(t, redis.URL())
	r.redis = redis
	return r
}

// takeSeats waits until there is room for a rig.
func takeSeats(t testing.TB, alone bool) {
	t.Helper()
	program(t, "worker") // so that no seat waits for it
	n := 1
	if alone {
		n = cap(seats)
	}
	queue.Lock()
	for range n {
		seats <- struct{}{}
	}
	queue.Unlock()
	t.Cleanup(func() {
		for range n {
			<-seats
		}
	})
}

// newRigOn is a rig on a Redis that runs already.
func newRigOn(t testing.TB, url string) *rig {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 128}
	t.Cleanup(transport.CloseIdleConnections)
	return &rig{TB: t, look: 10 * time.Millisecond, dir: t.TempDir(), url: url, ahead: map[string]time.Duration{},
		client: &http.Client{Transport: transport, Timeout: patience}}
}

var (
	enqueuerListens = regexp.MustCompile(`enqueuer listens.* addr=(\S+) admin=(\S+)`)
	workerDrains    = regexp.MustCompile(`worker drains.* admin=(\S+)`)
)

func (r *rig) spawnEnqueuer(flags ...string) *server {
	r.Helper()
	args := append([]string{"--redis-url", r.url, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, flags...)
	s := &server{process: spawn(r, fmt.Sprintf("enqueuer %d", len(r.enqueuers)+1), program(r, "enqueuer"), args...)}
	r.enqueuers = append(r.enqueuers, s)
	return s
}

func (s *server) awaitEnqueuer(r *rig) *server {
	r.Helper()
	m := s.said(r, enqueuerListens)
	s.url, s.admin = "http://"+m[1], "http://"+m[2]
	return s
}

// startEnqueuer starts an enqueuer that serves.
func (r *rig) startEnqueuer(flags ...string) *server {
	r.Helper()
	return r.spawnEnqueuer(flags...).awaitEnqueuer(r)
}

func (r *rig) spawnWorker(flags ...string) *server {
	r.Helper()
	return r.spawnWorkerBy(nil, flags...)
}

// spawnWorkerBy has another program start the worker in its own place.
func (r *rig) spawnWorkerBy(starter []string, flags ...string) *server {
	r.Helper()
	log := filepath.Join(r.dir, fmt.Sprintf("writes-%d", len(r.workers)+1))
	args := append([]string{"--redis-url", r.url, "--admin-listen", "127.0.0.1:0",
		"--allow-private-targets", "127.0.0.0/8", "--write-log", log}, flags...)
	command := append(append(slices.Clone(starter), program(r, "worker")), args...)
	s := &server{process: spawnWith(r, append([]string{}, r.env...), fmt.Sprintf("worker %d", len(r.workers)+1), command[0], command[1:]...)}
	r.workers, r.logs = append(r.workers, s), append(r.logs, log)
	return s
}

func (s *server) awaitWorker(r *rig) *server {
	r.Helper()
	s.admin = "http://" + s.said(r, workerDrains)[1]
	return s
}

// startWorkers starts n workers that drain.
func (r *rig) startWorkers(n int, flags ...string) []*server {
	r.Helper()
	var started []*server
	for range n {
		started = append(started, r.spawnWorker(flags...))
	}
	for _, s := range started {
		s.awaitWorker(r)
	}
	return started
}

// servers are all programs that were started to serve.
func (r *rig) servers() []*server { return slices.Concat(r.enqueuers, r.workers) }

// site is a bank and where it serves.
type site struct {
	*bank.Bank
	url string
}

// startBank serves a bank of this process; c needs a rate only where it refuses.
func (r *rig) startBank(c bank.Config) *site {
	r.Helper()
	if c.Rate == 0 {
		c.Rate, c.Per = 50, time.Second
	}
	b, err := bank.New(c)
	if err != nil {
		r.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	addr, err := b.Serve(ctx, "127.0.0.1:0")
	if err != nil {
		stop()
		r.Fatal(err)
	}
	r.Cleanup(func() { stop(); b.Wait() })
	return &site{Bank: b, url: "http://" + addr + "/"}
}

// startDrain starts what most tests look at: an enqueuer, workers, and a bank of
// 20 ms that has a rate per second and a backlog, whose jobs it answers.
func (r *rig) startDrain(workers int, rate int64, backlog int) (*site, []string) {
	r.Helper()
	r.startEnqueuer()
	r.startWorkers(workers)
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: rate})
	return site, r.push("bank", backlog)
}

// accepted are the jobs that the bank has answered with success.
func (s *site) accepted() map[string]bool {
	jobs := map[string]bool{}
	arrivals, _ := s.Arrivals()
	for _, a := range arrivals {
		if a.Status/100 == 2 {
			jobs[a.Job] = true
		}
	}
	return jobs
}

// eventually waits until something holds, looking from time to time.
func (r *rig) eventually(what string, within time.Duration, holds func() bool) {
	r.Helper()
	late := time.After(within)
	tick := time.NewTicker(r.look)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			if holds() {
				return
			}
			r.Fatalf("not within %s: %s", within, what)
		}
	}
}

// after waits for a time to pass, where its passing is the event.
func after(d time.Duration) { <-time.After(d) }

// arrived waits until the bank has accepted all of these jobs.
func (r *rig) arrived(s *site, ids []string, within time.Duration) {
	r.Helper()
	r.eventually(fmt.Sprintf("%d jobs accepted by the bank", len(ids)), within, func() bool {
		jobs := s.accepted()
		return !slices.ContainsFunc(ids, func(id string) bool { return !jobs[id] })
	})
}

// writes are what these logs hold, by the monotonic clock of the test.
func (r *rig) writes(logs ...string) []bank.Write {
	r.Helper()
	var all []bank.Write
	for _, log := range logs {
		writes, err := bank.ReadWriteLogs(log)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its worker has not begun yet, or was killed before
		}
		if err != nil {
			r.Fatal(err)
		}
		for i := range writes {
			writes[i].At -= r.ahead[log].Nanoseconds()
		}
		all = append(all, writes...)
	}
	return all
}

// judge holds all that was written for a destination against its rate. The
// workers may run on: what they wrote is in their logs a moment later.
func (r *rig) judge(destination string, s *site, c bank.Case) bank.Verdict {
	r.Helper()
	c.Arrivals, c.Forgotten = s.Arrivals()
	r.eventually("a line in the write logs for each arrival", patience, func() bool {
		c.Writes = bank.OfLane(r.writes(r.logs...), destination)
		return len(c.Writes)+c.MayMiss >= len(c.Arrivals)
	})
	return bank.Judge(c)
}

// mustJudge fails the test when the verdict is not OK. A machine too busy to
// tell whose fault it was is none of ours.
func (r *rig) mustJudge(destination string, s *site, c bank.Case) bank.Verdict {
	r.Helper()
	v := r.judge(destination, s, c)
	if !v.OK {
		r.Errorf("%s: %s", destination, v)
	}
	return v
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
