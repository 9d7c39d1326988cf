package e2e

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tundish/internal/bank"
)

// brief says that the benchmarks only have to show that they still run.
func brief() bool {
	once := flag.Lookup("test.benchtime").Value.String() == "1x"
	return testing.Short() || once
}

// bankProcess is a strict bank in a process of its own: its work is not ours.
type bankProcess struct {
	*process
	r   *rig
	url string
}

var bankServes = regexp.MustCompile(`bank on (http://\S+):`)

func (r *rig) startBankProcess(latency time.Duration) *bankProcess {
	r.Helper()
	p := spawn(r, "bank", program(r, "tundish"), "bank", "--listen", "127.0.0.1:0", "--no-refuse", "--latency", latency.String())
	return &bankProcess{process: p, r: r, url: p.said(r, bankServes)[1] + "/"}
}

func (p *bankProcess) reset() {
	p.r.Helper()
	p.r.do(http.MethodPost, p.url+"_bank/reset", "", http.StatusNoContent)
}

func (p *bankProcess) arrivals() []bank.Arrival {
	p.r.Helper()
	got, err := bank.ReadArrivals(bytes.NewReader(p.r.do(http.MethodGet, p.url+"_bank/stamps", "", http.StatusOK).body))
	if err != nil {
		p.r.Fatal(err)
	}
	return got
}

var scriptCalls = regexp.MustCompile(`(?m)^tundish_redis_script_duration_seconds_count\{script="[^"]*"\} (\d+)`)

// usage is what the workers have used so far.
type usage struct {
	at      time.Time
	scripts int
	workers time.Duration // processor time, of all together
	redis   time.Duration
}

func (r *rig) usage() usage {
	r.Helper()
	u := usage{at: time.Now(), redis: cpu(r, r.redis.PID())}
	for _, w := range r.workers {
		u.workers += cpu(r, w.cmd.Process.Pid)
		for _, m := range scriptCalls.FindAllSubmatch(r.do(http.MethodGet, w.admin+"/metrics", "", http.StatusOK).body, -1) {
			n, err := strconv.Atoi(string(m[1]))
			if err != nil {
				r.Fatal(err)
			}
			u.scripts += n
		}
	}
	return u
}

func (u usage) since(before usage) usage {
	u.scripts, u.workers, u.redis = u.scripts-before.scripts, u.workers-before.workers, u.redis-before.redis
	return u
}

// load is one lane of a benchmark.
type load struct {
	lane string
	rate int64
	per  time.Duration
	jobs int
	bank *bankProcess
	ids  []string
}

// figures are the results of one run of one lane.
type figures struct {
	bank.Verdict
	workers    int
	perJob     float64 // scripts
	cores      float64 // that all workers used
	redisCores float64
}

// drainLoads lets the backlogs of all lanes go at once and measures.
func (r *rig) drainLoads(loads []load) []figures {
	r.Helper()
	for i := range loads {
		l := &loads[i]
		after(r.pause(l.lane))
		l.bank.reset()
		l.ids = r.push(l.lane, l.jobs)
	}
	from, before := bank.Monotonic(), r.usage()
	for _, l := range loads {
		r.resume(l.lane)
	}
	jobs := 0
	for _, l := range loads {
		jobs += l.jobs
		within := time.Duration(l.jobs)*l.per/time.Duration(l.rate)*2 + patience
		r.eventually("an empty lane of "+l.lane, within, func() bool { return r.live(l.lane).Depth == 0 })
	}
	took := time.Since(before.at).Seconds()
	used := r.usage().since(before)
	var out []figures
	for _, l := range loads {
		f := figures{workers: len(r.workers), perJob: float64(used.scripts) / float64(jobs),
			cores: used.workers.Seconds() / took, redisCores: used.redis.Seconds() / took}
		f.Verdict = r.verdictOf(l, from)
		if !f.OK {
			r.Errorf("%s: %s", l.lane, f.Verdict)
		}
		out = append(out, f)
	}
	return out
}

func (r *rig) verdictOf(l load, from int64) bank.Verdict {
	r.Helper()
	c := bank.Case{Rate: l.rate, Per: l.per, Jobs: l.jobs, Arrivals: l.bank.arrivals()}
	r.eventually("a line in the write logs for each arrival", patience, func() bool {
		c.Writes = r.writesAfter(l.lane, from)
		return len(c.Writes) >= len(c.Arrivals)
	})
	v := bank.Judge(c)
	if !brief() {
		v.Use = warmUse(c)
	}
	return v
}

