package drain

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tundish/internal/destination"
)

// lacking makes the worker lack something for one lane, as long as the value is true.
func (w *world) lacking(name string) *atomic.Bool {
	lacks := &atomic.Bool{}
	fault := func() error {
		if lacks.Load() {
			return errors.New("${env:TOKEN}: the variable is not set")
		}
		return nil
	}
	w.cfg.Check = func(c *destination.Contract) error {
		if c.Name == name {
			return fault()
		}
		return nil
	}
	w.sender.fault = fault
	return lacks
}

// untouched checks that no attempt of a job was used up.
func (w *world) untouched(l *fakeLane) {
	w.t.Helper()
	for _, j := range l.order {
		if j.used != 0 || j.crashes != 0 || j.sent > 1 {
			w.t.Fatalf("%d attempts used up, %d crashes, sent %d times", j.used, j.crashes, j.sent)
		}
	}
}

func TestMissingSecretKeepsAWorkerFromALane(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 50, func(l *fakeLane) { l.contract = &destination.Contract{Name: "bank", Retry: l.contract.Retry} })
		lacks := w.lacking("bank")
		lacks.Store(true)
		w.start()
		w.run(20 * time.Second)
		w.want(l, "ready", 50)
		if l.unfit != "${env:TOKEN}: the variable is not set" || l.marked != 0 {
			t.Errorf("shown as %q, marked %d", l.unfit, l.marked)
		}
		turns, looks := len(w.seen("turn", time.Time{})), len(w.seen("contract", time.Time{}))
		if turns > 10 || looks < 4 || looks > 9 {
			t.Errorf("%d turns, looked %d times within 20 s", turns, looks)
		}
		if n := strings.Count(w.logs.String(), "cannot send"); n != 1 {
			t.Errorf("told %d times", n)
		}
		lacks.Store(false)
		w.run(10 * time.Second)
		w.want(l, "delivered", 50)
		w.untouched(l)
		if l.unfit != "" || !strings.Contains(w.logs.String(), "can send to the destination again") {
			t.Errorf("still shown as %q", l.unfit)
		}
	})
}

// A secret that goes while the lane is being drained, and comes back.
func TestSecretThatGoes(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		l := w.lane("bank", 400, func(l *fakeLane) { l.contract = &destination.Contract{Name: "bank", Retry: l.contract.Retry} })
		lacks := w.lacking("bank")
		w.start()
		w.run(2 * time.Second)
		lacks.Store(true)
		w.run(time.Second)
		before := len(w.writes())
		if before == 0 || before == 400 {
			t.Fatalf("%d writes before the secret went", before)
		}
		w.run(5 * time.Second)
		if n := len(w.writes()); n != before || l.unfit == "" {
			t.Errorf("%d writes without the secret, shown as %q", n-before, l.unfit)
		}
		lacks.Store(false)
		w.run(15 * time.Second)
		w.want(l, "delivered", 400)
		w.untouched(l)
	})
}

// What one lane lacks is nothing to the others.
func TestOtherLanesGoOn(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		bank := w.lane("bank", 100, func(l *fakeLane) { l.contract = &destination.Contract{Name: "bank", Retry: l.contract.Retry} })
		shop := w.lane("shop", 100)
		w.lacking("bank").Store(true)
		w.sender.fault = nil
		w.start()
		w.run(5 * time.Second)
		w.want(bank, "ready", 100)
		w.want(shop, "delivered", 100)
	})
}
