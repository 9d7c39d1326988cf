// Package background runs what waits for a clock or takes long, on asynq: in
// this version the fleet's sweep and operations on many jobs. Every worker runs
// it; a task is done once.
package background

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

const (
	taskSweep = "sweep"
	// sweepEvery is how often the fleet compares lanes with their due entries.
	sweepEvery = time.Minute
	// sweepShare: a sweep spreads over half of its period.
	sweepShare = 2
	// eachEvery is how often Each is called at least.
	eachEvery = 15 * time.Second
	// look is how often an idle server looks for tasks; nothing here is urgent.
	// asynq cannot be woken from this pause, so a stop may take as long.
	look = time.Second
	// tasksAtOnce: an operation that waits must not keep a sweep from its turn.
	tasksAtOnce = 4
)

func queueOf(namespace string) string { return "tundish-" + namespace }

// Sweeper mends lanes; see queue.Store.
type Sweeper interface {
	Sweep(ctx context.Context, within time.Duration) (queue.Repairs, error)
}

// Config says how background work runs.
type Config struct {
	// Namespace of the installation; it names the queue.
	Namespace string
	// Every is how often a sweep is due. Default: a minute.
	Every   time.Duration
	Sweeper Sweeper
	// Operator goes on with operations; nil: this process does not.
	Operator Operator
	// Each is called at the start and then each period, or each eachEvery when that
	// is shorter, by every worker; may be nil.
	Each    func(ctx context.Context) error
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil: nowhere
}

// Background is asynq's server of this process, and the clock of its tasks.
type Background struct {
	cfg     Config
	queue   string
	log     *slog.Logger
	client  *asynq.Client
	planner *Planner
	server  *asynq.Server
	repairs *prometheus.CounterVec
	turned  prometheus.Gauge
	running context.Context // ends with Stop
	cancel  context.CancelFunc
	stop    chan struct{} // closed when it stops
	wg      sync.WaitGroup

	sweeping, operating trouble
}

// New makes background work over a client that the caller closes after Stop.
func New(cfg Config, client redis.UniversalClient) *Background {
	if cfg.Every <= 0 {
		cfg.Every = sweepEvery
	}
	b := &Background{cfg: cfg, queue: queueOf(cfg.Namespace), log: cfg.Logger.With("component", "background"), client: asynq.NewClientFromRedisClient(client),
		planner: NewPlanner(cfg.Namespace, client), stop: make(chan struct{})}
	b.sweeping.failed, b.sweeping.over = "a sweep failed; the next one tries again", "sweeps go through again"
	b.operating.failed, b.operating.over = "an operation does not go on; it is tried again", "operations go on again"
	b.repairs = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tundish", Name: "sweep_repairs_total",
		Help: "What sweeps of this process mended; any is an alert."}, []string{"kind"})
	for _, kind := range []string{"due_entry", "lease"} {
		b.repairs.WithLabelValues(kind)
	}
	b.turned = prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "tundish", Name: "loop_last_turn_timestamp_seconds",
		Help: "When a loop last passed; one that stands still is not ready.", ConstLabels: prometheus.Labels{"loop": "background"}})
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(b.repairs, b.turned)
	}
	b.server = asynq.NewServerFromRedisClient(calm{client, b.stop}, asynq.Config{
		Concurrency: tasksAtOnce, Queues: map[string]int{b.queue: 1}, TaskCheckInterval: look, ShutdownTimeout: time.Second,
		Logger: newLogger(b.log), LogLevel: asynq.WarnLevel,
	})
	return b
}

// Start begins to take tasks and to make them when they are due.
func (b *Background) Start() error {
	mux := asynq.NewServeMux()
	mux.HandleFunc(taskSweep, b.sweep)
	mux.HandleFunc(taskOperation, b.operate)
	b.running, b.cancel = context.WithCancel(context.Background())
	if err := b.server.Start(mux); err != nil {
		b.cancel()
		return fmt.Errorf("background: %w", err)
	}
	b.wg.Go(func() { b.clock(b.running) })
	return nil
}

// Stop ends both; a task under way is taken up again by another worker.
func (b *Background) Stop() {
	close(b.stop)
	b.cancel()
	b.wg.Wait()
	b.server.Shutdown()
}

// clock makes a sweep each period. Workers make the same task under the same
// id, so the fleet has one, whoever comes first.
func (b *Background) clock(ctx context.Context) {
	tick, each, revive := time.NewTicker(b.cfg.Every), time.NewTicker(min(b.cfg.Every, eachEvery)), time.NewTicker(min(b.cfg.Every, reviveEvery))
	defer tick.Stop()
	defer each.Stop()
	defer revive.Stop()
	b.each(ctx)
	b.revive(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-each.C:
			b.each(ctx)
		case <-revive.C:
			b.revive(ctx)
		case at := <-tick.C:
			if err := b.plan(ctx, at); err != nil {
				b.log.Debug("the sweep was not planned", "error", err) // the next period tries again
			}
		}
	}
}

func (b *Background) each(ctx context.Context) {
	b.turned.SetToCurrentTime()
	if b.cfg.Each == nil {
		return
	}
	if err := b.cfg.Each(ctx); err != nil {
		b.log.Debug("what is told each period was not", "error", err) // the next period tries again
	}
}

func (b *Background) plan(ctx context.Context, at time.Time) error {
	id := fmt.Sprintf("sweep:%d", at.UnixNano()/int64(b.cfg.Every))
	_, err := b.client.EnqueueContext(ctx, asynq.NewTask(taskSweep, nil), asynq.Queue(b.queue), asynq.TaskID(id), asynq.MaxRetry(0),
		asynq.Timeout(max(b.cfg.Every, time.Second)), asynq.Retention(max(2*b.cfg.Every, time.Second)))
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return err
}

// sweep never fails for asynq, which would put the task aside and say so each
// time: the next period sweeps again.
func (b *Background) sweep(ctx context.Context, _ *asynq.Task) error {
	begin := time.Now()
	repairs, err := b.cfg.Sweeper.Sweep(ctx, b.cfg.Every/sweepShare)
	b.repairs.WithLabelValues("due_entry").Add(float64(repairs.Entries))
	b.repairs.WithLabelValues("lease").Add(float64(repairs.Leases))
	if repairs.Entries+repairs.Leases > 0 {
		b.log.Warn("a sweep mended lanes", "due_entries", repairs.Entries, "leases", repairs.Leases)
	}
	b.log.Debug("swept", "took", time.Since(begin), "error", err)
	b.sweeping.tell(b.log, err)
	return nil
}

// trouble logs failures of one kind of work when they begin, change or end.
type trouble struct {
	failed, over string // what is said

	mu   sync.Mutex
	kind string // of the failure that was logged last
}

func (t *trouble) tell(log *slog.Logger, err error) {
	kind := ""
	if err != nil {
		kind = redisdb.Kind(err)
	}
	if kind == redisdb.KindCancelled { // we stop
		return
	}
	t.mu.Lock()
	before := t.kind
	t.kind = kind
	t.mu.Unlock()
	switch kind {
	case before:
	case "":
		log.Info(t.over)
	default:
		log.Warn(t.failed, "kind", kind, "error", inShort(err))
	}
}

// inShort says once what many parts of a task failed with.
func inShort(err error) string {
	var texts []string
	for text := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}
