package api

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/job"
)

// defaultMetricsDestinations bounds the destination labels.
const defaultMetricsDestinations = 200

// others is the label of destinations beyond the bound and of those that do
// not exist, whose names callers choose.
const others = "other"

// metrics are the door's: what this process did.
type metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	taken     *prometheus.CounterVec
	repeated  *prometheus.CounterVec
	refused   *prometheus.CounterVec
	producers *prometheus.CounterVec

	mu     sync.Mutex
	max    int
	labels map[string]*label
	other  *label // of all the others
	now    func() time.Time

	answers sync.Map // answerKey to *answerSeries
}

// label is a value of the destination label, and the series that each push needs.
type label struct {
	name     string
	missing  time.Time // since when lists do not name it; zero: they do
	taken    prometheus.Counter
	repeated prometheus.Counter
}

// answerKey is what tells requests apart. Each of its parts is of a closed list,
// or names a producer of the keys file.
type answerKey struct {
	route, method, producer string
	status                  int
}

// answerSeries are the series of one kind of answer: finding them by their
// labels costs more than counting.
type answerSeries struct {
	requests, producers prometheus.Counter
	duration            prometheus.Observer
}

// goneAfter is how long a destination must be missing before its series go: a
// list may be older than it, or made while a store without memory is filled again.
const goneAfter = 10 * time.Second

func newMetrics(reg prometheus.Registerer, maxDestinations int) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tundish_" + name, Help: help}, labels)
	}
	m := &metrics{
		requests: counter("http_requests_total", "Requests by route pattern, method and status.", "route", "method", "code"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tundish_http_request_duration_seconds", Help: "Time to answer a request, by route pattern.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
		taken:     counter("jobs_accepted_total", "Jobs taken into a queue.", "destination"),
		repeated:  counter("jobs_replayed_total", "Pushes whose Idempotency-Key had been used for the same request.", "destination"),
		refused:   counter("jobs_rejected_total", "Jobs refused, by problem code.", "destination", "code"),
		producers: counter("producer_requests_total", "Requests by the producer whose key was used and status.", "producer", "code"),
		max:       cmp.Or(maxDestinations, defaultMetricsDestinations),
		labels:    map[string]*label{},
		now:       time.Now,
	}
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	for _, c := range []prometheus.Collector{m.requests, m.durations, m.taken, m.repeated, m.refused, m.producers} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the door's metrics: %w", err)
		}
	}
	m.other = m.create(others)
	return m, nil
}

// create makes the counters of a destination at zero, so that the first
// increase is seen as one.
func (m *metrics) create(destination string) *label {
	for _, code := range []job.Code{job.CodeQueueFull, job.CodeQueueBytesFull, job.CodeTenantShareFull, job.CodeOverloaded, job.CodeUnavailable, job.CodeInvalid} {
		m.refused.WithLabelValues(destination, string(code))
	}
	return &label{name: destination, taken: m.taken.WithLabelValues(destination), repeated: m.repeated.WithLabelValues(destination)}
}

// count gives f the destination's own label, for the first few that exist. It
// holds the lock, so that no series comes back behind keep.
func (m *metrics) count(destination string, f func(*label)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.label(destination))
}

func (m *metrics) label(destination string) *label {
	if l := m.labels[destination]; l != nil {
		return l
	}
	if len(m.labels) >= m.max {
		return m.other
	}
	l := m.create(destination)
	m.labels[destination] = l
	return l
}

// keep drops the series of destinations that no longer exist.
func (m *metrics) keep(exists func(name string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for name, l := range m.labels {
		switch {
		case exists(name):
			l.missing = time.Time{}
		case l.missing.IsZero():
			l.missing = now
		case now.Sub(l.missing) >= goneAfter:
			delete(m.labels, name)
			for _, c := range []*prometheus.CounterVec{m.taken, m.repeated, m.refused} {
				c.DeletePartialMatch(prometheus.Labels{"destination": name})
			}
		}
	}
}

func (m *metrics) accepted(destination string) {
	m.count(destination, func(l *label) { l.taken.Inc() })
}

func (m *metrics) replayed(destination string) {
	m.count(destination, func(l *label) { l.repeated.Inc() })
}

func (m *metrics) rejected(destination string, code job.Code) {
	m.count(destination, func(l *label) { m.refused.WithLabelValues(l.name, string(code)).Inc() })
}

// rejectedUnknown counts a push to a destination that may not exist.
func (m *metrics) rejectedUnknown(code job.Code) {
	m.refused.WithLabelValues(others, string(code)).Inc()
}

var countedMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

func (m *metrics) request(route, method string, status int, took time.Duration, c *call) {
	if !slices.Contains(countedMethods, method) {
		method = others
	}
	s := m.answer(answerKey{route, method, cmp.Or(c.producer.name, "none"), cmp.Or(status, 200)})
	s.requests.Inc()
	s.duration.Observe(took.Seconds())
	s.producers.Inc()
}

func (m *metrics) answer(k answerKey) *answerSeries {
	if s, ok := m.answers.Load(k); ok {
		return s.(*answerSeries) //nolint:forcetypeassert // nothing else is stored
	}
	code := strconv.Itoa(k.status)
	s := &answerSeries{requests: m.requests.WithLabelValues(k.route, k.method, code), duration: m.durations.WithLabelValues(k.route),
		producers: m.producers.WithLabelValues(k.producer, code)}
	m.answers.Store(k, s)
	return s
}
