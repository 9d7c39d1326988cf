package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"tundish/internal/job"
	queues "tundish/internal/queue" // queue is a name of the rig
)

// info is one number of INFO.
func (l *lanes) info(part, field string) int64 {
	l.Helper()
	text, err := l.client.Info(context.Background(), part).Result()
	if err != nil {
		l.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + field + `:(\d+)`).FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		l.Fatal(err)
	}
	return n
}

var evalshaTime = regexp.MustCompile(`(?m)^cmdstat_evalsha:calls=(\d+),usec=(\d+)`)

// scriptTime is how long the one script took that call runs, by the server's own clock.
func (l *lanes) scriptTime(call func()) time.Duration {
	l.Helper()
	read := func() (calls, usec int64) {
		text, err := l.client.Info(context.Background(), "commandstats").Result()
		if err != nil {
			l.Fatal(err)
		}
		if m := evalshaTime.FindStringSubmatch(text); m != nil {
			calls, _ = strconv.ParseInt(m[1], 10, 64)
			usec, _ = strconv.ParseInt(m[2], 10, 64)
		}
		return calls, usec
	}
	calls, before := read()
	call()
	now, usec := read()
	if now != calls+1 {
		l.Fatalf("%d scripts ran, want one", now-calls)
	}
	return time.Duration(usec-before) * time.Microsecond
}

const mostScript = 5 * time.Millisecond

// BenchmarkScript measures how long the largest calls hold up everybody else.
func BenchmarkScript(b *testing.B) {
	s := &section{file: "80-script", title: "The longest that one script holds Redis",
		about: "One client, full calls: as many jobs as a call takes, or 800 KiB of bodies, whichever is less. Time by Redis' own `commandstats`, " +
			"waiting for a processor included. The bar is for the median; the worst of a busy machine says more of the machine.",
		head: []string{"bodies", "script", "jobs", "median", "p95", "worst", "bar"}}
	for _, size := range []int{256 << 10, 10 << 10, 1 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) { scripts(b, s, size) })
	}
	s.publish(b)
}

func scripts(b *testing.B, s *section, size int) {
	l := openLanes(b, newRig(b, true).redis)
	l.apply("bank", "https://bank.example/", 50_000, time.Second,
		`"queue":{"capacity":1000000,"max_bytes":"8GiB","max_job_bytes":"1MiB"},"max_in_flight":100000`)
	body := bodyOf(size)
	pushJobs := min(queues.MaxPush, queues.MaxPushBytes/(size+queues.JobBytes))
	call := uint64(0)
	turn := func(t queues.Turn) (r queues.TurnReply) {
		call++
		t.Lane, t.Call, t.Ahead = "bank", call, 400*time.Millisecond
		if r = l.store.Turns(context.Background(), "w1", []queues.Turn{t})[0]; r.Err != nil {
			b.Fatal(r.Err)
		}
		return r
	}
	l.push("bank", newJobs(1, body, nil)) // loads the scripts
	first := turn(queues.Turn{Want: 1})
	turn(queues.Turn{Result: delivered(first.Leases)})
	var pushes, leases, ends []float64
	leased := 0
	for b.Loop() {
		for range either(3, 20) {
			jobs := newJobs(pushJobs, body, func(int) string { return string(job.NewID()) })
			pushes = append(pushes, ms(l.scriptTime(func() { l.push("bank", jobs) })))
			var r queues.TurnReply
			leases = append(leases, ms(l.scriptTime(func() { r = turn(queues.Turn{Want: queues.MaxLease}) })))
			leased = max(leased, len(r.Leases))
			ended := dead(r.Leases)
			ends = append(ends, ms(l.scriptTime(func() { turn(queues.Turn{Result: ended}) })))
			l.drainRest(turn, delivered(r.Leases[len(ended):]))
		}
	}
	for _, row := range []struct {
		script, unit string
		jobs         int
		took         []float64
	}{{"push, with keys", "ms-push", pushJobs, pushes}, {"turn: lease", "ms-lease", leased, leases}, {"turn: settle as dead", "ms-settle", leased, ends}} {
		s.row(fmt.Sprintf("%d KiB", size>>10), row.script, count(row.jobs), fmt.Sprintf("%.2f ms", median(row.took)),
			fmt.Sprintf("%.2f ms", percentile(row.took, 95)), fmt.Sprintf("%.2f ms", percentile(row.took, 100)),
			bar(median(row.took) <= ms(mostScript), "≤ %.0f ms", ms(mostScript)))
		b.ReportMetric(median(row.took), row.unit)
	}
}

// dead ends jobs with their bodies kept: the most that settling moves.
func dead(leases []queues.Lease) []queues.Result {
	out := delivered(leases)
	for i := range out {
		out[i].Kind, out[i].Outcome, out[i].Bytes = queues.KindDead, "http_4xx", len(leases[i].Envelope)
	}
	return out[:queues.Fit(out)]
}

// drainRest leaves the lane empty for the next round.
func (l *lanes) drainRest(turn func(queues.Turn) queues.TurnReply, results []queues.Result) {
	l.Helper()
	for l.depth("bank") > 0 && !l.Failed() {
		r := turn(queues.Turn{Want: queues.MaxLease, Result: results})
		results = delivered(r.Leases)
	}
}