// warmUp is left out of the use of a lane that is fast enough to have had many
// jobs by then: connections are made and caches filled. Above the rate is judged over all.
const warmUp = 3 * time.Second

func warmUse(c bank.Case) float64 {
	stamps := make([]int64, len(c.Writes))
	for i, w := range c.Writes {
		stamps[i] = w.At
	}
	slices.Sort(stamps)
	n := 0
	if c.Rate >= 50 && c.Per <= time.Second && len(stamps) > 0 {
		n, _ = slices.BinarySearch(stamps, stamps[0]+int64(warmUp))
	}
	return bank.Use(stamps[n:], c.Rate, c.Per)
}

const tableHead = "rate             workers     use  write/bound   bank/bound   spread  gap p50  gap p99  twice  scripts/job  worker CPU  redis CPU\n"

func (f figures) row() string {
	return fmt.Sprintf("%-16s %7d %6.2f%% %6d/%-6d %6d/%-6d %5.1fms %6.1fms %6.1fms %6d %12.3f %10.0f%% %9.0f%%\n",
		fmt.Sprintf("%d per %s", f.Rate, f.Per),
		f.workers, 100*f.Use, f.WorstWrite, f.BoundWrite, f.WorstBank, f.BoundBank, ms(f.Spread), ms(f.GapP50), ms(f.GapP99),
		f.Duplicates, f.perJob, 100*f.cores, 100*f.redisCores)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// table gathers the rows of all benchmarks of a kind and prints them at the end.
type table struct {
	mu   sync.Mutex
	rows strings.Builder
}

func (t *table) add(b *testing.B, all []figures) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range all {
		t.rows.WriteString(f.row())
	}
	f := all[len(all)-1]
	b.ReportMetric(100*f.Use, "%use")
	b.ReportMetric(f.perJob, "scripts/job")
	b.ReportMetric(float64(f.Duplicates), "twice")
}

func (t *table) print() {
	fmt.Fprint(os.Stdout, "\n"+tableHead+t.rows.String()+"\n")
}

// BenchmarkRate drains a backlog of 15 s after a warm-up at each rate: how much
// of it is used, what the worst sliding window held, what it cost.
func BenchmarkRate(b *testing.B) {
	var t table
	for _, c := range []struct {
		rate    int64
		workers int
	}{{50, 4}, {50, 16}, {500, 4}, {500, 16}, {5000, 4}} {
		b.Run(fmt.Sprintf("rate=%d/workers=%d", c.rate, c.workers), func(b *testing.B) {
			r := newRig(b, true)
			r.look = 100 * time.Millisecond // looking costs what is measured
			r.startEnqueuer()
			site := r.startBankProcess(20 * time.Millisecond)
			r.put("bank", contract{URL: site.url, Rate: c.rate, Capacity: 100_000})
			r.startWorkers(c.workers)
			seconds := int64(15 + warmUp/time.Second)
			if brief() {
				seconds = 2
			}
			for b.Loop() {
				t.add(b, r.drainLoads([]load{{lane: "bank", rate: c.rate, per: time.Second, jobs: int(c.rate * seconds), bank: site}}))
			}
		})
	}
	t.print()
}

// BenchmarkRateLow shows slow limits, all at once on one Redis.
func BenchmarkRateLow(b *testing.B) {
	var t table
	r := newRig(b, true)
	r.look = 100 * time.Millisecond
	r.startEnqueuer()
	seconds := 35 * time.Second
	if brief() {
		seconds = 4 * time.Second
	}
	var loads []load
	for _, c := range []load{{lane: "second", rate: 1, per: time.Second}, {lane: "eleven", rate: 7, per: 11 * time.Second}, {lane: "minute", rate: 10, per: time.Minute}} {
		c.bank = r.startBankProcess(20 * time.Millisecond)
		c.jobs = int(int64(seconds) * c.rate / int64(c.per))
		c.jobs = max(c.jobs, 2)
		r.put(c.lane, contract{URL: c.bank.url, Rate: c.rate, Per: fmt.Sprintf("%ds", int(c.per.Seconds()))})
		loads = append(loads, c)
	}
	r.startWorkers(4)
	for b.Loop() {
		t.add(b, r.drainLoads(loads))
	}
	t.print()
}
