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

var callUsec = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+),usec=(\d+)`)

// scriptTime is what the server spent in scripts so far. The server must be the benchmark's own.
func (b *bench) scriptTime() time.Duration {
	b.t.Helper()
	info, err := b.db.Client().Info(context.Background(), "commandstats").Result()
	if err != nil {
		b.t.Fatal(err)
	}
	m := callUsec.FindStringSubmatch(info)
	if m == nil {
		return 0
	}
	us, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil {
		b.t.Fatal(err)
	}
	return time.Duration(us) * time.Microsecond
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
				before := b.scriptTime()
				tb.StartTimer()
				b.accept(jobs...)
				tb.StopTimer()
				spent += b.scriptTime() - before
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
				before := b.scriptTime()
				tb.StartTimer()
				r := b.turn(50, results...)
				tb.StopTimer()
				spent += b.scriptTime() - before
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
