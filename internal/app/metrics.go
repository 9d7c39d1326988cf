package app

import (
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

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
	reg.MustRegister(m.up, m.errors, m.script)
	return m
}

func (m *redisMetrics) observe(script string, d time.Duration, err error) {
	m.script.WithLabelValues(script).Observe(d.Seconds())
	if err == nil {
		m.up.Set(1)
		return
	}
	m.errors.WithLabelValues(redisdb.Kind(err)).Inc()
	if redisdb.Unavailable(err) {
		m.up.Set(0)
	}
}
