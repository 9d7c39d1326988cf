package background

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"tundish/internal/queue"
	"tundish/internal/redistest"
)

// patience bounds every wait: longer is a failure.
const patience = 30 * time.Second

// operator is an operation of some steps.
type operator struct {
	mu      sync.Mutex
	steps   int // that are left
	waits   bool
	failing error
	idle    map[queue.OperationRef]string
	made    chan int // told of each step, how many are left
}

func (o *operator) Advance(_ context.Context, ref queue.OperationRef) (queue.Progress, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ref != theOperation {
		return queue.Progress{}, errors.New("another operation")
	}
	if o.failing != nil {
		err := o.failing
		o.failing = nil
		return queue.Progress{}, err
	}
	o.steps--
	o.made <- o.steps
	return queue.Progress{Ended: o.steps <= 0, Waiting: o.waits}, nil
}

func (o *operator) IdleOperations(context.Context, time.Duration) (map[queue.OperationRef]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.idle, nil
}

var theOperation = queue.OperationRef{ID: "op-1", Destination: "bank"}

func (o *operator) awaitEnd(t *testing.T) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case left := <-o.made:
			if left == 0 {
				return
			}
		case <-late:
			t.Fatal("the operation has not ended")
		}
	}
}

func startOperating(t *testing.T, o Operator) *Planner {
	t.Helper()
	client, namespace := redistest.Shared(t).Client(t), redistest.Namespace(t)
	b := New(Config{Namespace: namespace, Every: time.Second, Sweeper: &counter{swept: make(chan struct{}, 1000)}, Operator: o,
		Logger: slog.New(slog.DiscardHandler)}, client)
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	return NewPlanner(namespace, client)
}

// An operation goes on from task to task until it ends: here with waits that are longer than one task.
func TestOperationGoesOnToItsEnd(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*operator{"at once": {steps: 300}, "waiting": {steps: 3, waits: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.made = make(chan int, 1000)
			p := startOperating(t, o)
			for range 2 { // begun twice is begun once
				if err := p.Begin(t.Context(), theOperation); err != nil {
					t.Fatal(err)
				}
			}
			o.awaitEnd(t)
		})
	}
}

// An operation whose task was lost, or failed, is found and gone on with.
func TestOperationThatStandsStillIsRevived(t *testing.T) {
	t.Parallel()
	o := &operator{steps: 3, made: make(chan int, 1000), failing: errors.New("not now"), idle: map[queue.OperationRef]string{theOperation: "1"}}
	p := startOperating(t, o)
	if err := p.Begin(t.Context(), theOperation); err != nil {
		t.Fatal(err)
	}
	o.awaitEnd(t)
}

// crowd is many operations that wait for room, and one that can go on.
type crowd struct {
	mu    sync.Mutex
	looks map[string]int
	ended chan struct{}
}

func (c *crowd) Advance(_ context.Context, ref queue.OperationRef) (queue.Progress, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ref == theOperation {
		close(c.ended)
		return queue.Progress{Ended: true}, nil
	}
	c.looks[ref.ID]++
	return queue.Progress{Waiting: true}, nil
}

func (c *crowd) IdleOperations(context.Context, time.Duration) (map[queue.OperationRef]string, error) {
	return nil, nil
}

// Operations that wait for room keep no other from its turn: each looks but once
// or so before the one behind them all begins.
func TestOperationsThatWaitLetOthersGoOn(t *testing.T) {
	t.Parallel()
	c := &crowd{looks: map[string]int{}, ended: make(chan struct{})}
	p := startOperating(t, c)
	for i := range 4 * tasksAtOnce {
		if err := p.Begin(t.Context(), queue.OperationRef{ID: strconv.Itoa(i), Destination: "full"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Begin(t.Context(), theOperation); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.ended:
	case <-time.After(patience):
		t.Fatal("it never came to its turn")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, n := range c.looks {
		if n > 3 {
			t.Errorf("operation %s looked %d times before", id, n)
		}
	}
}
