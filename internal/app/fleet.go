package app

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/queue"
)

const (
	// fleetAge is for how long a look at all destinations serves scrapes at least,
	// and fleetShare what part of the time looks may take.
	fleetAge   = 2 * time.Second
	fleetShare = 20
	// fleetWithin bounds one look.
	fleetWithin = 10 * time.Second

	// maxClasses bounds the labels of classes, whose names come through the API.
	maxClasses = 50
	other      = "other"
	noClass    = "none"

	// lateAfter is the age from which a job can be late.
	lateAfter = time.Minute
	// fullAt is the part of the capacity from which a queue is full: it goes up and
	// down between that and the bound while jobs are sent and refused.
	fullAt = 0.99
	// prefetch is for how long before its slot a job holds a sender.
	prefetch = 100 * time.Millisecond
	// unmeasured is what a job is taken to hold a sender for when none was sent yet.
	unmeasured = time.Second
)

var (
	descJobs     = fleetDesc("queue_jobs", "Jobs by state.", "destination", "state")
	descCapacity = fleetDesc("queue_capacity_jobs", "Live jobs that the queue may hold.", "destination")
	descBytes    = fleetDesc("queue_size_bytes", "Bytes of the live jobs.", "destination")
	descOldest   = fleetDesc("queue_oldest_age_seconds", "Age of the oldest live job that does not wait for its own time.", "destination")
	descDrain    = fleetDesc("queue_drain_seconds", "How long the live jobs take at the rate as granted.", "destination")
	descRate     = fleetDesc("limit_rate_per_second", "Rate of a limit as written.", "destination", "limit")
	descGranted  = fleetDesc("limit_effective_rate_per_second", "Rate that all limits together grant.", "destination")
	descState    = fleetDesc("destination_state", "1 for the state a destination is in.", "destination", "state")
	descCount    = fleetDesc("destinations", "Destinations by class and state.", "class", "state")
	descLate     = fleetDesc("destinations_late", "Running destinations with a job older than a full queue takes, and than a minute.", "class")
	descFull     = fleetDesc("destinations_full", "Destinations whose queue is at 99 % of its jobs or bytes, or above.", "class")
	descUseful   = fleetDesc("useful_workers", "Workers that the jobs of running destinations can keep busy at their rates.")
)

// jobStates are the states that queue_jobs tells apart.
var jobStates = []string{"ready", "waiting", "leased", "dead", "unknown"}

func fleetDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tundish_"+name, help+" The same on every enqueuer: take the max.", labels, nil)
}

// surveyor looks at all destinations.
type surveyor interface {
	Survey(ctx context.Context) ([]queue.Lane, error)
	Senders(ctx context.Context) (int, error)
}

// fleet says what is in Redis now. All scrapes of a while share one look, so
// that they cost Redis a bounded share of its time, however many there are.
type fleet struct {
	store surveyor
	limit int // destinations with labels of their own

	mu      sync.Mutex
	lanes   []queue.Lane
	senders int
	fresh   time.Time // until then lanes serve
}

func newFleet(store surveyor, limit int) *fleet { return &fleet{store: store, limit: limit} }

// Describe implements prometheus.Collector.
func (f *fleet) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descJobs, descCapacity, descBytes, descOldest, descDrain, descRate, descGranted, descState,
		descCount, descLate, descFull, descUseful} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (f *fleet) Collect(ch chan<- prometheus.Metric) {
	lanes, senders, err := f.look()
	if err != nil {
		return // no series is better than an old one
	}
	g := gauges{ch}
	// Sorted by name: every enqueuer gives labels to the same destinations.
	own := min(f.limit, len(lanes))
	for i := range lanes[:own] {
		g.destination(&lanes[i])
	}
	g.others(lanes[own:])
	g.classes(lanes)
	g.set(descUseful, usefulWorkers(lanes, senders))
}

func (f *fleet) look() ([]queue.Lane, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	begin := time.Now()
	if begin.Before(f.fresh) {
		return f.lanes, f.senders, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), fleetWithin)
	defer cancel()
	lanes, err := f.store.Survey(ctx)
	if err != nil {
		return nil, 0, err
	}
	senders, err := f.store.Senders(ctx)
	if err != nil {
		return nil, 0, err
	}
	f.lanes, f.senders = lanes, senders
	f.fresh = time.Now().Add(max(fleetAge, fleetShare*time.Since(begin)))
	return lanes, senders, nil
}

// gauges sends values of now.
type gauges struct{ ch chan<- prometheus.Metric }

func (g gauges) set(desc *prometheus.Desc, v float64, labels ...string) {
	g.ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
}

