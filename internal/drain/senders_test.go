package drain

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tundish/internal/deliver"
	"tundish/internal/job"
)

// hang makes attempts of some lanes take until their timeout.
func (w *world) hang(hangs func(lane string) bool) {
	w.sender.attempt = func(a *deliver.Attempt) (time.Duration, job.Outcome) {
		if hangs(a.Lane) {
			return time.Hour, job.OutcomeTimeout
		}
		return 20 * time.Millisecond, job.OutcomeDelivered
	}
}

func TestShareLeavesSomeFree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := senders{total: rapid.IntRange(1, 2000).Draw(t, "total")}
		s.used = rapid.IntRange(0, s.total).Draw(t, "used")
		s.asked = rapid.IntRange(0, s.total-s.used).Draw(t, "asked")
		busy := rapid.IntRange(0, s.used).Draw(t, "busy")
		n := s.share(busy)
		if n < 0 || n > s.total-s.used-s.asked {
			t.Fatalf("share %d of %+v", n, s)
		}
		free := s.total - s.used - s.asked - n
		if n > 0 && s.total > 1 && busy+n > free {
			t.Fatalf("a lane holds %d with %d free", busy+n, free)
		}
	})
}

func TestHangingLaneLeavesHalf(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.hang(func(lane string) bool { return lane == "dead" })
		w.lane("dead", 5000, func(l *fakeLane) { l.interval = 1000 })
		good := w.lane("good", 0)
		w.start()
		w.run(3 * time.Second)
		if w.sender.now > 50 || w.sender.now < 45 {
			t.Errorf("a lane that hangs holds %d of 100 senders, want about half", w.sender.now)
		}
		w.push(good, 100)
		w.run(3 * time.Second)
		w.want(good, "delivered", 100)
	})
}

func TestHangingLanesNeverTakeAll(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 9, 20} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.cfg.Concurrency = 500
				w.hang(func(lane string) bool { return lane != "good" })
				for i := range n {
					w.lane(fmt.Sprintf("dead-%d", i), 600, func(l *fakeLane) { l.interval, l.timeout = 1000, 2*time.Second })
				}
				w.start()
				good := w.lane("good", 0)
				w.run(10 * time.Second) // long enough for shares to become even
				w.push(good, 50)
				w.run(5 * time.Second)
				// Where the share is a handful, the good lane takes turns with the others.
				if got := w.count(good, "delivered"); got < 50 && n < 10 || got < 10 {
					t.Errorf("%d of 50 jobs delivered beside %d lanes that hang", got, n)
				}
			})
		})
	}
}

func TestShortSendersLetTheLaneGo(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.cfg.Concurrency, w.cfg.Wake = 10, nil
		w.hang(func(string) bool { return true })
		l := w.lane("dead", 100, func(l *fakeLane) { l.interval = 1000 })
		w.start()
		w.run(500 * time.Millisecond)
		w.want(l, "leased", 5)
		begin := time.Now()
		w.run(5 * time.Second)
		claims, turns := w.seen("claim", begin), w.seen("turn", begin)
		if len(claims) > 150 || len(turns) > 150 {
			t.Errorf("%d claims and %d turns in 5s without a sender to give: the lane is not left to others", len(claims), len(turns))
		}
		ahead := int64(0)
		for range 20 { // between a claim and its turn it lies a second ahead
			w.change(func() { ahead = l.due - time.Now().UnixMicro() })
			if ahead <= 50_000 {
				return
			}
			w.run(time.Millisecond)
		}
		t.Errorf("the entry lies %dµs ahead, want it due for another worker", ahead)
	})
}

// A fast lane fills its half of the senders with jobs whose slots are still to
// come. It needs no other worker: they come back in time.
func TestPrefetchedJobsAreNoReasonToLetGo(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.cfg.Concurrency = 180
		l := w.lane("bank", 3000, func(l *fakeLane) { l.interval = 1000 })
		w.start()
		begin := time.Now()
		w.run(2 * time.Second)
		if got := w.count(l, "delivered"); got < 1900 {
			t.Errorf("%d jobs delivered in 2s at 1000/s", got)
		}
		// Without slots that last it is given up at every look, some forty times.
		if claims := w.seen("claim", begin); len(claims) > 25 {
			t.Errorf("%d claims in 2s: the lane is given up and taken again", len(claims))
		}
	})
}

func TestOneSenderWorks(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.cfg.Concurrency = 1
		l := w.lane("bank", 20)
		w.start()
		w.run(10 * time.Second)
		w.want(l, "delivered", 20)
	})
}

func TestManyLanesNeverTakeMoreThanThereAre(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.cfg.Concurrency = 100
		w.hang(func(string) bool { return true })
		for i := range 300 {
			w.lane(fmt.Sprintf("dead-%d", i), 100, func(l *fakeLane) { l.interval = 100 })
		}
		w.start()
		w.run(5 * time.Second)
		if w.sender.most > 100 || w.sender.most < 90 {
			t.Errorf("%d attempts at once with 100 senders", w.sender.most)
		}
	})
}

// A worker with too few senders for what a lane could have ahead still uses them:
// none may lie idle until the next look that comes by itself.
func TestFewSendersAreUsed(t *testing.T) {
	t.Parallel()
	for senders, want := range map[int]int{10: 350, 20: 800, 24: 800, 30: 950, 60: 980} {
		t.Run(fmt.Sprint(senders), func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.cfg.Concurrency = senders
				l := w.lane("bank", 1500, func(l *fakeLane) { l.interval = 5000 })
				w.start()
				w.run(5 * time.Second)
				if got := w.count(l, "delivered"); got < want {
					t.Errorf("%d jobs in 5s with %d senders, want %d", got, senders, want)
				}
			})
		})
	}
}
