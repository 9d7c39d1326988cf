package queue

import (
	"strings"
	"testing"
	"time"

	"tundish/internal/destination"
)

// acceptLarge pushes n jobs with bodies of size bytes.
func (b *bench) acceptLarge(n, size int) {
	b.t.Helper()
	for range n {
		j := newJob("")
		j.Request.Body = make([]byte, size)
		b.accept(j)
	}
}

func (b *bench) deadJobs() int64 {
	b.t.Helper()
	return b.live().Dead
}

// What ends as dead takes its body along: no call moves more than a megabyte or two of them.
func TestFitBoundsWhatATurnMoves(t *testing.T) {
	t.Parallel()
	of := func(kind Kind, n, bytes int) []Result {
		out := make([]Result, n)
		for i := range out {
			out[i] = Result{Kind: kind, Bytes: bytes}
		}
		return out
	}
	for name, c := range map[string]struct {
		results []Result
		want    int
	}{
		"none":            {nil, 0},
		"small":           {of(KindDead, MaxResults, 100), MaxResults},
		"too many":        {of(KindDelivered, MaxResults+50, 1<<20), MaxResults},
		"no body moves":   {of(KindRetry, 90, 1<<20), 90},
		"large":           {of(KindDead, 10, 390<<10), 2},
		"unknown as well": {of(KindUnknown, 10, 256<<10), 3},
		"larger alone":    {of(KindDead, 3, 2<<20), 1},
		"large in front":  {append(of(KindDead, 1, 2<<20), of(KindDelivered, 5, 1<<20)...), 1},
	} {
		if got := Fit(c.results); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestTrimOfLargeDeadJobsGoesInSteps(t *testing.T) {
	t.Parallel()
	b := openBench(t, "miniredis")
	now := time.UnixMicro(1_790_000_000_000_000)
	b.mini.SetTime(now)
	b.apply(perSecond(fast), `"queue":{"max_job_bytes":"1MiB"},"retention":{"dead":"1h"}`)
	b.acceptLarge(7, 700<<10)
	for b.deadJobs() < 7 {
		b.turn(0, settleAll(b.turn(10).Leases, KindDead)...)
	}
	b.mini.SetTime(now.Add(2 * time.Hour))
	for _, want := range []int64{5, 3, 1, 0} {
		if _, _, err := b.s.mend(t.Context(), b.lane); err != nil {
			t.Fatal(err)
		}
		if got := b.deadJobs(); got != want {
			t.Fatalf("%d dead jobs left, want %d", got, want)
		}
	}
	b.checkDump()
}

func TestCrashesOfLargeJobsAreBuriedInSteps(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), `"queue":{"max_job_bytes":"1MiB"}`)
	b.acceptLarge(5, 700<<10)
	for crash := range 3 {
		for leased := 0; leased < 5; {
			r := b.turn(10)
			if _, err := b.s.Start(t.Context(), b.lane, destination.Memory, r.Leases); err != nil {
				t.Fatal(err)
			}
			if leased += len(r.Leases); len(r.Leases) == 0 {
				t.Fatalf("crash %d: %d leased, %s", crash, leased, r.Why)
			}
		}
		b.pass(17 * time.Second)
	}
	for _, want := range []int64{2, 4, 5} {
		b.turn(0)
		if got := b.deadJobs(); got != want {
			t.Fatalf("%d dead jobs, want %d", got, want)
		}
	}
	b.checkDump()
}

// A reply that carries much needs time on its way: the slots of large jobs lie
// further ahead, or they would be over before the bodies are there.
func TestLargeJobsGetLaterSlots(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		jobs, size  int
		least, most time.Duration // from now to the first slot
	}{
		"small":         {50, 1 << 10, 5 * time.Millisecond, 6 * time.Millisecond},
		"a few hundred": {3, 250 << 10, 30 * time.Millisecond, 50 * time.Millisecond},
		"the largest":   {1, 4 << 20, 200 * time.Millisecond, 230 * time.Millisecond},
		"beyond":        {1, 15 << 20, 395 * time.Millisecond, 400 * time.Millisecond}, // as a contract of old may allow
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, "redis")
			b.apply(perSecond(fast), `"queue":{"max_job_bytes":"4MiB"}`)
			b.acceptLarge(c.jobs, c.size)
			r := b.turnAs("w1", Turn{Want: 100, Lead: 5 * time.Millisecond, Ahead: 100 * time.Millisecond})
			if len(r.Leases) != c.jobs {
				t.Fatalf("%d leases of %d jobs: %s", len(r.Leases), c.jobs, r.Why)
			}
			if ahead := time.Duration(r.Leases[0].Slot-r.Logical) * time.Microsecond; ahead < c.least || ahead > c.most {
				t.Errorf("the first slot lies %s ahead, want %s to %s", ahead, c.least, c.most)
			}
			for i := 1; i < len(r.Leases); i++ {
				if r.Leases[i].Slot <= r.Leases[i-1].Slot {
					t.Error("two jobs in one slot")
				}
			}
			b.checkDump()
		})
	}
}

func TestUnreadableLargeJobsArePutAsideInSteps(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), "")
	jobs := newJobs(5, "")
	for _, j := range jobs {
		j.Delay = time.Second
	}
	b.accept(jobs...)
	client := b.db.Client()
	for _, j := range jobs {
		client.HSet(t.Context(), b.key("jobs"), string(j.ID), "?"+strings.Repeat("x", 700<<10))
		client.HDel(t.Context(), b.key("tries"), string(j.ID))
	}
	b.pass(2 * time.Second)
	for _, want := range []int64{2, 4, 5} {
		b.turn(0)
		if got := b.deadJobs(); got != want {
			t.Fatalf("%d dead jobs, want %d", got, want)
		}
	}
}
