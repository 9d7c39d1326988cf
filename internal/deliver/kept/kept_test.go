package kept

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is a connection that goes nowhere.
type line struct {
	number        int
	unfit, fallen bool // at rest; at the next use
	ended, closed atomic.Bool
	asked         time.Duration // unused for so long when it was last asked
}

func (l *line) Rest() bool { return !l.unfit }

func (l *line) Stands(_ context.Context, unused time.Duration) bool {
	l.asked = unused
	return !l.fallen && !l.ended.Load()
}

func (l *line) Ended() bool { return l.ended.Load() }
func (l *line) Close()      { l.closed.Store(true) }

const (
	idleTimeout = 30 * time.Second
	dialTimeout = 10 * time.Second
	target      = "bank"
)

// yard makes lines.
type yard struct {
	*Pools[string, *line]
	*Pool[string, *line]
	takes time.Duration // to make one
	made  atomic.Int64
	cut   atomic.Int64 // ended before they were made
	extra *line        // at hand without a dial
}

func open(t *testing.T, most int) *yard {
	t.Helper()
	y := &yard{}
	y.Pools = New(Config[string, *line]{DialTimeout: dialTimeout, IdleTimeout: idleTimeout, Open: func(string) (Maker[*line], error) { return Maker[*line]{y.dial, y.spare}, nil }})
	t.Cleanup(y.Close)
	y.Pool, _ = y.Use(target, most)
	return y
}

func (y *yard) dial(ctx context.Context) (*line, error) {
	made := time.NewTimer(y.takes)
	defer made.Stop()
	select {
	case <-made.C:
		return &line{number: int(y.made.Add(1))}, nil
	case <-ctx.Done():
		y.cut.Add(1)
		return nil, ctx.Err()
	}
}

func (y *yard) spare() (*line, bool) { return y.extra, y.extra != nil }

func (y *yard) take(t *testing.T) *line {
	t.Helper()
	l, err := y.Take(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (y *yard) unused() []int {
	numbers := []int{}
	for _, l := range y.Unused() {
		numbers = append(numbers, l.number)
	}
	return numbers
}

func TestLatestIsUsedFirstAndSurplusEnds(t *testing.T) {
	t.Parallel()
	y := open(t, 2)
	first, second, third, unfit := y.take(t), y.take(t), y.take(t), y.take(t)
	unfit.unfit = true
	for _, l := range []*line{unfit, first, second, third} {
		y.Put(l)
	}
	if got := y.unused(); !slices.Equal(got, []int{1, 2}) || !third.closed.Load() || !unfit.closed.Load() || second.closed.Load() {
		t.Errorf("unused: %v, closed: %v, %v, %v", got, second.closed.Load(), third.closed.Load(), unfit.closed.Load())
	}
	if l := y.take(t); l != second {
		t.Errorf("took line %d", l.number)
	}
}

// Users of one target may keep different numbers of connections: the largest
// counts, as long as who said it is there, so that none ends the others'.
func TestMostIsThatOfWhoMayKeepMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 2)
		first, second := y.take(t), y.take(t)
		use := func(most int) {
			if p, err := y.Use(target, most); p != y.Pool || err != nil {
				t.Fatalf("another pool, or %v", err)
			}
			y.Done()
		}
		use(1)
		y.Put(first)
		if y.Put(second); second.closed.Load() {
			t.Error("fewer are kept than may be")
		}
		first, second = y.take(t), y.take(t)
		<-time.After(idleTimeout - time.Second)
		use(1)
		<-time.After(2 * time.Second)
		use(1)
		y.Put(first)
		if y.Put(second); !second.closed.Load() {
			t.Error("more are kept than may be")
		}
	})
}

func TestSpareSavesADial(t *testing.T) {
	t.Parallel()
	y := open(t, 2)
	first := y.take(t)
	y.Put(first)
	y.extra = &line{number: 9}
	if a, b := y.take(t), y.take(t); a != first || b != y.extra || y.made.Load() != 1 {
		t.Errorf("took %d and %d; %d were made", a.number, b.number, y.made.Load())
	}
}

func TestFallenIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 10)
		good, fallen, ended := y.take(t), y.take(t), y.take(t)
		y.Put(good)
		y.Put(fallen)
		y.Put(ended)
		fallen.fallen = true
		ended.ended.Store(true)
		<-time.After(time.Second)
		if l := y.take(t); l != good || l.asked != time.Second || !fallen.closed.Load() || !ended.closed.Load() {
			t.Errorf("took line %d, asked %v; closed: %v, %v", l.number, l.asked, fallen.closed.Load(), ended.closed.Load())
		}
		if l := y.take(t); l.number != 4 {
			t.Errorf("took line %d, want another", l.number)
		}
	})
}

func TestUnusedAndEndedAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 10)
		old, ended := y.take(t), y.take(t)
		y.Put(old)
		<-time.After(idleTimeout / 2)
		y.Put(ended)
		ended.ended.Store(true)
		<-time.After(idleTimeout/2 - time.Second)
		if old.closed.Load() || !ended.closed.Load() {
			t.Errorf("before its time: closed %v; ended: closed %v", old.closed.Load(), ended.closed.Load())
		}
		<-time.After(idleTimeout / 2)
		if !old.closed.Load() || len(y.unused()) != 0 {
			t.Errorf("after its time: closed %v, unused %v", old.closed.Load(), y.unused())
		}
	})
}

func TestAgesEndApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ages := make([]Age, 1000)
		for i := range ages {
			ages[i] = NewAge(time.Minute)
		}
		for _, c := range []struct {
			after       time.Duration
			least, most int
		}{{0, 0, 0}, {48 * time.Second, 0, 0}, {6 * time.Second, 300, 700}, {6 * time.Second, 1000, 1000}} {
			<-time.After(c.after)
			over := 0
			for _, a := range ages {
				if a.Over() {
					over++
				}
			}
			if over < c.least || over > c.most {
				t.Errorf("%v later %d are over, want %d to %d", c.after, over, c.least, c.most)
			}
		}
		if (Age{}).Over() {
			t.Error("none given, and over")
		}
	})
}

func TestPoolsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 10)
		<-time.After(2 * forgetAfter)
		if p, _ := y.Use(target, 10); p != y.Pool {
			t.Error("a pool that is in use was forgotten")
		}
		y.Done()
		y.Done()
		<-time.After(2 * forgetAfter)
		if p, _ := y.Use(target, 10); p == y.Pool {
			t.Error("a pool that nobody uses was kept")
		}
	})
}

func TestTakenShortlyBeforeTheSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 10)
		y.takes = 100 * time.Millisecond
		y.Put(y.take(t))
		slot := time.Now().Add(10 * time.Second)
		if _, err := y.Take(t.Context(), slot); err != nil {
			t.Fatal(err)
		}
		if early, want := time.Until(slot), AheadMin+2*y.takes; early != want {
			t.Errorf("taken %v before its slot, want %v", early, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := y.Take(ctx, time.Now().Add(time.Minute)); !errors.Is(err, ErrLeft) {
			t.Errorf("left early: %v", err)
		}
	})
}

// What a Take did not wait for serves the next one; but not as many as one likes.
func TestDialsOutliveTheirTake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 100)
		y.takes = time.Second
		for range 3 * maxOrphans {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := y.Take(ctx, time.Time{}); !errors.Is(err, ErrLeft) {
				t.Error(err)
			}
			cancel()
		}
		synctest.Wait()
		if cut := y.cut.Load(); cut != 2*maxOrphans {
			t.Errorf("%d dials were cut, want %d", cut, 2*maxOrphans)
		}
		<-time.After(time.Second)
		if n := len(y.unused()); n != maxOrphans {
			t.Errorf("%d lines are kept, want %d", n, maxOrphans)
		}
	})
}

func TestDialsEndInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 10)
		y.takes = time.Hour
		begin := time.Now()
		if _, err := y.Take(t.Context(), time.Time{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != dialTimeout {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestNothingIsLeftAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 10)
		unused, used := y.take(t), y.take(t)
		y.takes = time.Hour
		left := make(chan error)
		go func() {
			_, err := y.Take(t.Context(), time.Time{})
			_, err2 := y.Take(t.Context(), time.Time{})
			left <- errors.Join(err, err2)
		}()
		synctest.Wait()
		y.Put(unused)
		y.Close()
		if err := <-left; !errors.Is(err, context.Canceled) && !errors.Is(err, ErrLeft) {
			t.Error(err)
		}
		if y.Put(used); !used.closed.Load() || !unused.closed.Load() {
			t.Errorf("closed: used %v, unused %v", used.closed.Load(), unused.closed.Load())
		}
		if p, err := y.Use(target, 10); p != nil || err != nil {
			t.Errorf("a pool after Close, %v", err)
		}
		if y.Go(func() {}) || y.Context().Err() == nil {
			t.Error("it goes on after Close")
		}
	})
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	fails := errors.New("no certificate")
	s := New(Config[string, *line]{DialTimeout: dialTimeout, IdleTimeout: idleTimeout, Open: func(string) (Maker[*line], error) { return Maker[*line]{}, fails }})
	defer s.Close()
	for range 2 {
		if p, err := s.Use(target, 1); p != nil || !errors.Is(err, fails) {
			t.Errorf("%v, %v", p, err)
		}
	}
}
