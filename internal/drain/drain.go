package drain

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// Store is what the drain needs of the lanes.
type Store interface {
	Turns(ctx context.Context, worker string, turns []queue.Turn) []queue.TurnReply
	// Groups are the shards that one claim may look through, together all.
	Groups() [][]int
	Claim(ctx context.Context, shards []int, first, limit int, views *[redisdb.Shards]queue.ClockView) (queue.Claim, error)
	Contract(ctx context.Context, lane string) (*destination.Contract, int64, error)
}

// Marks are the rarer writes of the drain.
type Marks interface {
	Start(ctx context.Context, lane string, d destination.Durability, leases []queue.Lease) ([]bool, error)
	MarkFaulty(ctx context.Context, lane string, version int64) error
	// MarkUnfit shows for a time why a worker cannot send to a lane; an empty
	// reason takes that away.
	MarkUnfit(ctx context.Context, lane, reason string, lasts time.Duration) error
}

// Sender makes one attempt.
type Sender interface {
	Send(ctx context.Context, a deliver.Attempt) deliver.Result
}

// Recorder notes each write; see the strict bank.
type Recorder interface {
	Record(lane, jobID string, slotMicros int64)
}

// Config says how a worker drains.
type Config struct {
	// Worker names this process in tokens: unique, without colon.
	Worker string
	// Concurrency is the number of senders: attempts and prefetched jobs at
	// once. Default 1000.
	Concurrency int
	// StopGrace is how long attempts under way may finish after Stop. Default 25 s.
	StopGrace time.Duration
	// Wake brings the names of lanes that became due; may be nil.
	Wake <-chan string
	// Check says why nothing can be sent under a contract here, such as a secret
	// that is missing; nil: never.
	Check func(*destination.Contract) error
	// Record notes each write; may be nil.
	Record Recorder
	// Rand is a uniform random number in [0, 1). Default: math/rand/v2.
	Rand    func() float64
	Logger  *slog.Logger
	Metrics *Metrics
}

// Drain is a running worker. Make it with New, then Start and Stop once.
type Drain struct {
	cfg    Config
	store  Store
	marks  Marks
	sender Sender
	log    *slog.Logger

	events   chan event
	started  atomic.Bool
	stopping atomic.Bool
	stopCh   chan struct{}
	stopOnce sync.Once
	done     chan struct{}
	// cut ends attempts and calls that outlive the grace.
	cut    context.Context
	cutOff context.CancelCauseFunc
	crew   *crew

	lastLoop atomic.Int64 // unix ns of the last pass of the loop
	trouble  atomic.Pointer[string]
}

// New makes a Drain that has not started.
func New(cfg Config, store Store, marks Marks, sender Sender) *Drain {
	cfg.fill()
	d := &Drain{cfg: cfg, store: store, marks: marks, sender: sender, log: cfg.Logger.With("component", "drain"),
		events: make(chan event, 1024), stopCh: make(chan struct{}), done: make(chan struct{})}
	cfg.Metrics.senders.Set(float64(cfg.Concurrency))
	d.crew = newCrew()
	d.cut, d.cutOff = context.WithCancelCause(context.Background())
	return d
}

// Start begins to drain and returns at once. After Stop it does nothing.
func (d *Drain) Start() {
	if d.started.CompareAndSwap(false, true) {
		d.lastLoop.Store(time.Now().UnixNano())
		go newLoop(d).run()
	}
}

// Stop takes no more jobs, gives back what has not come, lets attempts finish
// within the grace, settles, and returns when all has ended. It may be called
// more than once.
func (d *Drain) Stop() {
	d.stopOnce.Do(func() {
		d.stopping.Store(true)
		close(d.stopCh)
		if d.started.CompareAndSwap(false, true) {
			close(d.done)
		}
	})
	<-d.done
}

// LastLoop is when the loop last passed; a loop that stands still is not ready.
func (d *Drain) LastLoop() time.Time { return time.Unix(0, d.lastLoop.Load()) }

// Trouble says why the worker does not drain now; empty when it does.
func (d *Drain) Trouble() string {
	if t := d.trouble.Load(); t != nil {
		return *t
	}
	return ""
}

// errors by which the gate refuses a write.
var (
	errEarly    = errors.New("the slot has not come")
	errLate     = errors.New("the slot is over")
	errEpoch    = errors.New("the destination was changed")
	errStopping = errors.New("the worker stops")
)
