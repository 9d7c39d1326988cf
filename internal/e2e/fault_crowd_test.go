package e2e

import (
	"fmt"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tundish/internal/bank"
)

// linksTo counts the connections to a port of this machine, by their near ends.
func linksTo(t testing.TB, addr string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	// Local, remote, and the state: established, or on the way to it.
	open := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: [0-9A-F]{8}:[0-9A-F]{4} 0100007F:%04X 0[12] `, n))
	return len(open.FindAllString(readFile(t, "/proc/self/net/tcp"), -1))
}

var residentKB = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak is the most memory that a process has had, in MiB.
func peak(t testing.TB, s *server) int {
	t.Helper()
	m := residentKB.FindStringSubmatch(readFile(t, fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)))
	if m == nil {
		t.Fatal("the kernel does not tell the memory of a process")
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n >> 10
}

// pushers push at once, each without a pause, until they are stopped.
type pushers struct {
	stop    atomic.Bool
	done    sync.WaitGroup
	mu      sync.Mutex
	ids     []string
	refused []answer
	longest time.Duration
}

func (r *rig) startPushers(n int) *pushers {
	p := &pushers{}
	r.Cleanup(func() { p.stop.Store(true); p.done.Wait() })
	url := r.at("bank") + "/jobs"
	for range n {
		p.done.Go(func() {
			for !p.stop.Load() {
				begin := time.Now()
				a, err := r.try(http.MethodPost, url, `{"body":1}`)
				if err != nil {
					r.Error(err)
					return
				}
				p.note(a, time.Since(begin))
			}
		})
	}
	return p
}

func (p *pushers) note(a answer, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = max(p.longest, took)
	if a.status == http.StatusAccepted {
		p.ids = append(p.ids, a.header.Get("Tundish-Job-Id"))
	} else {
		p.refused = append(p.refused, a)
	}
}

func (p *pushers) end() {
	p.stop.Store(true)
	p.done.Wait()
}

// A thousand producers push while Redis stands still: each gets its answer,
// neither connections nor memory pile up, and afterwards all is as before.
func TestFaultThousandPushesAtAFrozenRedis(t *testing.T) {
	t.Parallel()
	const rate, producers = 50, 1000
	r := newRig(t, true)
	door := r.startEnqueuer()
	r.startWorkers(4)
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: rate})
	ids := r.push("bank", 60)
	r.requests(site, 20)
	goroutines, memory := r.metric(door, "go_goroutines"), peak(t, door)

	r.redis.Stop(t)
	crowd := r.startPushers(producers)
	most := 0
	for range 30 {
		after(100 * time.Millisecond)
		most = max(most, linksTo(t, r.redis.Addr()))
	}
	crowd.end()
	r.redis.Cont(t)
	moment := bank.Monotonic()
	r.eventually("a push is taken", 5*time.Second, func() bool {
		a, err := r.try(http.MethodPost, r.at("bank")+"/jobs", `{"body":1}`)
		if err == nil && a.status == http.StatusAccepted {
			ids = append(ids, a.header.Get("Tundish-Job-Id"))
		}
		return err == nil && a.status == http.StatusAccepted
	})
	r.sendsAgain("bank", moment)

	r.allRetryLater(crowd.refused)
	t.Logf("%d refused, the longest wait %s, %d connections, %d MiB before and %d at most",
		len(crowd.refused), crowd.longest, most, memory, peak(t, door))
	plain := len(buildFlags) == 0 // the race detector costs more of both
	if len(crowd.refused) < producers || crowd.longest > 5*time.Second && plain {
		t.Errorf("%d pushes were refused, the last after %s", len(crowd.refused), crowd.longest)
	}
	if pool := 10*runtime.GOMAXPROCS(0) + 5; most > 5*pool { // what pools may hold, and subscriptions
		t.Errorf("%d connections of 5 processes", most)
	}
	if more := peak(t, door) - memory; more > 100 && plain {
		t.Errorf("the enqueuer took %d MiB more", more)
	}
	r.eventually("the enqueuer has as many goroutines as before", patience, func() bool {
		r.client.CloseIdleConnections() // each has some in the enqueuer
		return r.metric(door, "go_goroutines") <= goroutines+20
	})
	ids = append(ids, crowd.ids...)
	r.recount("bank", site, ids)
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: len(ids)})
}

// countCalls takes the place of Redis on its address for a while and counts
// who calls: each is sent away at once.
func countCalls(t testing.TB, addr string, d time.Duration) int {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	var calls int
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			calls++
			c.Close()
		}
	})
	after(d)
	l.Close()
	done.Wait()
	return calls
}

// Redis goes away from many programs at once: they ask for it with pauses, and
// do not all fall upon it when it is there again.
func TestFaultManyProgramsComeBack(t *testing.T) {
	t.Parallel()
	const rate, workers = 50, 18
	const perSecond = 20 * 24 // calls while Redis is away: all loops of a program together pause 40 ms between two
	r := newRig(t, false)
	for range 2 {
		r.spawnEnqueuer()
	}
	for range workers {
		r.spawnWorker()
	}
	for _, e := range r.enqueuers {
		e.awaitEnqueuer(r)
	}
	for _, w := range r.workers {
		w.awaitWorker(r)
	}
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: rate})
	r.push("bank", 100)
	r.requests(site, 20)
	r.redis.Kill(t)
	first := countCalls(t, r.redis.Addr(), time.Second)
	calls := countCalls(t, r.redis.Addr(), 2*time.Second)
	r.redis.Restart(t)
	after(time.Second)
	before := connectionsSoFar(r)
	after(time.Second)
	back := connectionsSoFar(r) - before
	t.Logf("%d calls in the first second, %d in the next two; %d connections in the first second of Redis, %d in the next", first, calls, before, back)
	if calls > 2*perSecond || back > 200 {
		t.Errorf("%d calls in 2 s while Redis was away, and %d in the second after its first", calls, back)
	}
	if calls == 0 {
		t.Error("nobody looked for Redis: the test shows nothing")
	}
	r.allReady()
	r.mustJudgeWrites("bank", site, rate)
}

// connectionsSoFar is how many connections Redis has taken since its start.
func connectionsSoFar(r *rig) int {
	r.Helper()
	text, err := r.redis.Client(r).Info(r.Context(), "stats").Result()
	if err != nil {
		r.Fatal(err)
	}
	_, rest, _ := strings.Cut(text, "total_connections_received:")
	n, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
	if err != nil {
		r.Fatal(err)
	}
	return n
}
