package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"tundish/internal/bank"
)

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

var (
	scriptCalls = regexp.MustCompile(`(?m)^tundish_redis_script_duration_seconds_count\{script="[^"]*"\} (\d+)`)
	deadSlots   = regexp.MustCompile(`(?m)^tundish_slots_dead_total\{[^}]*\} (\d+)`)
)

// usage is what the workers have used so far.
type usage struct {
	at      time.Time
	scripts int
	dead    int           // slots whose moment had passed before the write
	workers time.Duration // processor time, of all together
	redis   time.Duration
}

func (r *rig) usage() usage {
	r.Helper()
	u := usage{at: time.Now(), redis: cpu(r, r.redis.PID())}
	for _, w := range r.workers {
		u.workers += cpu(r, w.cmd.Process.Pid)
		page := r.do(http.MethodGet, w.admin+"/metrics", "", http.StatusOK).body
		u.scripts += r.sum(scriptCalls, page)
		u.dead += r.sum(deadSlots, page)
	}
	return u
}

// sum adds up the numbers that a pattern finds.
func (r *rig) sum(pattern *regexp.Regexp, page []byte) (total int) {
	r.Helper()
	for _, m := range pattern.FindAllSubmatch(page, -1) {
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			r.Fatal(err)
		}
		total += n
	}
	return total
}

func (u usage) since(before usage) usage {
	u.scripts, u.dead = u.scripts-before.scripts, u.dead-before.dead
	u.workers, u.redis = u.workers-before.workers, u.redis-before.redis
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
	workers int
	perJob  float64       // scripts
	cpu     time.Duration // of all workers, for each job
	redis   float64       // share of a core
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
			cpu: used.workers / time.Duration(jobs), redis: used.redis.Seconds() / took}
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
const warmUp = 2 * time.Second

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

const leastRateUse = 0.99

// least is the bar for a rate.
func least(rate int64) float64 {
	if rate > 500 {
		return 0.98
	}
	return leastRateUse
}

func newRateSection(file, title, about string) *section {
	return &section{file: file, title: title, about: about,
		head: []string{"rate", "workers", "use", "at the write", "at the bank", "spread", "gap p50", "gap p99", "twice", "scripts/job", "worker CPU/job", "Redis", "bar"}}
}

const rateColumns = "*Use* is the share of the rate that was used, the median of the runs. *At the write* and *at the bank* are the most requests " +
	"in any sliding window of the limit, the worst of the runs, over the bound; the bank's bound allows for the spread of the path's delay, measured in the run. " +
	"*Gap* is the time between two writes. *Scripts* are all that the workers asked of Redis, claims included. *Redis* is its share of a core, looks of the benchmark included."

// rateRow sums up the runs of one lane.
func (s *section) rateRow(b *testing.B, runs []figures) {
	if len(runs) == 0 {
		return
	}
	pick := func(f func(*figures) float64) float64 {
		var all []float64
		for i := range runs {
			all = append(all, f(&runs[i]))
		}
		return median(all)
	}
	worst, spread, twice := runs[0], time.Duration(0), 0
	for _, f := range runs {
		worst.WorstWrite = max(worst.WorstWrite, f.WorstWrite)
		if int64(f.WorstBank)-f.BoundBank > int64(worst.WorstBank)-worst.BoundBank {
			worst.WorstBank, worst.BoundBank = f.WorstBank, f.BoundBank
		}
		spread, twice = max(spread, f.Spread), twice+f.Duplicates
	}
	use := pick(func(f *figures) float64 { return f.Use })
	perJob := pick(func(f *figures) float64 { return f.perJob })
	within := int64(worst.WorstWrite) <= worst.BoundWrite && int64(worst.WorstBank) <= worst.BoundBank && twice == 0
	s.row(fmt.Sprintf("%s per %s", count(worst.Rate), short(worst.Per)), count(worst.workers), fmt.Sprintf("%.2f %%", 100*use),
		fmt.Sprintf("%s / %s", count(worst.WorstWrite), count(worst.BoundWrite)), fmt.Sprintf("%s / %s", count(worst.WorstBank), count(worst.BoundBank)),
		fmt.Sprintf("%.1f ms", ms(spread)),
		fmt.Sprintf("%.2f ms", pick(func(f *figures) float64 { return ms(f.GapP50) })),
		fmt.Sprintf("%.2f ms", pick(func(f *figures) float64 { return ms(f.GapP99) })),
		count(twice), fmt.Sprintf("%.3f", perJob),
		fmt.Sprintf("%.0f µs", pick(func(f *figures) float64 { return micros(f.cpu) })),
		fmt.Sprintf("%.0f %%", pick(func(f *figures) float64 { return 100 * f.redis })),
		bar(use >= least(worst.Rate) && within, "≥ %.0f %%, never above", 100*least(worst.Rate)))
	b.ReportMetric(100*use, "%use")
	b.ReportMetric(perJob, "scripts/job")
	b.ReportMetric(float64(twice), "twice")
}

