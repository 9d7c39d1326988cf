package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tundish/internal/bank"
	"tundish/internal/redisdb"
)

// A destination that hangs takes only its share of the senders.
func TestHangingDestinationBesideHealthyOne(t *testing.T) {
	t.Parallel()
	const rate, jobs = 20, 100
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(1, "--concurrency", "16")
	hangs := r.startBank(bank.Config{Script: func(int, *http.Request) *bank.Answer {
		return &bank.Answer{Status: http.StatusOK, Delay: time.Minute}
	}})
	healthy := r.startBank(bank.Config{Latency: 10 * time.Millisecond})
	const timeout = 20 * time.Second
	r.put("hangs", contract{URL: hangs.url, Rate: 100, Timeout: "20s"})
	r.put("healthy", contract{URL: healthy.url, Rate: rate})
	r.push("hangs", 1000)
	r.requests(hangs, 7) // half of the senders hang
	// A machine with other work can take slots away: one run must show that the
	// other destination does not.
	var use float64
	for run := 0; run < 3 && use < 0.9; run++ {
		use = max(use, r.drainBacklog("healthy", healthy, rate, jobs))
	}
	if use < 0.9 {
		t.Errorf("the healthy destination got at most %.0f %% of its rate", 100*use)
	}
	got, _ := hangs.Arrivals()
	if n := bank.Worst(bank.Stamps(got), timeout); n > 15 {
		t.Errorf("%d of 16 senders hang", n)
	}
}

// A stored contract that cannot be read stops its own destination only, and a
// new one mends it.
func TestDamagedContract(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.startEnqueuer()
	site := r.startBank(bank.Config{})
	redis := r.redis.Client(t)
	keys, err := redisdb.NewKeys("default")
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string]string{"damaged-doc": "doc", "damaged-limits": "limits"}
	ids := map[string][]string{}
	for name, field := range damaged {
		r.put(name, contract{URL: site.url + name, Rate: 50})
		ids[name] = r.push(name, 5)
		lane, err := keys.Lane(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := redis.HSet(context.Background(), lane.Conf(), field, "\x00garbage").Err(); err != nil {
			t.Fatal(err)
		}
	}
	r.put("whole", contract{URL: site.url, Rate: 50})
	r.startWorkers(2)
	whole := r.push("whole", 50)
	r.arrived(site, whole, patience)
	for name := range damaged {
		r.eventually(name+" is shown as faulty", patience, func() bool { return r.live(name).State == "faulty" })
	}
	if got, _ := site.Arrivals(); len(got) != len(whole) {
		t.Errorf("%d requests, want only the %d of the whole destination", len(got), len(whole))
	}
	for name := range damaged {
		r.put(name, contract{URL: site.url + name, Rate: 50})
		r.arrived(site, ids[name], patience)
	}
}

// The largest bodies that a contract may allow are sent, and a destination
// beside them keeps its pace.
func TestLargestBodiesAreSent(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(2)
	large, small := r.startBank(bank.Config{Latency: 20 * time.Millisecond}), r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	r.do(http.MethodPut, r.at("large"), fmt.Sprintf(`{"target":{"http":{"url":%q}},"limits":[{"rate":20,"per":"1s"}],"queue":{"max_job_bytes":"4MiB"}}`, large.url),
		http.StatusOK, http.StatusCreated)
	r.put("small", contract{URL: small.url, Rate: 50})
	body := fmt.Sprintf(`{"body_text":%q}`, strings.Repeat("x", 4<<20))
	var ids []string
	for range 6 {
		ids = append(ids, r.do(http.MethodPost, r.at("large")+"/jobs", body, http.StatusAccepted).header.Get("Tundish-Job-Id"))
	}
	beside := r.push("small", 100)
	r.arrived(small, beside, patience)
	r.arrived(large, ids, patience)
	r.settled("large")
	r.mustJudge("small", small, bank.Case{Rate: 50, Per: time.Second, Jobs: 100})
	r.mustJudge("large", large, bank.Case{Rate: 20, Per: time.Second, Jobs: 6})
}
