package e2e

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tundish/internal/bank"
)

// crowd is the producers that share keys: each key is pushed at both doors, and
// twice at the first.
func (r *rig) crowd(every time.Duration) []*keyed {
	var producers []*keyed
	for _, door := range []int{0, 0, 1} {
		for _, prefix := range []string{"a", "b"} {
			url := r.enqueuers[door].url + "/v1/destinations/bank/jobs"
			producers = append(producers, r.startKeyed(&keyed{url: url, prefix: prefix, every: every, doorDies: true}))
		}
	}
	return producers
}

// replaceDoor kills an enqueuer and starts another in its place.
func (r *rig) replaceDoor(s *server) *server {
	s.kill()
	return r.spawnEnqueuer("--listen", strings.TrimPrefix(s.url, "http://"))
}

// Two doors and eight workers share one rate and one small queue, and again and
// again one of them is killed: each key makes one job, each job is sent, and
// what the bank has seen is what was pushed.
func TestInjuryTwoEnqueuersEightWorkers(t *testing.T) {
	t.Parallel()
	const rate, capacity = 50, 60
	r := newRig(t, false)
	r.startEnqueuer()
	r.startEnqueuer()
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: rate, Capacity: capacity, Timeout: "1s"})
	workers, doors := r.startWorkers(8), slices.Clone(r.enqueuers)
	producers := r.crowd(25 * time.Millisecond)
	r.requests(site, rate)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	var kills []kill
	for round := range 6 {
		victims := []int{random.IntN(len(workers))}
		if holds := slices.Index(workers, r.holder()); holds >= 0 && holds != victims[0] {
			victims = append(victims, holds)
		}
		for _, i := range victims {
			kills = append(kills, r.killed("bank", workers[i]))
			workers[i] = r.spawnWorker()
		}
		if round%3 == 2 {
			doors[round%2] = r.replaceDoor(doors[round%2])
		}
		after(600 * time.Millisecond)
	}
	for _, w := range workers {
		w.awaitWorker(r)
	}
	for _, d := range doors {
		d.awaitEnqueuer(r)
	}
	r.enqueuers = doors
	known, pushed, full := map[string]bool{}, 0, 0
	for _, p := range producers {
		for _, id := range p.end(t) {
			known[id] = true
			pushed++
		}
		for _, a := range p.full {
			r.mustRetryLater(a, "queue_full")
		}
		full += len(p.full)
	}
	ids := slices.Collect(maps.Keys(known))
	t.Logf("%d jobs, %d times answered, %d times full", len(ids), pushed, full)
	if pushed < 2*len(ids) || full == 0 {
		t.Error("keys were not shared or the queue was never full: the test shows nothing")
	}
	r.arrived(site, ids, lease(time.Second)+patience)
	r.recount("bank", site, ids)
	if seen := site.accepted(); !maps.Equal(seen, known) {
		t.Errorf("the bank has accepted %d jobs, %d were pushed", len(seen), len(known))
	}
	inFlight, others := flightsCut(site, kills)
	if others > 0 {
		t.Errorf("%d requests were made again that were not in flight at a kill", others)
	}
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: len(ids), MayRepeat: inFlight, MayMiss: len(kills) * (rate/10 + 2)})
}
