package background

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"tundish/internal/queue"
)

const (
	taskOperation = "operation"
	// operateFor is how long one task goes on with an operation. Then it makes the
	// next and lets others come to their turn.
	operateFor = 2 * time.Second
	// roomEvery is how often an operation looks for room that waits for it. One
	// that finds none gives its place to others, for none may come for hours; then
	// it may be as much as look later.
	roomEvery = 250 * time.Millisecond
	// operationIdle is how long nothing is heard of an operation before somebody
	// else goes on with it: its worker was killed, or its task was lost.
	operationIdle = 5 * time.Second
	// reviveEvery is how often each worker looks for such ones.
	reviveEvery = 5 * time.Second
	// operationRetries is how often asynq takes up a task whose worker was killed.
	// Others have gone on with the operation by then.
	operationRetries = 3
)

// Operator goes on with operations; see queue.Store.
type Operator interface {
	Advance(ctx context.Context, ref queue.OperationRef) (queue.Progress, error)
	IdleOperations(ctx context.Context, idle time.Duration) (map[queue.OperationRef]string, error)
}

// Planner hands operations over to whoever runs Background.
type Planner struct {
	client *asynq.Client
	queue  string
}

// NewPlanner makes a Planner over a client that the caller closes.
func NewPlanner(namespace string, client redis.UniversalClient) *Planner {
	return &Planner{client: asynq.NewClientFromRedisClient(client), queue: queueOf(namespace)}
}

// Begin hands over a new operation.
func (p *Planner) Begin(ctx context.Context, ref queue.OperationRef) error {
	return p.plan(ctx, ref, "begin")
}

// plan makes a task. The same step planned by several is one task.
func (p *Planner) plan(ctx context.Context, ref queue.OperationRef, step string) error {
	payload, err := json.Marshal(ref)
	if err != nil {
		return fmt.Errorf("operation: %w", err)
	}
	_, err = p.client.EnqueueContext(ctx, asynq.NewTask(taskOperation, payload), asynq.Queue(p.queue),
		asynq.TaskID("op:"+ref.ID+":"+step), asynq.MaxRetry(operationRetries), asynq.Timeout(time.Minute))
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return err
}

// operate goes on with an operation for a while. It never fails for asynq,
// which would delay or drop the task: revive finds an operation that stands still.
func (b *Background) operate(_ context.Context, t *asynq.Task) error {
	var ref queue.OperationRef
	if err := json.Unmarshal(t.Payload(), &ref); err != nil || b.cfg.Operator == nil {
		b.log.Error("an operation cannot be gone on with", "error", err)
		return nil
	}
	p, err := b.steps(b.running, ref)
	b.operating.tell(b.log, err)
	if err != nil || p.Ended {
		return nil //nolint:nilerr // told, and revive tries again
	}
	// Two that go on with the same operation make the same next task. It must not
	// be this one, so the time is counted in what a task takes at least.
	takes := operateFor
	if stuck(p) {
		takes = roomEvery
	}
	step := strconv.FormatInt(time.Now().UnixNano()/int64(takes), 10)
	if err := b.planner.plan(context.WithoutCancel(b.running), ref, step); err != nil {
		b.log.Debug("the next step of an operation was not planned", "operation", ref.ID, "error", err)
	}
	return nil
}

// stuck says whether an operation waits for room of which there was none.
func stuck(p queue.Progress) bool { return p.Waiting && !p.Moved }

// steps makes steps of an operation until it ends or is stuck, or for
// operateFor. Between them it leaves Redis to others for as long as a step took.
func (b *Background) steps(ctx context.Context, ref queue.OperationRef) (p queue.Progress, err error) {
	until := time.Now().Add(operateFor)
	for time.Now().Before(until) && !stuck(p) && ctx.Err() == nil {
		begin := time.Now()
		if p, err = b.cfg.Operator.Advance(context.WithoutCancel(ctx), ref); err != nil {
			return p, err
		}
		if p.Ended {
			b.log.Info("an operation has ended", "operation", ref.ID, "destination", ref.Destination)
			return p, nil
		}
		rest := time.Since(begin)
		if p.Waiting {
			rest = roomEvery
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
		}
	}
	return p, nil
}

// revive makes tasks for operations that stand still.
func (b *Background) revive(ctx context.Context) {
	if b.cfg.Operator == nil {
		return
	}
	idle, err := b.cfg.Operator.IdleOperations(ctx, operationIdle)
	for ref, since := range idle {
		err = errors.Join(err, b.planner.plan(ctx, ref, "since:"+since))
	}
	if err != nil {
		b.log.Debug("operations that stand still were not looked for", "error", err) // the next period tries again
	}
}
