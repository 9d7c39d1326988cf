package api

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

func newCommitter(s pusher, base context.Context) *committer {
	return &committer{store: s, base: base, timeout: callTimeout, onPanic: func(any) {}, lanes: map[string][]*entryGroup{}}
}

func jobOf(size int) *job.Job {
	return &job.Job{ID: job.NewID(), Request: job.Request{Body: make([]byte, size)}}
}

// TestFourHundredPushesForAHundredPlaces is the promise of the bound seen
// from outside: exactly as many 202 as places.
func TestFourHundredPushesForAHundredPlaces(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	a := newTestAPI(t, s)
	var taken, full, other atomic.Int64
	waits := make(chan int64, 400)
	var wg sync.WaitGroup
	for range 400 {
		wg.Go(func() {
			r := do(a, "POST", bankJobs, strings.NewReader(`{"body":1}`))
			switch r.status {
			case 202:
				taken.Add(1)
			case 429:
				full.Add(1)
				waits <- r.problem(t, job.CodeQueueFull).RetryAfterMS
			default:
				other.Add(1)
			}
		})
	}
	wg.Wait()
	close(waits)
	if taken.Load() != 100 || full.Load() != 300 || other.Load() != 0 || len(s.jobs) != 100 {
		t.Fatalf("%d taken, %d full, %d other, %d in the store", taken.Load(), full.Load(), other.Load(), len(s.jobs))
	}
	// Told apart by 1/50 s each, the last is sent some 6 s ahead.
	var latest int64
	for w := range waits {
		latest = max(latest, w)
	}
	if latest < 2000 || latest > 6100 {
		t.Errorf("the last caller is told %d ms", latest)
	}
	if s.looks > 1 {
		t.Errorf("%d looks at the contract", s.looks)
	}
}

func TestPushesGatherWhileACallIsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.capacity, s.hold, s.began = 1000, make(chan struct{}), make(chan struct{}, 10)
		c := newCommitter(s, t.Context())
		ids := make(chan error, 500)
		push := func() {
			j := jobOf(1)
			r, err := c.push(t.Context(), of("bank"), []*job.Job{j})
			if err == nil && r[0].ID != j.ID {
				err = fmt.Errorf("the result is of another job")
			}
			ids <- err
		}
		go push()
		<-s.began
		for range 2*callJobs + 50 {
			go push()
		}
		synctest.Wait()
		close(s.hold)
		synctest.Wait()
		if got := fmt.Sprint(s.calls); got != fmt.Sprint([]int{1, callJobs, callJobs, 50}) {
			t.Errorf("calls of %s jobs", got)
		}
		for range 2*callJobs + 51 {
			if err := <-ids; err != nil {
				t.Error(err)
			}
		}
		if len(c.lanes) != 0 || c.jobs != 0 || c.bytes != 0 {
			t.Errorf("left behind: %d lanes, %d jobs, %d bytes", len(c.lanes), c.jobs, c.bytes)
		}
	})
}

// TestALonePushMakesItsOwnCall: no goroutine, and nothing left behind that the
// next would have to wait for.
func TestALonePushMakesItsOwnCall(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	c := newCommitter(s, t.Context())
	s.onPush = func() error {
		if !strings.Contains(string(debug.Stack()), "TestALonePushMakesItsOwnCall") {
			t.Error("another goroutine made the call")
		}
		return nil
	}
	for range 3 {
		if _, err := c.push(t.Context(), of("bank"), []*job.Job{jobOf(1)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.lanes) != 0 || c.jobs != 0 || c.bytes != 0 {
		t.Errorf("left behind: %d lanes, %d jobs, %d bytes", len(c.lanes), c.jobs, c.bytes)
	}
}

func TestCallsAreBoundedByBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.hold, s.began = make(chan struct{}), make(chan struct{}, 10)
		c := newCommitter(s, t.Context())
		go c.push(t.Context(), of("bank"), []*job.Job{jobOf(0)})
		<-s.began
		for _, size := range []int{callBytes/2 - queue.JobBytes, callBytes/2 - queue.JobBytes, 1, callBytes + 1, 1, 1} {
			go c.push(t.Context(), of("bank"), []*job.Job{jobOf(size)})
			synctest.Wait() // one after the other
		}
		close(s.hold)
		synctest.Wait()
		if got := fmt.Sprint(s.calls); got != "[1 2 1 1 2]" {
			t.Errorf("calls of %s jobs", got)
		}
	})
}

func TestDestinationsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.hold, s.began = make(chan struct{}), make(chan struct{}, 10)
		c := newCommitter(s, t.Context())
		for _, name := range []string{"a", "b", "c"} {
			go c.push(t.Context(), of(name), []*job.Job{jobOf(1)})
		}
		synctest.Wait()
		if len(s.began) != 3 {
			t.Errorf("%d calls under way, want 3", len(s.began))
		}
		close(s.hold)
		synctest.Wait()
	})
}

func TestAnErrorAnswersAllItsCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.hold, s.began = make(chan struct{}), make(chan struct{}, 10)
		s.err = job.Errorf(job.CodeUnavailable, "gone")
		c := newCommitter(s, t.Context())
		errs := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := c.push(t.Context(), of("bank"), []*job.Job{jobOf(1)})
				errs <- err
			}()
		}
		synctest.Wait()
		close(s.hold)
		for range 10 {
			if err := <-errs; job.CodeOf(err) != job.CodeUnavailable {
				t.Error(err)
			}
		}
	})
}

func TestAStoreThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.hold, s.began = make(chan struct{}), make(chan struct{}, 10)
		c := newCommitter(s, context.Background())
		started := time.Now()
		errs := make(chan error, 1000)
		for range 1000 {
			go func() {
				_, err := c.push(t.Context(), of("bank"), []*job.Job{jobOf(1)})
				errs <- err
			}()
		}
		for range 1000 {
			if err := <-errs; job.CodeOf(err) != job.CodeUnavailable {
				t.Error(err)
			}
		}
		if took := time.Since(started); took > callTimeout {
			t.Errorf("callers waited %s", took)
		}
		synctest.Wait()
		if len(s.began) != 1 || len(c.lanes) != 0 || c.jobs != 0 {
			t.Errorf("%d calls for callers that had left; %d lanes, %d jobs left", len(s.began), len(c.lanes), c.jobs)
		}
	})
}

func TestACallerThatLeavesFailsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.hold, s.began = make(chan struct{}), make(chan struct{}, 10)
		c := newCommitter(s, context.Background())
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 4)
		push := func(ctx context.Context) {
			_, err := c.push(ctx, of("bank"), []*job.Job{jobOf(1)})
			errs <- err
		}
		go push(ctx) // makes the call when its caller leaves: it is stored
		<-s.began
		go push(ctx) // still waiting: it is dropped
		go push(t.Context())
		synctest.Wait()
		cancel()
		if err := <-errs; job.CodeOf(err) != job.CodeUnavailable {
			t.Error(err)
		}
		s.hold <- struct{}{}
		if err := <-errs; err != nil {
			t.Error(err)
		}
		<-s.began
		ctx, cancel = context.WithCancel(t.Context())
		go push(ctx)
		synctest.Wait()
		s.hold <- struct{}{}
		<-s.began // and now it is under way, made by a goroutine
		cancel()
		if err := errors.Join(<-errs, <-errs); job.CodeOf(err) != job.CodeUnavailable {
			t.Error(err)
		}
		close(s.hold)
		synctest.Wait()
		if len(s.jobs) != 3 || fmt.Sprint(s.calls) != "[1 1 1]" || c.jobs != 0 || len(c.lanes) != 0 {
			t.Errorf("%d jobs, calls %v, %d waiting", len(s.jobs), s.calls, c.jobs)
		}
	})
}

func TestWaitingPushesAreBounded(t *testing.T) {
	t.Parallel()
	t.Run("by count", func(t *testing.T) {
		t.Parallel()
		testWaiting(t, 0, waitingJobs/200, 200)
	})
	t.Run("by bytes", func(t *testing.T) {
		t.Parallel()
		testWaiting(t, 16<<20, waitingBytes/(16<<20), 1)
	})
}

func testWaiting(t *testing.T, size, groups, jobs int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.capacity, s.hold, s.began = waitingJobs, make(chan struct{}), make(chan struct{}, 1000)
		c := newCommitter(s, t.Context())
		list := make([]*job.Job, jobs)
		for i := range list {
			list[i] = jobOf(size)
		}
		for range groups {
			go c.push(t.Context(), of("bank"), list)
		}
		synctest.Wait()
		if _, err := c.push(t.Context(), of("bank"), []*job.Job{jobOf(1)}); job.CodeOf(err) != job.CodeOverloaded {
			t.Errorf("one more than may wait: %v", err)
		}
		close(s.hold)
		synctest.Wait()
		if _, err := c.push(t.Context(), of("bank"), []*job.Job{jobOf(1)}); err != nil {
			t.Errorf("when all are gone: %v", err)
		}
	})
}

// oddStore answers what no store should.
type oddStore struct {
	push func() ([]queue.PushResult, error)
}

func (s oddStore) PushDurable(context.Context, string, destination.Durability, []*job.Job) ([]queue.PushResult, error) {
	return s.push()
}

func TestAnOddStoreIsNoEnd(t *testing.T) {
	t.Parallel()
	for name, push := range map[string]func() ([]queue.PushResult, error){
		"panics":          func() ([]queue.PushResult, error) { panic("a bug") },
		"too few results": func() ([]queue.PushResult, error) { return nil, nil },
		"plain error":     func() ([]queue.PushResult, error) { return nil, errors.New("odd") },
	} {
		c := newCommitter(oddStore{push}, t.Context())
		for range 2 {
			if _, err := c.push(t.Context(), of("bank"), []*job.Job{jobOf(1)}); job.CodeOf(err) != job.CodeInternal {
				t.Errorf("%s: %v", name, err)
			}
		}
		c.close()
		if _, err := c.push(t.Context(), of("bank"), []*job.Job{jobOf(1)}); job.CodeOf(err) != job.CodeUnavailable {
			t.Errorf("after close: %v", err)
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		sizes []int
		want  string
	}{
		{nil, "[]"},
		{make([]int, 2*callJobs+1), fmt.Sprint([]int{callJobs, callJobs, 1})},
		{[]int{callBytes - 2*queue.JobBytes, 0, 1, callBytes + 1, 2}, "[2 1 1 1]"},
	}
	for _, tc := range tests {
		var jobs []*job.Job
		for _, n := range tc.sizes {
			jobs = append(jobs, jobOf(n))
		}
		got := []int{}
		for _, part := range split(jobs) {
			got = append(got, len(part))
		}
		if fmt.Sprint(got) != tc.want {
			t.Errorf("parts of %v, want %s", got, tc.want)
		}
	}
}

func of(name string) *destination.Contract {
	return &destination.Contract{Name: name, Durability: destination.Memory}
}
