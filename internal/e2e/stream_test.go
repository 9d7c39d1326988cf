package e2e

import (
	"context"
	"net/http"
	"sync"
	"time"

	"tundish/internal/bank"
)

// stream pushes one job after the other until it is stopped, and keeps what
// was answered.
type stream struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	taken   []string
	refused []answer
}

func (r *rig) startStream(destination string, every time.Duration) *stream {
	r.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &stream{stop: stop}
	r.Cleanup(func() { stop(); s.done.Wait() })
	url := r.at(destination) + "/jobs"
	s.done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			a, err := r.try(http.MethodPost, url, `{"body":1}`)
			if err != nil {
				r.Error(err) // an enqueuer that lives always answers
				return
			}
			s.note(a)
		}
	})
	return s
}

func (s *stream) note(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.status == http.StatusAccepted {
		s.taken = append(s.taken, a.header.Get("Tundish-Job-Id"))
	} else {
		s.refused = append(s.refused, a)
	}
}

// end stops the stream and answers the ids of jobs that were taken and all other answers.
func (s *stream) end() ([]string, []answer) {
	s.stop()
	s.done.Wait()
	return s.taken, s.refused
}

func (s *stream) count() (taken, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken), len(s.refused)
}

// judgeStream ends the stream and holds what it was told, and jobs from before,
// against the bank: what was taken is sent, once, at the rate.
func (r *rig) judgeStream(destination string, site *site, rate int64, s *stream, before []string) {
	r.Helper()
	ids, refused := s.end()
	r.allRetryLater(refused)
	ids = append(ids, before...)
	r.recount(destination, site, ids)
	r.mustJudge(destination, site, bank.Case{Rate: rate, Per: time.Second, Jobs: len(ids)})
}
