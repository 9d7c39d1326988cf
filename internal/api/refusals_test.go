package api

import (
	"fmt"
	"testing"
	"time"
)

func TestRefusedCallersDoNotReturnTogether(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	r := &refusals{now: func() time.Time { return now }, lanes: map[string]*refusalCount{}}
	for i := range 100 {
		want := 20*time.Millisecond + time.Duration(i)*20*time.Millisecond
		if got := r.wait("bank", 20*time.Millisecond, 50); got != want {
			t.Fatalf("caller %d is told %s, want %s", i, got, want)
		}
	}
	if got := r.wait("other", time.Second, 50); got != time.Second {
		t.Errorf("another destination: %s", got)
	}
	now = now.Add(1500 * time.Millisecond) // half of them are older than a second
	if got := r.wait("bank", 0, 50); got != time.Second {
		t.Errorf("half a second later: %s, want 50 places of 20 ms", got)
	}
	now = now.Add(2 * time.Second)
	if got := r.wait("bank", 0, 50); got != 0 {
		t.Errorf("much later: %s", got)
	}
}

func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	r := &refusals{now: func() time.Time { return now }, lanes: map[string]*refusalCount{}}
	r.wait("slow", 0, 1e-12)
	for _, tc := range []struct {
		next  time.Duration
		drain float64
		want  time.Duration
	}{{0, 1e-300, time.Hour}, {30 * time.Hour, 0, time.Hour}, {-5, 0, 0}, {time.Second, -1, time.Second}} {
		if got := r.wait("slow", tc.next, tc.drain); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

func TestCountsOfDestinationsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	r := &refusals{now: func() time.Time { return now }, lanes: map[string]*refusalCount{}}
	for i := range refusalsMax + 10 {
		r.wait(fmt.Sprint(i), 0, 1)
	}
	if n := len(r.lanes); n > refusalsMax {
		t.Errorf("%d destinations are counted", n)
	}
	now = now.Add(time.Minute)
	r.wait("new", 0, 1)
	if n := len(r.lanes); n > 2 {
		t.Errorf("%d destinations are counted though their second is over", n)
	}
}
