package drain

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// sectionsDir names the folder in which `make bench` gathers its tables.
const sectionsDir = "TUNDISH_BENCH_SECTIONS"

// TestSlowRatesAreUsedToTheEnd drains lanes of one job a minute and an hour in
// virtual time: the worker may lose nothing of a slow rate, however often it
// looks in between. It is a test because virtual time is not for benchmarks;
// `make bench` takes its table all the same, with a day, which takes longer.
func TestSlowRatesAreUsedToTheEnd(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	slowest, name := time.Hour, "1 per hour"
	if os.Getenv(sectionsDir) != "" {
		slowest, name = 24*time.Hour, "1 per day"
	}
	for _, c := range []struct {
		name     string
		interval time.Duration
		jobs     int
	}{{"1 per minute", time.Minute, 30}, {name, slowest, 2}} {
		inWorld(t, func(w *world) {
			claims, turns := 0, 0
			w.store.before = func(op, _ string) error {
				if op == "claim" {
					claims++
				} else {
					turns++
				}
				w.store.calls = w.store.calls[:0] // a day has many
				return nil
			}
			l := w.lane("slow", c.jobs, func(l *fakeLane) { l.interval = c.interval.Microseconds() })
			w.start()
			begin := time.Now()
			for len(w.writes()) < c.jobs && time.Since(begin) < time.Duration(c.jobs)*c.interval {
				w.run(c.interval / 20)
			}
			writes := w.writes()
			if len(writes) != c.jobs {
				t.Fatalf("%s: %d of %d jobs were written (%s)", c.name, len(writes), c.jobs, w.places(l))
			}
			longest := time.Duration(0)
			for i := 1; i < len(writes); i++ {
				gap := writes[i].at.Sub(writes[i-1].at)
				longest = max(longest, gap)
				if gap < c.interval-10*time.Millisecond || gap > c.interval+10*time.Millisecond {
					t.Errorf("%s: %s between two writes", c.name, gap)
				}
			}
			use := float64(c.jobs-1) * c.interval.Seconds() / writes[len(writes)-1].at.Sub(writes[0].at).Seconds()
			w.change(func() { // the loop goes on counting
				fmt.Fprintf(&table, "| %s | %d | %.4f %% | %s | %.1f | %.1f |\n", c.name, c.jobs, 100*use, longest.Round(time.Microsecond),
					float64(turns)/float64(c.jobs), float64(claims)/time.Since(begin).Seconds())
			})
			w.run(time.Second)
			synctest.Wait()
		})
	}
	publish(t, "13-rate-virtual", "## Slow rates, in virtual time\n\nOne worker on a store in memory, with a clock that jumps: what the loop itself loses of a rate, "+
		"the lane's spacing taken as exact. *Looks* are for all lanes together.\n\n"+
		"| rate | jobs | use | longest gap | turns/job | looks/s |\n| --- | --- | --- | --- | --- | --- |\n"+table.String())
}

// publish keeps a section of docs/benchmarks.md when that is made.
func publish(t *testing.T, file, text string) {
	t.Helper()
	if dir := os.Getenv(sectionsDir); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, file+".md"), []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
}
