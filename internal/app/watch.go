package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// lookEvery is how often a file is looked at. Looking, and not being told,
	// also sees what a mounted ConfigMap swaps and what a network drive holds.
	lookEvery = time.Second
	// standStill is how long a changed file must stay as it is: half of a file
	// that is being written may be a valid one.
	standStill = 100 * time.Millisecond
)

// errLookLater says that nothing could be seen this time; it is no failure.
var errLookLater = errors.New("nothing to be seen now")

// watch looks at a file each second. A failure is logged when it changes and
// shown in a metric; what was in force stays so.
type watch struct {
	file   string // label of the metric
	look   func(ctx context.Context) error
	log    *slog.Logger
	good   prometheus.Gauge
	broken string // last failure that was logged
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// newReloads is the metric of all watches of a process.
func newReloads(reg prometheus.Registerer) *prometheus.GaugeVec {
	good := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "tundish", Name: "config_last_reload_successful",
		Help: "1 when the file is in force as it stands, 0 when it is broken, and the last good one is, or when a part of it was not applied."}, []string{"file"})
	reg.MustRegister(good)
	return good
}

func newWatch(file string, look func(context.Context) error, log *slog.Logger, reloads *prometheus.GaugeVec) *watch {
	w := &watch{file: file, look: look, log: log, good: reloads.WithLabelValues(file)}
	w.good.Set(1)
	return w
}

func (w *watch) start() {
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	w.wg.Go(func() { w.run(ctx) })
}

func (w *watch) stop() {
	w.cancel()
	w.wg.Wait()
}

func (w *watch) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.report(w.look(ctx))
		}
	}
}

// report tells of a failure when it changes.
func (w *watch) report(err error) {
	if errors.Is(err, errLookLater) {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != w.broken {
		if err != nil {
			w.log.Error("the "+w.file+" file is not in force as it stands; what was in force before stays so", "error", err)
		} else {
			w.log.Info("the " + w.file + " file is in force")
		}
		w.broken = text
	}
	if err != nil {
		w.good.Set(0)
	} else {
		w.good.Set(1)
	}
}

// settled says whether sum gives another value than seen, and the same once more.
func settled(ctx context.Context, seen [sha256.Size]byte, sum func() ([sha256.Size]byte, error)) (changed bool, err error) {
	first, err := sum()
	if err != nil || first == seen {
		return false, err
	}
	select {
	case <-time.After(standStill):
	case <-ctx.Done():
		return false, errLookLater
	}
	again, err := sum()
	if err == nil && again != first {
		err = errLookLater
	}
	return err == nil, err
}
