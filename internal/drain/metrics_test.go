package drain

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/deliver"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// gathered is every series of reg, "name label=value …", with its value or
// number of observations.
func gathered(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "tundish_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

func TestSeriesBeginAtZero(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg)
	check := func(destination string) {
		t.Helper()
		got := gathered(t, reg)
		for _, name := range []string{"attempts_total destination=%s outcome=delivered result=success", "attempts_total destination=%s outcome=server_error result=retry",
			"attempts_total destination=%s outcome=rejected result=permanent", "attempts_total destination=%s outcome=timeout result=ambiguous",
			"attempts_total destination=%s outcome=throttled result=throttled", "attempt_duration_seconds destination=%s", "jobs_finished_total destination=%s state=delivered",
			"jobs_finished_total destination=%s state=dead", "jobs_finished_total destination=%s state=expired", "queue_wait_seconds destination=%s",
			"slot_lateness_seconds destination=%s", "slots_granted_total destination=%s", "slots_dead_total destination=%s", "stale_results_total destination=%s",
			"throttled_total destination=%s"} {
			if v, ok := got[fmt.Sprintf(name, destination)]; !ok || v != 0 {
				t.Errorf("%s of %s: %v, there: %v", name, destination, v, ok)
			}
		}
	}
	check(other)
	m.label("bank")
	check("bank")
	if v, ok := gathered(t, reg)["limit_held_total destination=other limit=other mode=enforce"]; !ok || v != 0 {
		t.Errorf("limit_held_total: %v, there: %v", v, ok)
	}
}

// However many destinations, and limits of one, are seen: series are bounded.
func TestFloodOfNamesAddsNoLabels(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg)
	flood := func(destinations, limits int) int {
		for i := range destinations {
			label := m.label(fmt.Sprintf("d-%d", i))
			for k := range limits {
				m.turned(label, &queue.TurnReply{Held: fmt.Sprintf("l-%d-%d", i, k)})
			}
		}
		return len(gathered(t, reg))
	}
	first := flood(defaultLabels, limitLabels+1)
	if again := flood(10*defaultLabels, limitLabels+5); again != first {
		t.Errorf("%d series, then %d", first, again)
	}
	got := gathered(t, reg)
	if v := got["limit_held_total destination=d-0 limit=other mode=enforce"]; v != 6 {
		t.Errorf("limits beyond the bound: %v, want 6", v)
	}
	if v, want := got["limit_held_total destination=other limit=other mode=enforce"], float64(9*defaultLabels*(limitLabels+5)); v != want {
		t.Errorf("limits of destinations beyond the bound: %v, want %v", v, want)
	}
}

// hasSeries says whether a destination has any.
func hasSeries(t *testing.T, reg prometheus.Gatherer, destination string) bool {
	t.Helper()
	for name := range gathered(t, reg) {
		if strings.Contains(name, "destination="+destination) {
			return true
		}
	}
	return false
}

// A destination that is gone for a while gives its label to another, also when
// what was under way still counted; one that is there keeps what it counted.
func TestSeriesOfGoneDestinationsGo(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg)
	at := time.Unix(1_800_000_000, 0)
	m.limit, m.now = 2, func() time.Time { return at }
	there := map[string]bool{"stays": true}
	keep := func(later time.Duration) {
		at = at.Add(later)
		m.KeepSeries(func(name string) bool { return there[name] })
	}
	m.granted.WithLabelValues(m.label("stays")).Inc()
	m.turned(m.label("goes"), &queue.TurnReply{Held: "tps"})
	keep(0)
	keep(goneAfter - 1)
	if got := m.label("third"); got != other || !hasSeries(t, reg, "goes") {
		t.Errorf("gone too early: the third has %q", got)
	}
	keep(1)
	if hasSeries(t, reg, "goes") || m.label("third") != "third" {
		t.Error("its series or its label are not free")
	}
	m.granted.WithLabelValues("goes").Inc() // by what was under way
	keep(time.Second)
	if hasSeries(t, reg, "goes") {
		t.Error("its series came back")
	}
	if v := gathered(t, reg)["slots_granted_total destination=stays"]; v != 1 {
		t.Errorf("one that stays counts %v", v)
	}
	keep(goneKept)
	if len(m.gone) != 1 { // the third is gone by now
		t.Errorf("remembered: %v", m.gone)
	}
}

// A lane that is remembered keeps its label: when the destination is made again
// its series are as those of any other.
func TestDestinationMadeAgainHasItsLabel(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg)
	at := time.Unix(1_800_000_000, 0)
	m.now = func() time.Time { return at }
	label, there := m.label("bank"), false
	keep := func() {
		at = at.Add(goneAfter)
		m.KeepSeries(func(string) bool { return there })
	}
	keep()
	keep()
	there = true
	m.turned(label, &queue.TurnReply{Held: "tps"})
	keep()
	m.turned(label, &queue.TurnReply{Held: "tps"})
	got := gathered(t, reg)
	if v, ok := got["limit_held_total destination=bank limit=tps mode=enforce"]; !ok || v != 1 {
		t.Errorf("held %v times, want 1: %v", v, got)
	}
	if _, ok := got["slots_granted_total destination=bank"]; !ok {
		t.Error("its counters do not begin at zero")
	}
	there = false
	keep()
	keep()
	if hasSeries(t, reg, "bank") {
		t.Error("it stays for ever")
	}
}

func TestTurnsCountWhatTheyTell(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg)
	label := m.label("bank")
	m.turned(label, &queue.TurnReply{Held: "tps"})
	m.turned(label, &queue.TurnReply{Held: "tps", Counted: map[string]int64{queue.CountExpired: 3, queue.CountEndedDead: 2, queue.CountEndedUnknown: 1}})
	m.turned(label, &queue.TurnReply{})
	got := gathered(t, reg)
	if v := got["limit_held_total destination=bank limit=tps mode=enforce"]; v != 2 {
		t.Errorf("held %v times, want 2", v)
	}
	for state, want := range map[string]float64{"expired": 3, "dead": 2, "unknown": 1, "delivered": 0} {
		if v := got["jobs_finished_total destination=bank state="+state]; v != want {
			t.Errorf("%v %s, want %v", v, state, want)
		}
	}
}

// 429 and 503 count as throttling whether or not they say how long.
func TestThrottlingAnswersAreCounted(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg)
	a := &attempt{d: &Drain{cfg: Config{Metrics: m}}, lane: &lane{name: "bank", label: m.label("bank")}}
	j := &job.Job{CreatedAt: time.Now()}
	for status, after := range map[int]time.Duration{http.StatusTooManyRequests: 0, http.StatusServiceUnavailable: time.Second, http.StatusInternalServerError: 0, http.StatusOK: 0} {
		a.observe(deliver.Result{Outcome: job.OutcomeOfStatus(status, after > 0), HTTPStatus: status, RetryAfter: after, Wrote: true, StartedAt: time.Now()}, j)
	}
	a.observe(deliver.Result{Outcome: job.OutcomeOfStatus(http.StatusServiceUnavailable, false), HTTPStatus: http.StatusServiceUnavailable, Wrote: true, StartedAt: time.Now()}, j)
	got := gathered(t, reg)
	if v := got["throttled_total destination=bank"]; v != 3 {
		t.Errorf("throttled_total %v, want 3", v)
	}
	if v := got["attempts_total destination=bank outcome=throttled result=throttled"]; v != 2 {
		t.Errorf("%v attempts throttled, want 2", v)
	}
}
