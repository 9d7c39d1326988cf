package app

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"tundish/internal/drain"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// Version of the programs; set by the linker in releases.
var Version = "dev"

func newRegistry(program string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "tundish", Name: "build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"program": program, "version": Version, "revision": revision(), "go": runtime.Version()}})
	info.Set(1)
	reg.MustRegister(info)
	return reg
}

func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

// redisMetrics watches the calls to Redis of this process.
type redisMetrics struct {
	up     prometheus.Gauge
	errors *prometheus.CounterVec
	script *prometheus.HistogramVec
	trip   trip
}

func newRedisMetrics(reg prometheus.Registerer) *redisMetrics {
	m := &redisMetrics{
		up:     prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "tundish", Name: "redis_up", Help: "1 when the last call was answered."}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tundish", Name: "redis_errors_total", Help: "Failed calls by kind."}, []string{"kind"}),
		script: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "tundish", Name: "redis_script_duration_seconds",
			Help: "Round trip of a script.", Buckets: prometheus.ExponentialBucketsRange(0.0001, 2, 14)}, []string{"script"}),
	}
	m.up.Set(1)
	for _, kind := range redisdb.Kinds() {
		m.errors.WithLabelValues(kind)
	}
	for _, s := range queue.Scripts() {
		m.script.WithLabelValues(s.Name())
	}
	reg.MustRegister(m.up, m.errors, m.script, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "tundish", Name: "redis_round_trip_seconds",
		Help: "The shortest round trip of a script of late, 0 before the first."}, m.trip.seconds))
	return m
}

// long are the scripts whose own time is more than that of the way.
var long = map[string]bool{"survey": true, "mend": true, "delete": true, "list": true, "act": true}

func (m *redisMetrics) observe(script string, d time.Duration, err error) {
	m.script.WithLabelValues(script).Observe(d.Seconds())
	if err == nil {
		m.up.Set(1)
		if !long[script] {
			m.trip.add(d, time.Now())
		}
		return
	}
	m.errors.WithLabelValues(redisdb.Kind(err)).Inc()
	if redisdb.Unavailable(err) {
		m.up.Set(0)
	}
}

// tripSpan is of how long the shortest round trip is told: this span and the one before it.
const tripSpan = 15 * time.Second

// trip keeps the shortest round trip of late: what the way to Redis costs, and
// not a pause of this process or a busy Redis.
type trip struct {
	mu     sync.Mutex
	since  time.Time
	last   time.Duration // shortest of the span before since
	now    time.Duration // shortest since; 0: none
	before bool          // last holds one
}

func (t *trip) add(d time.Duration, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == 0 || at.Sub(t.since) > tripSpan {
		t.last, t.before = t.now, t.now > 0 && at.Sub(t.since) <= 2*tripSpan
		t.since, t.now = at, d
		return
	}
	t.now = min(t.now, d)
}

func (t *trip) seconds() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.before {
		return min(t.last, t.now).Seconds()
	}
	return t.now.Seconds()
}

// trimmed maps what scripts count to the kinds of trimmed_total.
var trimmed = map[string]string{queue.CountTrimmedDead: "dead", queue.CountTrimmedResults: "result", queue.CountTrimmedKeys: "key"}

// newCounts counts what scripts did in calls of this process: the calls of all
// processes together count each thing once.
func newCounts(reg prometheus.Registerer, log *slog.Logger) func(name string, n int64) {
	removed := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tundish", Name: "trimmed_total",
		Help: "What was removed for its age (dead) or to keep a bound (all)."}, []string{"kind"})
	unreadable := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tundish", Name: "unreadable_total",
		Help: "Jobs put aside as dead because this version cannot read them."})
	for _, kind := range trimmed {
		removed.WithLabelValues(kind)
	}
	reg.MustRegister(removed, unreadable)
	dead := &trimLog{log: log, now: time.Now}
	return func(name string, n int64) {
		if name == queue.CountUnreadable {
			unreadable.Add(float64(n))
		}
		if kind, ok := trimmed[name]; ok {
			removed.WithLabelValues(kind).Add(float64(n))
		}
		if name == queue.CountTrimmedDead {
			dead.add(n)
		}
	}
}

// trimEvery is how often at most the log tells of removed dead jobs.
const trimEvery = time.Minute

// trimLog tells of dead jobs that were removed: nobody can send them again.
type trimLog struct {
	log *slog.Logger
	now func() time.Time

	mu     sync.Mutex
	untold int64
	next   time.Time
}

func (t *trimLog) add(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.untold += n; t.now().Before(t.next) {
		return // told with the next ones; the metric has them all
	}
	t.log.Warn("dead jobs were removed, for their age or beyond the bounds of their destination", "jobs", t.untold)
	t.untold, t.next = 0, t.now().Add(trimEvery)
}

// surveyed tells of each look at all destinations which ones there are.
type surveyed struct {
	surveyor

	told func(exists func(name string) bool)
}

// Survey implements surveyor.
func (s surveyed) Survey(ctx context.Context) ([]queue.Lane, error) {
	lanes, err := s.surveyor.Survey(ctx)
	if err == nil {
		s.told(func(name string) bool {
			_, found := slices.BinarySearchFunc(lanes, name, func(l queue.Lane, name string) int { return strings.Compare(l.Name, name) })
			return found
		})
	}
	return lanes, err
}

// keepSeries lets the metrics of a worker know which destinations there are.
func keepSeries(ctx context.Context, store *queue.Store, metrics *drain.Metrics) error {
	names, err := store.Names(ctx)
	if err != nil {
		return err
	}
	metrics.KeepSeries(func(name string) bool {
		_, found := slices.BinarySearch(names, name)
		return found
	})
	return nil
}
