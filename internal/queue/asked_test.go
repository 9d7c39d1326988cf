package queue

import (
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tundish/internal/job"
)

// What a call remembers of a sorted set holds only if every write is seen.
func TestRememberedSetsAreWrittenThroughWrite(t *testing.T) {
	t.Parallel()
	direct := regexp.MustCompile(`call\('Z(ADD|REM\w*|INCRBY)', K\.(leased|waiting|expires|tenants|finish)\b[^\n]*`)
	for _, s := range Scripts() {
		for _, line := range direct.FindAllString(s.Source(), -1) {
			t.Errorf("%s: %s", s.Name(), line)
		}
	}
}

// One call that settles, promotes, expires and leases plans by what is there at its end.
func TestLookAfterACallThatMovesEverything(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, backend)
			b.apply(perSecond(fast), "")
			jobs := newJobs(4, "")
			jobs[1].Delay = time.Second      // is promoted and leased
			jobs[2].Delay = 20 * time.Second // outlasts the leases
			jobs[3].ExpiresIn = time.Second  // ends
			jobs[3].Delay = time.Hour
			b.accept(jobs[0])
			first := b.turn(1)
			b.accept(jobs[1:]...)
			b.pass(2 * time.Second)
			if b.mini == nil { // where pass moves logical time, expiry does not follow
				b.db.Client().ZAdd(t.Context(), b.key("expires"), redis.Z{Score: 1, Member: string(jobs[3].ID)})
			}
			r := b.turn(10, settleAll(first.Leases, KindDelivered)...)
			if len(r.Leases) != 1 || r.Leases[0].ID != jobs[1].ID || r.Counted["expired"] != 1 {
				t.Fatalf("leases %v, counted %v", r.Leases, r.Counted)
			}
			d := b.dump()
			if want := int64(d.leased[string(jobs[1].ID)]); r.Look != want || len(d.leased) != 1 || len(d.waiting) != 1 {
				t.Errorf("look %d, want the deadline %d; leased %v, waiting %v", r.Look, want, d.leased, d.waiting)
			}
			r = b.turn(10, settleAll(r.Leases, KindDelivered)...)
			if want := int64(d.waiting[string(jobs[2].ID)]); r.Look != want || want == 0 {
				t.Errorf("look %d, want the end of the wait %d", r.Look, want)
			}
			b.checkDump()
		})
	}
}

// Entries whose jobs are lost take nothing from the look of a job that comes under the same id.
func TestLookOfAPushOverWhatIsLeftOfLostJobs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key   string
		job   func(j *job.Job)
		pause bool
	}{
		"waiting": {key: "waiting", job: func(j *job.Job) { j.Delay = time.Minute }},
		"expires": {key: "expires", job: func(j *job.Job) { j.ExpiresIn = time.Minute }, pause: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, perSecond(fast), "", func(t *testing.T, b *bench) {
				j := newJob("")
				c.job(j)
				if c.pause {
					if _, err := b.s.Pause(t.Context(), b.lane, "test"); err != nil {
						t.Fatal(err)
					}
				}
				b.accept(j)
				b.db.Client().Del(t.Context(), b.key("jobs"))
				b.db.Client().Del(t.Context(), b.keys.Due())
				b.accept(j)
				entries := b.db.Client().ZScore(t.Context(), b.key(c.key), string(j.ID)).Val()
				if d := b.dump(); d.due == 0 || d.due != int64(entries) {
					t.Errorf("look %d, want %.0f", d.due, entries)
				}
			})
		})
	}
}

// A call removes what outlived its keeping when it adds to it, a little faster than it adds.
func TestCallsThatEndJobsTrim(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), "")
	b.accept(newJobs(100, "")...)
	b.turn(0, settleAll(b.turn(100).Leases, KindDelivered)...)
	for id := range b.dump().doneends {
		b.db.Client().ZAdd(t.Context(), b.key("doneends"), zero(id))
	}
	b.accept(newJob(""))
	r := b.turn(1)
	left := func() int { return len(b.dump().doneends) }
	if got := left(); got != 100 {
		t.Errorf("%d results after a push and a turn that end nothing, want 100", got)
	}
	b.turn(0, settleAll(r.Leases, KindDelivered)...)
	if got := left(); got != 79 {
		t.Errorf("%d results after a turn that ended one job, want 79", got)
	}
}
