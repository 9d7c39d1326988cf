package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/job"
)

// values reads all counters, by name and labels.
func values(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			all[key] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	a := newTestAPI(t, newFakeStore(), testKeys(t), func(c *Config) { c.Registerer = reg })
	if v, ok := values(t, reg)["tundish_jobs_rejected_total code=queue_full destination=other"]; !ok || v != 0 {
		t.Error("no zero at the start")
	}
	push := func(body, key string) {
		do(a, "POST", bankJobs, strings.NewReader(body), "Tundish-Key", "pusher", "Idempotency-Key", key)
	}
	push(`{}`, "a")
	push(`{}`, "a")
	push(`{"x":1}`, "b")
	do(a, "POST", "/v1/destinations/secret-name/jobs", strings.NewReader(`{}`), "Tundish-Key", "operator")
	do(a, "GET", "/v1/what-a-caller-wrote", nil)
	do(a, "BREW", bank, nil)
	got := values(t, reg)
	for key, want := range map[string]float64{
		"tundish_jobs_accepted_total destination=bank":                                               1,
		"tundish_jobs_replayed_total destination=bank":                                               1,
		"tundish_jobs_rejected_total code=invalid destination=bank":                                  1,
		"tundish_jobs_rejected_total code=queue_full destination=bank":                               0,
		"tundish_http_requests_total code=202 method=POST route=/v1/destinations/{destination}/jobs": 2,
		"tundish_http_requests_total code=422 method=POST route=/v1/destinations/{destination}/jobs": 1,
		"tundish_http_requests_total code=404 method=GET route=unmatched":                            1,
		"tundish_http_requests_total code=405 method=other route=unmatched":                          1,
		"tundish_http_request_duration_seconds route=/v1/destinations/{destination}/jobs":            4,
		"tundish_producer_requests_total code=202 producer=pusher":                                   2,
		"tundish_producer_requests_total code=403 producer=operator":                                 1,
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", key, v, ok, want)
		}
	}
	for key := range got {
		if strings.Contains(key, "secret-name") || strings.Contains(key, "what-a-caller") {
			t.Errorf("a caller's own text is a label: %s", key)
		}
	}
}

func TestDestinationLabelsAreBounded(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(nil, 3)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]bool{}
	for i := range 10 {
		labels[m.label(fmt.Sprint(i)).name] = true
	}
	if len(labels) != 4 || !labels[others] || m.label("0").name != "0" {
		t.Errorf("%v", labels)
	}
}

// A destination that is gone for a while gives its label to another, and one
// that is there keeps what it counted.
func TestSeriesOfGoneDestinationsGo(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m, err := newMetrics(reg, 2)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_800_000_000, 0)
	m.now = func() time.Time { return at }
	there := map[string]bool{"stays": true}
	keep := func(later time.Duration) {
		at = at.Add(later)
		m.keep(func(name string) bool { return there[name] })
	}
	has := func(name string) bool {
		_, ok := values(t, reg)["tundish_jobs_accepted_total destination="+name]
		return ok
	}
	m.accepted("stays")
	m.accepted("goes")
	m.rejected("goes", job.CodeInvalid)
	m.accepted("third")
	keep(0)
	there["goes"] = true // it was only made after the list
	keep(time.Second)
	there["goes"] = false
	keep(time.Hour)
	keep(goneAfter - 1)
	if !has("goes") || has("third") {
		t.Error("gone too early")
	}
	keep(1)
	m.accepted("third")
	got := values(t, reg)
	if got["tundish_jobs_accepted_total destination=stays"] != 1 || got["tundish_jobs_accepted_total destination=third"] != 1 {
		t.Errorf("%v", got)
	}
	for key := range got {
		if strings.Contains(key, "=goes") {
			t.Errorf("still there: %s", key)
		}
	}
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	newTestAPI(t, newFakeStore(), func(c *Config) { c.Registerer = reg })
	if _, err := New(Config{Store: newFakeStore(), Registerer: reg}); err == nil {
		t.Error("a second set of the same metrics is no error")
	}
	if _, err := New(Config{}); err == nil {
		t.Error("no store is no error")
	}
}
