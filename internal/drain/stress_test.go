package drain

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/job"
)

// TestStress starts and stops workers at random moments, with calls that fail,
// replies that are lost and attempts that end in any way. In the end every job
// is where it belongs.
func TestStress(t *testing.T) {
	t.Parallel()
	seeds := 8
	if testing.Short() {
		seeds = 4
	}
	for range seeds {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) { stress(w, rand.New(&lockedSource{src: rand.NewPCG(seed, 0)})) })
		})
	}
}

// lockedSource lets goroutines share a source of random numbers.
type lockedSource struct {
	mu  sync.Mutex
	src rand.Source
}

func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.src.Uint64()
}

func stress(w *world, r *rand.Rand) {
	chance := func(p float64) bool { return r.Float64() < p }
	lanes := make([]*fakeLane, 1+r.IntN(12))
	total := 0
	for i := range lanes {
		n := r.IntN(60)
		total += n
		lanes[i] = w.lane(fmt.Sprintf("lane-%d", i), n, func(l *fakeLane) { l.interval, l.timeout = 1000+r.Int64N(50_000), 3*time.Second })
	}
	troubled := true
	w.store.latency = time.Duration(r.IntN(3000)) * time.Microsecond
	failing := func(err error, p float64) func(string, string) error {
		return func(string, string) error {
			if troubled && chance(p) {
				return err
			}
			return nil
		}
	}
	w.store.before, w.store.after = failing(errRefused, 0.03), failing(errNoReply, 0.03)
	outcomes := []job.Outcome{job.OutcomeDelivered, job.OutcomeDelivered, job.OutcomeServerError, job.OutcomeTimeout, job.OutcomeRefused}
	w.sender.attempt = func(*deliver.Attempt) (time.Duration, job.Outcome) {
		return time.Duration(r.ExpFloat64() * float64(200*time.Millisecond)), outcomes[r.IntN(len(outcomes))]
	}
	w.cfg.Concurrency, w.cfg.StopGrace = 1+r.IntN(60), time.Duration(r.IntN(1000))*time.Millisecond+1
	w.cfg.Rand = nil
	for k := range 8 {
		w.cfg.Worker, w.cfg.Metrics = fmt.Sprintf("w%d", k), NewMetrics(nil)
		w.start()
		pass(time.Duration(r.Int64N(int64(3 * time.Second))))
		if took := w.stop(); took > w.cfg.StopGrace+settleFor+time.Second {
			w.t.Errorf("a stop took %s with a grace of %s", took, w.cfg.StopGrace)
		}
	}
	w.change(func() { troubled = false })
	w.sender.mu.Lock()
	w.sender.attempt = nil
	w.sender.mu.Unlock()
	w.cfg.Worker, w.cfg.Concurrency, w.cfg.StopGrace = "last", 100, time.Second
	w.start()
	w.run(15 * time.Minute) // back-offs and deadlines run out
	ended := 0
	for _, l := range lanes {
		ended += w.count(l, "delivered") + w.count(l, "dead")
		for _, j := range l.order {
			if j.place != "delivered" && j.place != "dead" {
				w.t.Errorf("a job of %s is %s after %d releases and %d crashes", l.name, j.place, j.releases, j.crashes)
			}
		}
	}
	if ended != total {
		w.t.Errorf("%d of %d jobs ended", ended, total)
	}
	synctest.Wait()
}
