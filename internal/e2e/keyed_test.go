package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"tundish/internal/bank"
)

// keyed pushes jobs with a key each, and each of them until it is taken, as a
// producer does that must lose none and make none twice.
type keyed struct {
	url, prefix string // of the jobs and of their keys
	every       time.Duration
	doorDies    bool // a push that nobody answers is no error

	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex
	ids   []string
	tries int
	full  []answer // that there is no room
}

func (r *rig) startKeyed(k *keyed) *keyed {
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	r.Cleanup(func() { stop(); k.done.Wait() })
	k.done.Go(func() {
		tick := time.NewTicker(k.every)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			if err := k.push(r, fmt.Sprintf("%s-%d", k.prefix, n), tick.C); err != nil {
				r.Error(err)
				return
			}
		}
	})
	return k
}

// push pushes one key until it is taken.
func (k *keyed) push(r *rig, key string, tick <-chan time.Time) error {
	for late := time.Now().Add(patience); ; {
		<-tick
		a, err := r.try(http.MethodPost, k.url, `{"body":1}`, "Idempotency-Key", key)
		switch {
		case err != nil && k.doorDies && time.Now().Before(late):
		case err != nil:
			return err
		case k.note(a):
			return nil
		case a.status != http.StatusServiceUnavailable && a.status != http.StatusTooManyRequests:
			return fmt.Errorf("a push was answered with %d: %s", a.status, a.body)
		}
	}
}

func (k *keyed) note(a answer) (taken bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tries++
	switch a.status {
	case http.StatusAccepted:
		k.ids = append(k.ids, a.header.Get("Tundish-Job-Id"))
	case http.StatusTooManyRequests:
		k.full = append(k.full, a)
	}
	return a.status == http.StatusAccepted
}

// end stops when the last key is taken and answers one id a key.
func (k *keyed) end(t testing.TB) []string {
	t.Helper()
	k.stop()
	k.done.Wait()
	seen := map[string]bool{}
	for _, id := range k.ids {
		if seen[id] {
			t.Errorf("job %s was answered to two keys", id)
		}
		seen[id] = true
	}
	return k.ids
}

// startProducers starts n producers with keys of their own.
func (r *rig) startProducers(n int, every time.Duration) []*keyed {
	producers := make([]*keyed, n)
	for i := range producers {
		producers[i] = r.startKeyed(&keyed{url: r.at("bank") + "/jobs", prefix: fmt.Sprint(i), every: every})
	}
	return producers
}

// judgeKeyed ends the producers and holds all that they were told against the
// bank: each key is one job, sent once, at the rate.
func (r *rig) judgeKeyed(destination string, s *site, rate int64, producers []*keyed) (keys, tries int) {
	r.Helper()
	var ids []string
	for _, p := range producers {
		ids = append(ids, p.end(r)...)
		tries += p.tries
	}
	r.recount(destination, s, ids)
	r.mustJudge(destination, s, bank.Case{Rate: rate, Per: time.Second, Jobs: len(ids)})
	if seen, _ := s.Arrivals(); len(seen) != len(ids) {
		r.Errorf("%d requests for %d keys", len(seen), len(ids))
	}
	r.Logf("%d keys in %d pushes", len(ids), tries)
	return len(ids), tries
}