func (g gauges) destination(l *queue.Lane) {
	g.jobs(l, l.Drain())
	for _, state := range queue.LaneStates() {
		g.set(descState, flag(l.State == state), l.Name, state)
	}
	if len(l.Limits) == 0 {
		return
	}
	g.set(descGranted, l.Rate(), l.Name)
	for _, limit := range l.Limits {
		g.set(descRate, limit.Rate, l.Name, limit.Name)
	}
}

func (g gauges) jobs(l *queue.Lane, drain time.Duration) {
	for i, n := range []int64{l.Ready, l.Waiting, l.Leased, l.Dead, l.Unknown} {
		g.set(descJobs, float64(n), l.Name, jobStates[i])
	}
	g.set(descCapacity, float64(l.Capacity), l.Name)
	g.set(descBytes, float64(l.SizeBytes), l.Name)
	g.set(descOldest, l.OldestAge.Seconds(), l.Name)
	g.set(descDrain, drain.Seconds(), l.Name)
}

// others sends the destinations without labels of their own together: sums of
// what is counted, the worst of what is measured.
func (g gauges) others(lanes []queue.Lane) {
	if len(lanes) == 0 {
		return
	}
	sum, drain, states := queue.Lane{Name: other}, time.Duration(0), map[string]bool{}
	for i := range lanes {
		l := &lanes[i]
		sum.Ready, sum.Waiting, sum.Leased = sum.Ready+l.Ready, sum.Waiting+l.Waiting, sum.Leased+l.Leased
		sum.Dead, sum.Unknown = sum.Dead+l.Dead, sum.Unknown+l.Unknown
		sum.Capacity, sum.SizeBytes = sum.Capacity+l.Capacity, sum.SizeBytes+l.SizeBytes
		sum.OldestAge, drain = max(sum.OldestAge, l.OldestAge), max(drain, l.Drain())
		states[l.State] = true
	}
	g.jobs(&sum, drain)
	for _, state := range queue.LaneStates() {
		g.set(descState, flag(states[state]), other, state)
	}
}

// classes counts all destinations.
func (g gauges) classes(lanes []queue.Lane) {
	label := classLabels(lanes)
	count, late, full := map[[2]string]float64{}, map[string]float64{}, map[string]float64{}
	late[noClass] = 0 // so that there is a series when there is no destination
	for i := range lanes {
		class := label(lanes[i].Class)
		count[[2]string{class, lanes[i].State}]++
		late[class] += flag(isLate(&lanes[i]))
		full[class] += flag(isFull(&lanes[i]))
	}
	for class, n := range late {
		for _, state := range queue.LaneStates() {
			g.set(descCount, count[[2]string{class, state}], class, state)
		}
		g.set(descLate, n, class)
		g.set(descFull, full[class], class)
	}
}

// classLabels names classes: the first few by name, the same on every enqueuer.
func classLabels(lanes []queue.Lane) func(class string) string {
	known := map[string]bool{}
	for i := range lanes {
		known[lanes[i].Class] = true
	}
	delete(known, "")
	named := slices.Sorted(maps.Keys(known))
	named = named[:min(len(named), maxClasses)]
	return func(class string) string {
		if class == "" {
			return noClass
		}
		if _, found := slices.BinarySearch(named, class); found {
			return class
		}
		return other
	}
}

// isLate says that a job of a destination that sends has been there for longer
// than a full queue takes at its rate: it is not the rate alone that it waits for.
func isLate(l *queue.Lane) bool {
	rate := l.Rate()
	if l.Stopped() || rate <= 0 {
		return false
	}
	return l.OldestAge > lateAfter && l.OldestAge.Seconds() > float64(l.Capacity)/rate
}

func isFull(l *queue.Lane) bool {
	return l.Capacity > 0 && (float64(l.Depth) >= fullAt*float64(l.Capacity) || float64(l.SizeBytes) >= fullAt*float64(l.MaxBytes))
}

// usefulWorkers is min(backlog, rate × time that a job holds a sender) of all
// destinations, in workers: more of them would only wait.
func usefulWorkers(lanes []queue.Lane, senders int) float64 {
	busy := 0.0
	for i := range lanes {
		l := &lanes[i]
		if l.State != queue.StateRunning {
			continue
		}
		held := unmeasured
		if l.Occupied > 0 {
			held = l.Occupied + prefetch
		}
		busy += min(float64(l.Ready+l.Leased), l.Rate()*held.Seconds())
	}
	return math.Ceil(busy / float64(max(1, senders)))
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
