package app

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/queue"
)

// fleetAge is how long a reading of all destinations serves scrapes.
const fleetAge = 2 * time.Second

var (
	descJobs     = fleetDesc("queue_jobs", "Jobs by state.", "destination", "state")
	descCapacity = fleetDesc("queue_capacity_jobs", "Jobs that the queue may hold.", "destination")
	descBytes    = fleetDesc("queue_size_bytes", "Bytes of the live jobs.", "destination")
	descOldest   = fleetDesc("queue_oldest_age_seconds", "Age of the oldest job that is ready.", "destination")
	descDrain    = fleetDesc("queue_drain_seconds", "Until the queue is empty at its rate.", "destination")
	descRate     = fleetDesc("limit_rate_per_second", "Rate of a limit as written.", "destination", "limit")
	descGranted  = fleetDesc("limit_effective_rate_per_second", "Rate of a limit as granted.", "destination", "limit")
	descState    = fleetDesc("destination_state", "1 for the state a destination is in.", "destination", "state")
)

func fleetDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tundish_"+name, help+" The same on every enqueuer: take the max.", labels, nil)
}

// fleet says what is in Redis now. A scrape reads all destinations once, a few
// at a time, and never while another scrape does.
type fleet struct {
	store *queue.Store
	limit int

	mu   sync.Mutex
	list []*queue.Destination
	at   time.Time
}

func newFleet(store *queue.Store, limit int) *fleet { return &fleet{store: store, limit: limit} }

// Describe implements prometheus.Collector.
func (f *fleet) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descJobs, descCapacity, descBytes, descOldest, descDrain, descRate, descGranted, descState} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (f *fleet) Collect(ch chan<- prometheus.Metric) {
	for _, d := range f.read() {
		f.collect(ch, d)
	}
}

func (f *fleet) read() []*queue.Destination {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.at) < fleetAge {
		return f.list
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	list, _, err := f.store.Destinations(ctx, "", "", f.limit)
	if err != nil {
		return nil // no series is better than an old one
	}
	f.list, f.at = list, time.Now()
	return list
}

func (f *fleet) collect(ch chan<- prometheus.Metric, d *queue.Destination) {
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, append([]string{d.Name}, labels...)...)
	}
	l := d.Live
	for state, n := range map[string]int64{"ready": l.Ready, "waiting": l.Waiting, "leased": l.Leased, "dead": l.Dead} {
		gauge(descJobs, float64(n), state)
	}
	gauge(descBytes, float64(l.SizeBytes))
	gauge(descOldest, l.OldestAge.Seconds())
	for _, state := range []string{"running", "paused", "faulty"} {
		on := 0.0
		if l.State == state {
			on = 1
		}
		gauge(descState, on, state)
	}
	if d.Contract == nil {
		return
	}
	gauge(descCapacity, float64(d.Contract.Queue.Capacity))
	gauge(descDrain, l.Drain.Seconds())
	for _, limit := range d.Contract.Limits {
		gauge(descRate, float64(limit.Rate)/limit.Per.Seconds(), limit.Name)
		gauge(descGranted, d.Contract.EffectiveRate(limit), limit.Name)
	}
}
