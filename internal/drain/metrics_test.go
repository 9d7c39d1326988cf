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

func TestTurnsCountWhatTheyTell(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg)
	label := m.label("bank")
	m.turned(label, &queue.TurnReply{Held: "tps"})
	m.turned(label, &queue.TurnReply{Held: "tps", Counted: map[string]int64{queue.CountExpired: 3}})
	m.turned(label, &queue.TurnReply{})
	got := gathered(t, reg)
	if v := got["limit_held_total destination=bank limit=tps mode=enforce"]; v != 2 {
		t.Errorf("held %v times, want 2", v)
	}
	if v := got["jobs_finished_total destination=bank state=expired"]; v != 3 {
		t.Errorf("%v expired, want 3", v)
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