// short is a duration without the zero parts that String adds.
func short(d time.Duration) string {
	switch {
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%d d", d/(24*time.Hour))
	case d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%g s", d.Seconds())
}

// BenchmarkRate drains backlogs at each rate: how much of it is used, what the
// worst sliding window held, what it cost.
func BenchmarkRate(b *testing.B) {
	s := newRateSection("10-rate", "One destination at its rate",
		"A backlog goes from worker processes to a strict bank, a process too, that answers after 20 ms. All on one machine.\n\n"+rateColumns)
	for _, workers := range either([]int{4}, []int{1, 4, 16}) {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			r := newRig(b, true)
			r.look = 100 * time.Millisecond // looking costs what is measured
			r.startEnqueuer()
			site := r.startBankProcess(20 * time.Millisecond)
			r.startWorkers(workers)
			for _, rate := range either([]int64{50, 5000}, []int64{1, 50, 500, 5000}) {
				b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
					r.rate(b, s, site, rate)
				})
			}
		})
	}
	s.publish(b)
}

func (r *rig) rate(b *testing.B, s *section, site *bankProcess, rate int64) {
	lane := fmt.Sprintf("bank-%d", rate)
	r.put(lane, contract{URL: site.url, Rate: rate, Capacity: 100_000})
	jobs := rate * either(1, int64(15+warmUp/time.Second))
	jobs = max(jobs, 5)
	var runs []figures
	for b.Loop() {
		if len(runs) > 0 && !brief() {
			continue // one long round says more than several short ones
		}
		runs = append(runs, r.drainLoads([]load{{lane: lane, rate: rate, per: time.Second, jobs: int(jobs), bank: site}})...)
	}
	s.rateRow(b, runs)
}

// BenchmarkRateLow shows slow limits, all at once on one Redis.
func BenchmarkRateLow(b *testing.B) {
	s := newRateSection("11-rate-low", "Slow limits", "As before, with four workers and all three lanes at once: what is spent is spent on all of them, mostly by looking every 500 ms.")
	r := newRig(b, true)
	r.look = 100 * time.Millisecond
	r.startEnqueuer()
	seconds := either(4*time.Second, 24*time.Second)
	var loads []load
	for _, c := range []load{{lane: "second", rate: 1, per: time.Second}, {lane: "eleven", rate: 7, per: 11 * time.Second}, {lane: "minute", rate: 10, per: time.Minute}} {
		c.bank = r.startBankProcess(20 * time.Millisecond)
		c.jobs = int(int64(seconds) * c.rate / int64(c.per))
		c.jobs = max(c.jobs, 2)
		r.put(c.lane, contract{URL: c.bank.url, Rate: c.rate, Per: fmt.Sprintf("%ds", int(c.per.Seconds()))})
		loads = append(loads, c)
	}
	r.startWorkers(4)
	runs := make([][]figures, len(loads))
	for b.Loop() {
		for i, f := range r.drainLoads(loads) {
			runs[i] = append(runs[i], f)
		}
	}
	for i := range runs {
		s.rateRow(b, runs[i])
	}
	s.publish(b)
}
