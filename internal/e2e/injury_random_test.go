package e2e

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tundish/internal/bank"
)

var workerID = regexp.MustCompile(`worker drains.* worker=(\S+)`)

// kill is the end of a worker, with the jobs of which Redis says that it held
// them: its attempts in flight, and slots that had not come.
type kill struct {
	at   int64
	held map[string]bool
}

// killed kills a worker.
func (r *rig) killed(destination string, s *server) kill {
	r.Helper()
	s.kill()
	k := kill{bank.Monotonic(), map[string]bool{}}
	id := workerID.FindStringSubmatch(s.log())
	if id == nil {
		return k // it had not begun
	}
	client := r.redis.Client(r)
	defer client.Close()
	keys, err := client.Keys(r.Context(), "tundish:{*}:"+destination+":tries").Result()
	if err != nil || len(keys) == 0 {
		return k
	}
	leased, err := client.ZRange(r.Context(), strings.TrimSuffix(keys[0], "tries")+"leased", 0, -1).Result()
	if err != nil {
		r.Fatal(err)
	}
	tries, err := client.HGetAll(r.Context(), keys[0]).Result()
	if err != nil {
		r.Fatal(err)
	}
	for _, job := range leased {
		if strings.HasPrefix(tries[job], id[1]+":") {
			k.held[job] = true
		}
	}
	return k
}

// flightsCut counts the requests that were in flight at a kill, which may be made
// again, and others that were made again all the same.
func flightsCut(s *site, kills []kill) (inFlight, others int) {
	made := map[string][]int64{}
	arrivals, _ := s.Arrivals()
	for _, a := range arrivals {
		made[a.Job] = append(made[a.Job], a.At)
	}
	for job, at := range made {
		slices.Sort(at)
		cut := map[int]bool{}
		for _, k := range kills {
			// What was written may arrive late; the next lease is seconds off.
			n, _ := slices.BinarySearch(at, k.at+time.Second.Nanoseconds())
			if k.held[job] && n > 0 {
				cut[n-1] = true
			}
		}
		inFlight += len(cut)
		for i := range at[:len(at)-1] {
			if !cut[i] {
				others++
			}
		}
	}
	return inFlight, others
}

// One worker of four is killed each second, and another started, at 100 requests
// a second: all jobs arrive, no window holds more than the rate, and what arrives
// twice was in flight at a kill.
func TestInjuryWorkersAreKilledAtRandom(t *testing.T) {
	t.Parallel()
	const rate = 100
	seconds := 10
	if os.Getenv("TUNDISH_SOAK") != "" {
		seconds = 60
	}
	r := newRig(t, false)
	r.startEnqueuer()
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: rate, Timeout: "1s"})
	r.startWorkers(4)
	backlog := r.push("bank", rate*seconds/2) // so that there always is something to send
	pushes := r.startStream("bank", 12*time.Millisecond)
	r.requests(site, 20)
	before, _ := site.Arrivals()
	kills := r.killAtRandom("bank", seconds)
	ids, refused := pushes.end()
	if len(refused) > 0 {
		t.Errorf("%d pushes were refused, the first with %d: %s", len(refused), refused[0].status, refused[0].body)
	}
	if seen, _ := site.Arrivals(); len(seen)-len(before) < rate*seconds/2 {
		t.Errorf("%d requests in %d s: the rate was not used, the test shows nothing", len(seen)-len(before), seconds)
	}
	ids = append(ids, backlog...)
	r.arrived(site, ids, lease(time.Second)+patience)
	r.recount("bank", site, ids)
	inFlight, others := flightsCut(site, kills)
	if others > 0 {
		t.Errorf("%d requests were made again that were not in flight at a kill", others)
	}
	v := r.judge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: len(ids), MayRepeat: inFlight, MayMiss: len(kills) * (rate/10 + 2)})
	t.Logf("%d jobs, %d requests in flight at %d kills, %d repeats, %.0f %% of the rate", v.Jobs, inFlight, len(kills), v.Duplicates, 100*v.Use)
	if !v.OK {
		t.Errorf("%s", v)
	}
}

// killAtRandom kills one of the workers each second and starts another.
func (r *rig) killAtRandom(destination string, seconds int) []kill {
	r.Helper()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	r.Logf("seed %d", seed)
	running := slices.Clone(r.workers)
	var kills []kill
	for range seconds {
		after(time.Second)
		i := random.IntN(len(running))
		kills = append(kills, r.killed(destination, running[i]))
		running[i] = r.spawnWorker()
	}
	for _, w := range running {
		w.awaitWorker(r)
	}
	return kills
}
