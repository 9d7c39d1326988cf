package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/redisdb"
	"tundish/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// backends are what every script must run on.
var backends = []string{"redis", "miniredis"}

// bench is a store with one lane, seen through its keys.
type bench struct {
	t    testing.TB
	s    *Store
	db   *redisdb.DB
	mini *miniredis.Miniredis // nil on a real server
	lane string
	keys redisdb.LaneKeys
	call uint64
}

// openBench opens a namespace of its own on the backend.
func openBench(t testing.TB, backend string) *bench {
	t.Helper()
	b := &bench{t: t, lane: "bank"}
	cfg := redisdb.Config{Namespace: redistest.Namespace(t), CallTimeout: 20 * time.Second}
	if backend == "miniredis" {
		b.mini = redistest.Mini(t)
		cfg.URL = redistest.MiniURL(b.mini)
	} else {
		cfg.URL = redistest.Shared(t).URL()
	}
	db, err := redisdb.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	b.db, b.s = db, New(db)
	if b.keys, err = db.Keys().Lane(b.lane); err != nil {
		t.Fatal(err)
	}
	return b
}

// contractOf reads the JSON of a contract; target and limits have defaults.
func contractOf(t testing.TB, name, limits, more string) (*destination.Contract, []byte) {
	t.Helper()
	if more != "" {
		more = "," + more
	}
	doc := fmt.Sprintf(`{"target":{"http":{"url":"https://bank.example/v1","timeout":"10s"}},"limits":[%s]%s}`, limits, more)
	c, written, err := destination.ParseContract(name, []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return c, written
}

// perSecond is a leaky bucket of n requests per second.
func perSecond(n int) string {
	return fmt.Sprintf(`{"name":"tps","algorithm":"leaky_bucket","rate":%d,"per":"1s"}`, n)
}

// apply stores a contract for the bench's lane.
func (b *bench) apply(limits, more string) *Destination {
	b.t.Helper()
	c, written := contractOf(b.t, b.lane, limits, more)
	d, _, err := b.s.Apply(context.Background(), ApplyRequest{Name: b.lane, Contract: c, Written: written, Source: Source{Kind: "api"}})
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

// newJob makes a job; its body tells it from others.
func newJob(tenant string) *job.Job {
	id := job.NewID()
	return &job.Job{ID: id, Tenant: tenant, Priority: job.DefaultPriority, CreatedAt: time.Now().UTC(),
		Request: job.Request{Method: "POST", ContentType: "text/plain", Body: []byte("body of " + id)}}
}

func newJobs(n int, tenant string) []*job.Job {
	jobs := make([]*job.Job, n)
	for i := range jobs {
		jobs[i] = newJob(tenant)
	}
	return jobs
}

func (b *bench) push(jobs ...*job.Job) []PushResult {
	b.t.Helper()
	r, err := b.s.Push(context.Background(), b.lane, jobs)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// accept pushes jobs that must all be taken.
func (b *bench) accept(jobs ...*job.Job) {
	b.t.Helper()
	for i, r := range b.push(jobs...) {
		if r.Verdict != Accepted {
			b.t.Fatalf("push %d: %+v", i, r)
		}
	}
}

// turn asks for jobs, from now to far ahead, with results to settle.
func (b *bench) turn(want int, results ...Result) TurnReply {
	b.t.Helper()
	return b.turnAs("w1", Turn{Want: want, Ahead: 400 * time.Millisecond, Result: results})
}

func (b *bench) turnAs(worker string, t Turn) TurnReply {
	b.t.Helper()
	b.call++
	t.Lane, t.Call = b.lane, b.call
	r := b.s.Turns(context.Background(), worker, []Turn{t})[0]
	if r.Err != nil {
		b.t.Fatal(r.Err)
	}
	return r
}

func delivered(l Lease) Result {
	return Result{ID: l.ID, Token: l.Token, Kind: KindDelivered, Outcome: "delivered", Note: []byte("{}"), Counts: true}
}

// settleAll answers leases with the kind.
func settleAll(leases []Lease, kind Kind) []Result {
	out := make([]Result, len(leases))
	for i, l := range leases {
		out[i] = Result{ID: l.ID, Token: l.Token, Kind: kind, Outcome: string(kind), Note: []byte("{}"), Counts: kind != KindRelease}
	}
	return out
}

func (b *bench) live() Live {
	b.t.Helper()
	d, err := b.s.Destination(context.Background(), b.lane)
	if err != nil {
		b.t.Fatal(err)
	}
	return d.Live
}

func (b *bench) state(id job.ID) job.State {
	b.t.Helper()
	st, err := b.s.Job(context.Background(), b.lane, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return st.State
}

// pass moves time: the clock of miniredis, or the shard's logical time.
func (b *bench) pass(d time.Duration) {
	b.t.Helper()
	if b.mini != nil {
		now, err := b.db.Client().Time(context.Background()).Result()
		if err != nil {
			b.t.Fatal(err)
		}
		b.mini.SetTime(now.Add(d))
		return
	}
	if err := b.db.Client().HIncrBy(context.Background(), b.keys.Clock(), "adj", d.Microseconds()).Err(); err != nil {
		b.t.Fatal(err)
	}
}

// key finds a key of the lane by the end of its name.
func (b *bench) key(name string) string {
	b.t.Helper()
	for _, k := range b.keys {
		if len(k) > len(name) && k[len(k)-len(name)-1:] == ":"+name {
			return k
		}
	}
	b.t.Fatalf("no key %q", name)
	return ""
}
