package drain

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// instant is a store and a sender that cost next to nothing, so that what
// remains is the loop. Every turn of a lane brings jobs and a look of now.
type instant struct {
	mu       sync.Mutex
	lanes    []string // to be claimed
	perTurn  int
	contract *destination.Contract
	env      []byte
	results  chan int
}

func (*instant) Groups() [][]int { return (&fakeStore{}).Groups() }

func (s *instant) Claim(context.Context, []int, int, int, *[redisdb.Shards]queue.ClockView) (queue.Claim, error) {
	c := queue.Claim{Wait: -1}
	for i := range c.Logical {
		c.Logical[i] = redisdb.Monotonic().Microseconds()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.lanes), queue.MaxClaim)
	c.Lanes, s.lanes = s.lanes[:n], s.lanes[n:]
	return c, nil
}

func (s *instant) Turns(_ context.Context, _ string, turns []queue.Turn) []queue.TurnReply {
	out := make([]queue.TurnReply, len(turns))
	now, settled := redisdb.Monotonic().Microseconds(), 0
	for i := range turns {
		t, r := &turns[i], &out[i]
		settled += len(t.Result)
		if !t.Keep && (t.Want > 0 || t.Short) {
			s.mu.Lock()
			s.lanes = append(s.lanes, t.Lane)
			s.mu.Unlock()
		}
		*r = queue.TurnReply{Status: queue.TurnOK, Logical: now, Epoch: 1, Version: 1, Generation: 1, Tolerance: time.Second, Timeout: time.Minute,
			Look: now + 1, Why: "slot", Verdicts: make([]string, len(t.Result))}
		for k := range r.Verdicts {
			r.Verdicts[k] = "ok"
		}
		r.Leases = make([]queue.Lease, min(t.Want, s.perTurn))
		for k := range r.Leases {
			r.Leases[k] = queue.Lease{ID: "0123456789012345678901", Token: "t", Slot: now, Envelope: s.env}
		}
	}
	s.results <- settled
	return out
}

func (s *instant) Contract(context.Context, string) (*destination.Contract, int64, error) {
	return s.contract, 1, nil
}
func (s *instant) Start(context.Context, string, destination.Durability, []queue.Lease) ([]bool, error) {
	return nil, nil
}
func (s *instant) MarkFaulty(context.Context, string, int64) error                { return nil }
func (s *instant) MarkUnfit(context.Context, string, string, time.Duration) error { return nil }

func (s *instant) Send(context.Context, deliver.Attempt) deliver.Result {
	return deliver.Result{Outcome: job.OutcomeDelivered, Wrote: true, StartedAt: time.Now()}
}

// BenchmarkLoop is what one job costs the worker beside Redis and the wire,
// with many lanes held: its share of a turn, its attempt and its result.
func BenchmarkLoop(b *testing.B) {
	for _, lanes := range []int{1, 100, 1000} {
		for _, perTurn := range []int{1, 10} {
			b.Run(fmt.Sprintf("lanes=%d/jobs=%d", lanes, perTurn), func(b *testing.B) {
				l := newLane("bench")
				s := &instant{perTurn: perTurn, contract: l.contract, env: envelope(), results: make(chan int, 1024)}
				for i := range lanes {
					s.lanes = append(s.lanes, fmt.Sprintf("lane-%d", i))
				}
				d := New(Config{Worker: "w", Concurrency: 10_000}, s, s, s)
				b.ReportAllocs()
				b.ResetTimer()
				d.Start()
				for settled := 0; settled < b.N; {
					settled += <-s.results
				}
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
				go func() {
					for range s.results {
					}
				}()
				d.Stop()
				close(s.results)
			})
		}
	}
}
