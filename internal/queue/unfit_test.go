package queue

import (
	"strings"
	"testing"
	"time"
)

// A mark of a worker that cannot send is shown for its time, and keeps nobody
// from pushing or from the lane.
func TestUnfitMarkIsShownForItsTime(t *testing.T) {
	t.Parallel()
	b := openBench(t, "miniredis")
	now := time.UnixMicro(1_790_000_000_000_000)
	b.mini.SetTime(now)
	b.apply(perSecond(fast), "")
	jobs := newJobs(2, "")
	b.accept(jobs...)
	look := func(want string) {
		t.Helper()
		d, err := b.s.Destination(t.Context(), b.lane)
		if err != nil {
			t.Fatal(err)
		}
		lanes, err := b.s.Survey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		st, err := b.s.Job(t.Context(), b.lane, jobs[1].ID)
		if err != nil {
			t.Fatal(err)
		}
		if d.Live.State != want || lanes[0].State != want || (st.WaitingFor == "faulty") != (want == "faulty") {
			t.Errorf("%s in the destination, %s in the survey, the job waits for %q; want %s", d.Live.State, lanes[0].State, st.WaitingFor, want)
		}
		if reasons := strings.Join(d.Live.StateReasons, ";"); strings.Contains(reasons, "${env:A}: is not set | twice") != (want == "faulty") {
			t.Errorf("reasons %q", reasons)
		}
		if d.Faulty != "" || d.Contract == nil {
			t.Error("the contract is called faulty")
		}
	}
	mark := func(reason string) {
		t.Helper()
		if err := b.s.MarkUnfit(t.Context(), b.lane, reason, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	look("running")
	mark("${env:A}: is not set | twice")
	look("faulty")
	b.accept(newJob(""))
	if n := len(b.turn(1).Leases); n != 1 {
		t.Errorf("%d leases for a worker that lacks nothing", n)
	}
	now = now.Add(11 * time.Second)
	b.mini.SetTime(now)
	look("running")
	mark("${env:A}: is not set | twice")
	look("faulty")
	mark("")
	look("running")
}
