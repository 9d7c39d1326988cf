package drain

import (
	"sync"
	"time"

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
	breaker     *prometheus.CounterVec
	clockSteps  prometheus.Counter
	stateLost   prometheus.Counter
	senders     prometheus.Gauge
	sendersBusy prometheus.Gauge

	mu     sync.Mutex
	limit  int
	labels map[string]*label
	gone   map[string]time.Time // destinations that had labels, and when they lost them
	now    func() time.Time
}

// label is what a destination with labels of its own has.
type label struct {
	limits  map[string]bool // those with labels of their own
	missing time.Time       // since when lists do not name it; zero: they do
}

const (
	// goneAfter is how long a destination must be missing before its series go: a
	// list may be older than it, or made while a store without memory is filled again.
	goneAfter = 10 * time.Second
	// goneKept is for how long more its series are looked for: what is under way, and
	// lanes that are remembered, hold its label.
	goneKept = 5 * time.Minute
)

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
		finished:    counter("jobs_finished_total", "Jobs that ended in a turn of this process.", "destination", "state"),
		granted:     counter("slots_granted_total", "Slots handed out with a job.", "destination"),
		slotsDead:   counter("slots_dead_total", "Slots that were over before the write.", "destination"),
		stale:       counter("stale_results_total", "Results refused because somebody else held the job.", "destination"),
		held:        counter("limit_held_total", "Turns that left ready jobs in the queue because the next slot of this limit was too far off.", "destination", "limit", "mode"),
		throttled:   counter("throttled_total", "Answers 429 and 503.", "destination"),
		breaker:     counter("breaker_transitions_total", "Changes of the breaker.", "destination", "to"),
		clockSteps:  prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tundish", Name: "clock_steps_total", Help: "Steps of Redis' clock seen."}),
		stateLost:   prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tundish", Name: "state_lost_total", Help: "Lanes whose state was lost or whose server was replaced."}),
		senders:     prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "tundish", Name: "senders", Help: "Senders of this process."}),
		sendersBusy: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "tundish", Name: "senders_busy", Help: "Senders with an attempt or a prefetched job."}),
		limit:       defaultLabels, labels: map[string]*label{}, gone: map[string]time.Time{}, now: time.Now,
	}
	if reg != nil {
		reg.MustRegister(m.attempts, m.duration, m.queueWait, m.lateness, m.finished, m.granted, m.slotsDead, m.stale, m.held, m.throttled, m.breaker, m.clockSteps, m.stateLost, m.senders, m.sendersBusy)
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
	for _, state := range []job.State{job.Delivered, job.Dead, job.Unknown, job.Expired} {
		m.finished.WithLabelValues(destination, string(state))
	}
	for _, c := range []*prometheus.CounterVec{m.granted, m.slotsDead, m.stale, m.throttled} {
		c.WithLabelValues(destination)
	}
	for to := range breakerTo {
		m.breaker.WithLabelValues(destination, to)
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
	m.give(name)
	return name
}

func (m *Metrics) give(name string) {
	m.labels[name] = &label{limits: map[string]bool{}}
	delete(m.gone, name)
	m.create(name)
}

// KeepSeries drops the series of destinations that are gone, so that others may
// have their labels. Call it with each new list of all destinations: one that is
// missing for a while is gone.
func (m *Metrics) KeepSeries(exists func(name string) bool) {
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
			m.gone[name] = now
		}
	}
	for name, since := range m.gone {
		if m.drop(name) > 0 && exists(name) {
			m.give(name) // it was made again while its lane was remembered
		} else if now.Sub(since) >= goneKept {
			delete(m.gone, name)
		}
	}
}

// drop removes the series of a destination and says how many there were.
func (m *Metrics) drop(name string) (n int) {
	of := prometheus.Labels{"destination": name}
	for _, c := range []*prometheus.CounterVec{m.attempts, m.finished, m.granted, m.slotsDead, m.stale, m.held, m.throttled, m.breaker} {
		n += c.DeletePartialMatch(of)
	}
	for _, h := range []*prometheus.HistogramVec{m.duration, m.queueWait, m.lateness} {
		n += h.DeletePartialMatch(of)
	}
	return n
}

// limitLabel is the name of a limit as a label: "other" beyond the bound, and
// of destinations that have no label of their own.
func (m *Metrics) limitLabel(destination, limit string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.labels[destination]
	switch {
	case l == nil:
		return other
	case l.limits[limit]:
	case len(l.limits) >= limitLabels:
		return other
	default:
		l.limits[limit] = true
	}
	return limit
}

// breakerTo names the changes of the breaker that a turn counts.
var breakerTo = map[string]string{"open": queue.CountBreakerOpen, "probing": queue.CountBreakerProbing, "closed": queue.CountBreakerClosed}

// endedBy names the ends that a turn counts, which no result of a worker brings.
var endedBy = map[job.State]string{job.Expired: queue.CountExpired, job.Dead: queue.CountEndedDead, job.Unknown: queue.CountEndedUnknown}

// turned counts what a turn says beside its leases and verdicts.
func (m *Metrics) turned(label string, r *queue.TurnReply) {
	if r.Held != "" {
		m.held.WithLabelValues(label, m.limitLabel(label, r.Held), enforce).Inc()
	}
	for to, name := range breakerTo {
		if n := r.Counted[name]; n > 0 {
			m.breaker.WithLabelValues(label, to).Add(float64(n))
		}
	}
	for state, name := range endedBy {
		if n := r.Counted[name]; n > 0 {
			m.finished.WithLabelValues(label, string(state)).Add(float64(n))
		}
	}
}
