package drain

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
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
	clockSteps  prometheus.Counter
	stateLost   prometheus.Counter
	senders     prometheus.Gauge
	sendersBusy prometheus.Gauge

	mu     sync.Mutex
	limit  int
	labels map[string]struct{}
}

const defaultLabels = 200

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
		clockSteps:  prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tundish", Name: "clock_steps_total", Help: "Steps of Redis' clock seen."}),
		stateLost:   prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tundish", Name: "state_lost_total", Help: "Lanes whose state was lost or whose server was replaced."}),
		senders:     prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "tundish", Name: "senders", Help: "Senders of this process."}),
		sendersBusy: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "tundish", Name: "senders_busy", Help: "Senders with an attempt or a prefetched job."}),
		limit:       defaultLabels, labels: map[string]struct{}{},
	}
	if reg != nil {
		reg.MustRegister(m.attempts, m.duration, m.queueWait, m.lateness, m.finished, m.granted, m.slotsDead, m.stale, m.clockSteps, m.stateLost, m.senders, m.sendersBusy)
	}
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tundish", Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "tundish", Name: name, Help: help, Buckets: buckets}, []string{"destination"})
}

// label is the name of a destination as a label: beyond the bound it is "other".
func (m *Metrics) label(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.labels[name]; ok {
		return name
	}
	if len(m.labels) >= m.limit {
		return "other"
	}
	m.labels[name] = struct{}{}
	return name
}
