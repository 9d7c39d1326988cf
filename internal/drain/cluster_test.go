package drain

import (
	"fmt"
	"testing"
	"time"

	"tundish/internal/redisdb"
)

// TestHungNodeKeepsNoSenders: turns that a node of a Cluster does not answer must
// not keep the senders that destinations on other nodes need.
func TestHungNodeKeepsNoSenders(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const hung = 4 * time.Second
		w.cfg.Concurrency = 200
		w.store.groups = [][]int{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}
		var good *fakeLane
		for i, bad := 0, 0; bad < 100 || good == nil; i++ {
			name := fmt.Sprintf("lane-%d", i)
			switch on := redisdb.ShardOf(name); {
			case on < 8 && bad < 100:
				bad++
				w.lane(name, 40, func(l *fakeLane) { l.interval = 200_000 })
			case on >= 8 && good == nil:
				good = w.lane(name, 500)
			}
		}
		w.start()
		w.run(2 * time.Second)
		w.change(func() {
			w.store.stall = func(op, lane string) time.Duration {
				if op == "claim" && lane == "0" || op != "claim" && redisdb.ShardOf(lane) < 8 {
					return hung
				}
				return 0
			}
		})
		before := w.count(good, "delivered")
		w.run(hung - time.Second)
		if got, want := w.count(good, "delivered")-before, 50*3; got < want*9/10 {
			t.Errorf("%d jobs of another node were sent in the 3 s, want %d", got, want)
		}
	})
}
