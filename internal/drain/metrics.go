package drain

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/job"
	"tundish/internal/queue"
)

// Metrics count what this process did; sum them over processes.
type Metrics struct {
	attempts    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	queueWait   *prometheus.HistogramVec
	lateness    *prometheus.HistogramVec
	finished    *prometheus.CounterVec
	granted     *prometheus.CounterVec
	slotsDead   *prometheus.CounterVec
	stale       *prometheus.CounterVec
	held        *prometheus.CounterVec
	throttled   *prometheus.CounterVec
	clockSteps  prometheus.Counter
	stateLost   prometheus.Counter
	senders     prometheus.Gauge
	sendersBusy prometheus.Gauge

	mu     sync.Mutex
	limit  int
	labels map[string]map[string]bool // destination → its limits
}

const (
	// defaultLabels bounds the destinations with labels of their own, and
	// limitLabels the limits of each: names come from contracts, which change.
	defaultLabels = 200
	limitLabels   = 16
	other         = "other"
	// enforce is the mode of a limit that holds jobs back.
	enforce = "enforce"
)

// NewMetrics registers the metrics of a worker; nil registers nowhere.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	wait := prometheus.ExponentialBucketsRange(0.005, 3600, 16)
	m := &Metrics{
		attempts:    counter("attempts_total", "Attempts by outcome.", "destination", "outcome", "result"),
		duration:    histogram("attempt_duration_seconds", "From the first byte written to the outcome.", prometheus.ExponentialBucketsRange(0.001, 60, 14)),
		queueWait:   histogram("queue_wait_seconds", "From the push to the write.", wait),
		lateness:    histogram("slot_lateness_seconds", "From the earliest moment of a slot to the write.", prometheus.ExponentialBucketsRange(0.0001, 1, 12)),
		finished:    counter("jobs_finished_total", "Jobs that ended by a result of this process.", "destination", "state"),
		granted:     counter("slots_granted_total", "Slots handed out with a job.", "destination"),
		slotsDead:   counter("slots_dead_total", "Slots that were over before the write.", "destination"),
		stale:       counter("stale_results_total", "Results refused because somebody else held the job.", "destination"),
		held:        counter("limit_held_total", "Turns that left ready jobs in the queue because the next slot of this limit was too far off.", "destination", "limit", "mode"),
		throttled:   counter("throttled_total", "Answers 429 and 503.", "destination"),
		clockSteps:  prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tundish", Name: "clock_steps_total", Help: "Steps of Redis' clock seen."}),
		stateLost:   prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tundish", Name: "state_lost_total", Help: "Lanes whose state was lost or whose server was replaced."}),
		senders:     prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "tundish", Name: "senders", Help: "Senders of this process."}),
		sendersBusy: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "tundish", Name: "senders_busy", Help: "Senders with an attempt or a prefetched job."}),
		limit:       defaultLabels, labels: map[string]map[string]bool{},
	}
	if reg != nil {
		reg.MustRegister(m.attempts, m.duration, m.queueWait, m.lateness, m.finished, m.granted, m.slotsDead, m.stale, m.held, m.throttled, m.clockSteps, m.stateLost, m.senders, m.sendersBusy)
	}
	m.create(other)
	m.held.WithLabelValues(other, other, enforce)
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tundish", Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "tundish", Name: name, Help: help, Buckets: buckets}, []string{"destination"})
}

// usual are the outcomes whose counters are made at zero, one of each result:
// the first of another outcome is seen where results are summed.
var usual = []job.Outcome{job.OutcomeDelivered, job.OutcomeServerError, job.OutcomeRejected, job.OutcomeTimeout, job.OutcomeThrottled}

// create makes the series of a destination at zero, so that the first increase
// is seen as one.
func (m *Metrics) create(destination string) {
	for _, o := range usual {
		m.attempts.WithLabelValues(destination, string(o), string(o.Class()))
	}
	for _, state := range []job.State{job.Delivered, job.Dead, job.Expired} {
		m.finished.WithLabelValues(destination, string(state))
	}
	for _, c := range []*prometheus.CounterVec{m.granted, m.slotsDead, m.stale, m.throttled} {
		c.WithLabelValues(destination)
	}
	for _, h := range []*prometheus.HistogramVec{m.duration, m.queueWait, m.lateness} {
		h.WithLabelValues(destination)
	}
}

// label is the name of a destination as a label: beyond the bound it is "other".
func (m *Metrics) label(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.labels[name] != nil {
		return name
	}
	if len(m.labels) >= m.limit {
		return other
	}
	m.labels[name] = map[string]bool{}
	m.create(name)
	return name
}

// limitLabel is the name of a limit as a label: "other" beyond the bound, and
// of destinations that have no label of their own.
func (m *Metrics) limitLabel(destination, limit string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	limits := m.labels[destination]
	switch {
	case limits[limit]:
	case limits == nil || len(limits) >= limitLabels:
		return other
	default:
		limits[limit] = true
	}
	return limit
}

// turned counts what a turn says beside its leases and verdicts.
func (m *Metrics) turned(label string, r *queue.TurnReply) {
	if r.Held != "" {
		m.held.WithLabelValues(label, m.limitLabel(label, r.Held), enforce).Inc()
	}
	if n := r.Counted[queue.CountExpired]; n > 0 {
		m.finished.WithLabelValues(label, string(job.Expired)).Add(float64(n))
	}
}
