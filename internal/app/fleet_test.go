package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/destination"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
	"tundish/internal/redistest"
)

// fakeFleet is a surveyor over lanes in memory.
type fakeFleet struct {
	lanes   []queue.Lane
	senders int
	err     error
	takes   time.Duration
	looks   int
}

func (f *fakeFleet) Survey(context.Context) ([]queue.Lane, error) {
	f.looks++
	if f.takes > 0 {
		<-time.After(f.takes)
	}
	return f.lanes, f.err
}

func (f *fakeFleet) Senders(context.Context) (int, error) { return f.senders, f.err }

// series gathers a collector: "name label=value …" to value.
func series(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var b strings.Builder
			b.WriteString(strings.TrimPrefix(f.GetName(), "tundish_"))
			for _, l := range m.GetLabel() {
				fmt.Fprintf(&b, " %s=%s", l.GetName(), l.GetValue())
			}
			out[b.String()] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

func fleetSeries(t *testing.T, store surveyor, limit int) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(newFleet(store, limit))
	return series(t, reg)
}

func tps(rate float64) []queue.LaneLimit {
	return []queue.LaneLimit{{Name: "tps", Rate: rate, Granted: rate}}
}

func TestFleetGauges(t *testing.T) {
	t.Parallel()
	lanes := []queue.Lane{
		{Name: "a", State: "running", Depth: 30, Ready: 20, Waiting: 7, Leased: 3, Dead: 2, Unknown: 1, SizeBytes: 900, Capacity: 100, MaxBytes: 1e6,
			OldestAge: 90 * time.Second, Occupied: 1900 * time.Millisecond,
			Limits: []queue.LaneLimit{{Name: "tps", Rate: 10, Granted: 9.9}, {Name: "day", Rate: 4, Granted: 2}}},
		{Name: "b", Class: "hook", State: "paused", Depth: 99, Ready: 99, Capacity: 100, MaxBytes: 1e6, OldestAge: time.Hour, Limits: tps(1)},
		{Name: "c", Class: "hook", State: "running", Depth: 1, Ready: 1, SizeBytes: 99, Capacity: 100, MaxBytes: 100, OldestAge: 11 * time.Minute, Limits: tps(1)},
		{Name: "d", Class: "hook", State: "faulty", Depth: 5, Ready: 5, Unknown: 4},
	}
	got := fleetSeries(t, &fakeFleet{lanes: lanes, senders: 2}, 2)
	for name, want := range map[string]float64{
		"queue_jobs destination=a state=ready": 20, "queue_jobs destination=a state=waiting": 7,
		"queue_jobs destination=a state=leased": 3, "queue_jobs destination=a state=dead": 2, "queue_jobs destination=a state=unknown": 1,
		"queue_capacity_jobs destination=a": 100, "queue_size_bytes destination=a": 900,
		"queue_oldest_age_seconds destination=a": 90, "queue_drain_seconds destination=a": 15,
		"limit_rate_per_second destination=a limit=tps": 10, "limit_rate_per_second destination=a limit=day": 4,
		"limit_effective_rate_per_second destination=a": 2,
		"destination_state destination=a state=running": 1, "destination_state destination=b state=paused": 1,
		"destination_state destination=b state=running": 0,
		// c and d have no labels of their own.
		"queue_jobs destination=other state=ready": 6, "queue_jobs destination=other state=unknown": 4, "queue_oldest_age_seconds destination=other": 660,
		"queue_drain_seconds destination=other": 1, "destination_state destination=other state=faulty": 1,
		"destination_state destination=other state=paused": 0, "queue_capacity_jobs destination=other": 100,
		"destinations class=none state=running": 1, "destinations class=hook state=running": 1,
		"destinations class=hook state=paused": 1, "destinations class=hook state=faulty": 1, "destinations class=none state=faulty": 0,
		// a waits less than its full queue takes, b is paused, c is late and full by bytes, b by jobs.
		"destinations_late class=none": 1, "destinations_late class=hook": 1, "destinations_full class=none": 0, "destinations_full class=hook": 2,
		// a can use 2 per second × 2 s, c its one job.
		"useful_workers": 3,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v (there: %v), want %v", name, v, ok, want)
		}
	}
}

func TestFleetOfNothing(t *testing.T) {
	t.Parallel()
	got := fleetSeries(t, &fakeFleet{senders: 1000}, 200)
	for _, name := range []string{"destinations class=none state=running", "destinations_late class=none", "destinations_full class=none", "useful_workers"} {
		if v, ok := got[name]; !ok || v != 0 {
			t.Errorf("%s = %v (there: %v), want 0", name, v, ok)
		}
	}
	if len(got) != len(queue.LaneStates())+3 {
		t.Errorf("%d series for no destination: %v", len(got), got)
	}
}

func TestLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lane queue.Lane
		late bool
	}{
		"longer than a full queue": {queue.Lane{State: "running", OldestAge: 101 * time.Second, Capacity: 1000, Limits: tps(10)}, true},
		"as a full queue":          {queue.Lane{State: "running", OldestAge: 99 * time.Second, Capacity: 1000, Limits: tps(10)}, false},
		"short":                    {queue.Lane{State: "running", OldestAge: 59 * time.Second, Capacity: 10, Limits: tps(10)}, false},
		"paused":                   {queue.Lane{State: "paused", OldestAge: time.Hour, Capacity: 10, Limits: tps(10)}, false},
		"without a limit":          {queue.Lane{State: "running", OldestAge: time.Hour, Capacity: 10}, false},
	} {
		if got := isLate(&c.lane); got != c.late {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// However many names there are, the number of series is bounded.
func TestFloodOfNamesAddsNoSeries(t *testing.T) {
	t.Parallel()
	flood := func(n int) []queue.Lane {
		var lanes []queue.Lane
		for i := range n {
			lanes = append(lanes, queue.Lane{Name: fmt.Sprintf("d-%06d", i), Class: fmt.Sprintf("c-%06d", i), State: "running", Limits: tps(1)})
		}
		return lanes
	}
	const limit = 5
	few := fleetSeries(t, &fakeFleet{lanes: flood(maxClasses + 10), senders: 1}, limit)
	many := fleetSeries(t, &fakeFleet{lanes: flood(20_000), senders: 1}, limit)
	if len(few) != len(many) {
		t.Errorf("%d series with %d destinations, %d with 20000", len(few), maxClasses+10, len(many))
	}
	if n := many["destinations class=other state=running"]; n != 20_000-maxClasses {
		t.Errorf("%v destinations of other classes, want %d", n, 20_000-maxClasses)
	}
}

// Scrapes share a look: for a while, and for longer when looking is slow.
func TestScrapesShareALook(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ takes, shared time.Duration }{{0, fleetAge}, {time.Second, fleetShare * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			store := &fakeFleet{takes: c.takes}
			f := newFleet(store, 1)
			scrape := func() int {
				if _, _, err := f.look(); err != nil {
					t.Error(err)
				}
				return store.looks
			}
			scrape()
			<-time.After(c.shared - time.Millisecond)
			if n := scrape(); n != 1 {
				t.Errorf("takes %v: %d looks within %v", c.takes, n, c.shared)
			}
			<-time.After(2 * time.Millisecond)
			if n := scrape(); n != 2 {
				t.Errorf("takes %v: %d looks after %v", c.takes, n, c.shared)
			}
		})
	}
}

// While Redis cannot tell there is no series, rather than an old one.
func TestFleetWithoutRedis(t *testing.T) {
	t.Parallel()
	store := &fakeFleet{lanes: []queue.Lane{{Name: "a", State: "running"}}, senders: 1, err: errors.New("away")}
	if got := fleetSeries(t, store, 10); len(got) != 0 {
		t.Errorf("series without Redis: %v", got)
	}
	store.err = nil
	if got := fleetSeries(t, store, 10); got["destinations class=none state=running"] != 1 {
		t.Errorf("series when it is back: %v", got)
	}
}

// BenchmarkScrape takes the fleet's gauges of 10,000 destinations, of which
// 200 have labels of their own, and tells the longest that another caller waited.
func BenchmarkScrape(b *testing.B) {
	ctx := context.Background()
	db, err := redisdb.Open(ctx, redisdb.Config{URL: redistest.Start(b).URL(), Namespace: "bench", CallTimeout: 20 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	store := queue.New(db)
	const destinations = 10_000
	makeDestinations(b, store, destinations)
	waits := pingAll(b, db)
	reg := prometheus.NewRegistry()
	f := newFleet(store, 200)
	reg.MustRegister(f)
	for b.Loop() {
		f.fresh = time.Time{}
		if _, err := reg.Gather(); err != nil || len(f.lanes) != destinations {
			b.Fatalf("%d destinations, %v", len(f.lanes), err)
		}
	}
	all := waits()
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms-wait-p50")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "ms-wait-p99")
}

func makeDestinations(b *testing.B, store *queue.Store, n int) {
	b.Helper()
	for i := range n {
		name := fmt.Sprintf("d-%05d", i)
		doc := `{"target":{"http":{"url":"https://bank.example/v1"}},"limits":[{"name":"tps","algorithm":"leaky_bucket","rate":10,"per":"1s"}]}`
		c, written, err := destination.ParseContract(name, []byte(doc))
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := store.Apply(b.Context(), queue.ApplyRequest{Name: name, Contract: c, Written: written}); err != nil {
			b.Fatal(err)
		}
	}
}

// pingAll asks Redis over and over until the returned function is called, which
// tells how long each answer took.
func pingAll(b *testing.B, db *redisdb.DB) func() []time.Duration {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan []time.Duration)
	go func() {
		var all []time.Duration
		for ctx.Err() == nil {
			begin := time.Now()
			_ = db.Client().Ping(ctx).Err() // the last one is cut
			all = append(all, time.Since(begin))
		}
		done <- all
	}()
	return func() []time.Duration {
		cancel()
		return <-done
	}
}
