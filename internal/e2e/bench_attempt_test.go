package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// bareClientTo names, in the environment of this binary, the URL to which it is a
// bare client instead of running tests, and bareJobs how many requests it makes.
const (
	bareClientTo = "TUNDISH_TEST_BARE_CLIENT"
	bareJobs     = "TUNDISH_TEST_BARE_JOBS"
	attemptRate  = 500
)

// bareClient sends what a worker sends at the same rate, with net/http and nothing else.
func bareClient(url string) int {
	n, err := strconv.Atoi(os.Getenv(bareJobs))
	if err != nil {
		return 2
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: 10 * time.Second}
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range n {
		after(time.Until(begin.Add(time.Duration(i) * time.Second / attemptRate)))
		wg.Go(func() {
			resp, err := client.Post(url, "application/json", strings.NewReader(fmt.Sprintf(`{"n":%d}`, i)))
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		})
	}
	wg.Wait()
	return 0
}

// BenchmarkAttempt compares what a delivered job costs a worker with what the
// same request costs a bare client.
func BenchmarkAttempt(b *testing.B) {
	s := &section{file: "12-attempt", title: "What an attempt costs",
		about: fmt.Sprintf("One worker and a bare net/http client, each a process, send the same requests to the same bank at %d per second, in turn. Processor time for each request; "+
			"the worker's includes its part of Redis' calls, clocks, results and logs.", attemptRate),
		head: []string{"worker CPU/job", "bare client", "ratio", "bar"}}
	r := newRig(b, true)
	r.look = 100 * time.Millisecond
	r.startEnqueuer()
	site := r.startBankProcess(20 * time.Millisecond)
	r.startWorkers(1)
	r.put("bank", contract{URL: site.url, Rate: attemptRate, Capacity: 100_000})
	jobs := attemptRate * either(1, 8)
	var ours, bare []float64
	for b.Loop() {
		f := r.drainLoads([]load{{lane: "bank", rate: attemptRate, per: time.Second, jobs: jobs, bank: site}})
		ours = append(ours, micros(f[0].cpu))
		client := exec.Command(os.Args[0], "-test.run", "^$") //nolint:gosec // this binary
		client.Env = append(os.Environ(), bareClientTo+"="+site.url, fmt.Sprintf("%s=%d", bareJobs, jobs))
		if out, err := client.CombinedOutput(); err != nil {
			b.Fatalf("the bare client: %v\n%s", err, out)
		}
		used := client.ProcessState.UserTime() + client.ProcessState.SystemTime()
		bare = append(bare, micros(used)/float64(jobs))
	}
	ratio := median(ours) / median(bare)
	s.row(fmt.Sprintf("%.0f µs", median(ours)), fmt.Sprintf("%.0f µs", median(bare)), fmt.Sprintf("%.2f", ratio), bar(ratio <= 2, "≤ 2"))
	b.ReportMetric(ratio, "ratio")
	s.publish(b)
}
