package e2e

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tundish/internal/bank"
)

// operation is an operation as its page shows it.
type operation struct {
	ID         string `json:"id"`
	State      string `json:"state"`
	Total      int    `json:"total"`
	Done       int    `json:"done"`
	Failed     int    `json:"failed"`
	FinishedAt string `json:"finished_at"`
}

func (r *rig) operation(id string) operation {
	r.Helper()
	return decode[operation](r, r.do(http.MethodGet, r.enqueuers[0].url+"/v1/operations/"+id, "", http.StatusOK))
}

// redrives tells how often each job of a destination was redriven, page by page.
func (r *rig) redrives(destination string) map[string]int {
	r.Helper()
	all := map[string]int{}
	for cursor := ""; ; {
		page := decode[struct {
			Jobs []struct {
				ID       string `json:"id"`
				Redrives int    `json:"redrives"`
			} `json:"jobs"`
			Next string `json:"next_cursor"`
		}](r, r.do(http.MethodGet, r.at(destination)+"/jobs?limit=500&cursor="+cursor, "", http.StatusOK))
		for _, j := range page.Jobs {
			if _, twice := all[j.ID]; twice {
				r.Errorf("job %s is listed twice", j.ID)
			}
			all[j.ID] = j.Redrives
		}
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// A bank was down and its jobs are dead. They are redriven while a producer
// pushes, and the workers that do it are killed in the middle: each job is sent
// again once, at the rate, and the queue keeps its bound and room for the producer.
func TestRedriveGoesOnWhenItsWorkersAreKilled(t *testing.T) {
	t.Parallel()
	const rate, jobs, capacity = 300, 1500, 200
	r := newRig(t, false)
	r.startEnqueuer()
	old := r.startWorkers(2)
	var broken atomic.Bool
	broken.Store(true)
	site := r.startBank(bank.Config{Script: func(int, *http.Request) *bank.Answer {
		if broken.Load() {
			return &bank.Answer{Status: http.StatusForbidden}
		}
		return nil
	}})
	r.put("bank", contract{URL: site.url, Rate: rate, Timeout: "1s"})
	dead := r.push("bank", jobs)
	r.settled("bank")
	broken.Store(false)
	r.put("bank", contract{URL: site.url, Rate: rate, Timeout: "1s", Capacity: capacity})

	stop, pushed := make(chan struct{}), []string(nil)
	var producer sync.WaitGroup
	refused := 0
	producer.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			a, err := r.try(http.MethodPost, r.at("bank")+"/jobs", `{"body":1}`)
			switch {
			case err != nil:
				t.Error(err)
				return
			case a.status == http.StatusAccepted:
				pushed = append(pushed, decode[batchResult](r, a).ID)
			case a.status == http.StatusTooManyRequests:
				refused++
			default:
				t.Errorf("push: status %d: %s", a.status, a.body)
			}
		}
	})
	op := decode[operation](r, r.do(http.MethodPost, r.at("bank")+"/redrive", `{"filter":{"outcome":"rejected"}}`, http.StatusAccepted))
	most := 0
	goesOn := func(what string, holds func(operation) bool) {
		r.eventually(what, 2*patience, func() bool {
			most = max(most, r.live("bank").Depth)
			return holds(r.operation(op.ID))
		})
	}
	goesOn("a third is redriven", func(o operation) bool { return o.Done >= jobs/3 })
	for _, w := range old {
		w.kill()
	}
	cut := r.operation(op.ID)
	if cut.FinishedAt != "" {
		t.Fatalf("it had ended: the test shows nothing: %+v", cut)
	}
	r.startWorkers(2)
	goesOn("it ends", func(o operation) bool { return o.FinishedAt != "" })
	close(stop)
	producer.Wait()
	if o := r.operation(op.ID); o.State != "done" || o.Total != jobs || o.Done != jobs || o.Failed != 0 {
		t.Errorf("it ended as %+v", o)
	}
	r.settled("bank")
	times := r.redrives("bank")
	for _, id := range dead {
		if times[id] != 1 {
			t.Errorf("job %s was redriven %d times", id, times[id])
		}
	}
	for _, id := range pushed {
		if n, there := times[id]; n != 0 || !there {
			t.Errorf("job %s of the producer: redriven %d times, listed %v", id, n, there)
		}
	}
	if most > capacity || len(pushed) == 0 {
		t.Errorf("at most %d jobs of %d; the producer got %d in and %d refused", most, capacity, len(pushed), refused)
	}
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs + len(pushed), MayRepeat: rate / 5, MayMiss: rate})
}
