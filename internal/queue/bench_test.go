package queue

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var mainThread = regexp.MustCompile(`used_cpu_(?:sys|user)_main_thread:(\d+\.\d+)`)

// serverTime is the processor time that the server's main thread has used. The
// time of calls in INFO commandstats says the same on a machine that is idle,
// and counts waiting for a processor on one that is not.
func (b *bench) serverTime() time.Duration {
	b.t.Helper()
	info, err := b.db.Client().Info(context.Background(), "cpu").Result()
	if err != nil {
		b.t.Fatal(err)
	}
	sum := 0.0
	for _, m := range mainThread.FindAllStringSubmatch(info, -1) {
		seconds, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			b.t.Fatal(err)
		}
		sum += seconds
	}
	return time.Duration(sum * float64(time.Second))
}

const benchQueue = `"max_in_flight":100000,"queue":{"capacity":1000000,"max_bytes":"8GiB"},"tenants":{"weights":{"t1":2}}`

// BenchmarkPush pushes in calls of 200 and reports what the server spent on each job.
func BenchmarkPush(b *testing.B) {
	for _, keys := range []bool{false, true} {
		b.Run(fmt.Sprintf("keys=%v", keys), func(tb *testing.B) {
			b := openBench(tb, "redis")
			b.apply(perSecond(fast), benchQueue)
			body, n := []byte(strings.Repeat("x", 500)), 0
			spent := time.Duration(0)
			for tb.Loop() {
				tb.StopTimer()
				jobs := newJobs(200, "t"+strconv.Itoa(n%4))
				for i, j := range jobs {
					j.Request.Body = body
					if keys {
						j.IdempotencyKey = strconv.Itoa(n*1000 + i)
					}
				}
				before := b.serverTime()
				tb.StartTimer()
				b.accept(jobs...)
				tb.StopTimer()
				spent += b.serverTime() - before
				n++
				if n%2000 == 0 {
					b.db.Client().FlushDB(context.Background())
					b.apply(perSecond(fast), benchQueue)
				}
				tb.StartTimer()
			}
			tb.ReportMetric(float64(spent.Microseconds())/float64(n*200), "redis-µs/job")
		})
	}
}

// BenchmarkTurn settles 50 delivered jobs and leases 50 more in each call.
func BenchmarkTurn(b *testing.B) {
	for _, tenants := range []int{1, 20} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(tb *testing.B) {
			b := openBench(tb, "redis")
			b.apply(perSecond(fast), benchQueue)
			spent, n, stock := time.Duration(0), 0, 0
			var results []Result
			body := []byte(strings.Repeat("x", 500))
			for tb.Loop() {
				tb.StopTimer()
				for ; stock < 200; stock += 200 {
					jobs := newJobs(200, "")
					for i, j := range jobs {
						j.Tenant, j.Request.Body = "t"+strconv.Itoa(i%tenants), body
					}
					b.accept(jobs...)
				}
				before := b.serverTime()
				tb.StartTimer()
				r := b.turn(50, results...)
				tb.StopTimer()
				spent += b.serverTime() - before
				n += len(r.Leases)
				stock -= len(r.Leases)
				results = settleAll(r.Leases, KindDelivered)
				tb.StartTimer()
			}
			tb.ReportMetric(float64(spent.Microseconds())/float64(n), "redis-µs/job")
			tb.ReportMetric(float64(n)/spent.Seconds(), "jobs/redis-s")
		})
	}
}

// BenchmarkLoneCall is what a call costs the server that moves one job or none:
// a script that does nothing, one that only makes the functions of a turn, and turns.
func BenchmarkLoneCall(b *testing.B) {
	turn := turnScript.Source()
	parts := strings.Replace(turn, "return turn()", "return 1", 1)
	for _, c := range []struct {
		name, source string
		jobs         int
	}{{"nothing", "return 1", 0}, {"parts", parts, 0}, {"empty", "", 0}, {"one", "", 1}} {
		b.Run(c.name, func(tb *testing.B) {
			b := openBench(tb, "redis")
			b.apply(perSecond(fast), benchQueue)
			b.turn(1)
			client, ctx := b.db.Client(), context.Background()
			sha := ""
			if c.source != "" {
				var err error
				if sha, err = client.ScriptLoad(ctx, c.source).Result(); err != nil {
					tb.Fatal(err)
				}
			}
			args := b.s.turnArgs("w1", &Turn{Lane: b.lane, Call: 1, Want: 1, Ahead: 400 * time.Millisecond})
			spent, before, n := time.Duration(0), b.serverTime(), 0
			var results []Result
			for tb.Loop() {
				if n%100 == 0 { // asking for the time costs as much as a call
					tb.StopTimer()
					spent += b.serverTime() - before
					b.accept(newJobs(100*c.jobs, "")...)
					before = b.serverTime()
					tb.StartTimer()
				}
				n++
				if sha == "" {
					results = settleAll(b.turn(1, results...).Leases, KindDelivered)
				} else if err := client.EvalSha(ctx, sha, b.keys[:], args...).Err(); err != nil {
					tb.Fatal(err)
				}
			}
			spent += b.serverTime() - before
			tb.ReportMetric(float64(spent.Microseconds())/float64(n), "redis-µs/call")
		})
	}
}
