package e2e

import (
	"context"
	"net/http"
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
