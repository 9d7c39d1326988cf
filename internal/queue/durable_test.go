package queue

import (
	"context"
	"strings"
	"testing"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/redisdb"
	"tundish/internal/redistest"
)

// unconfirmed pushes a job, twice with one key, and says of both whether they are not known to be durable.
func (b *bench) unconfirmed(d destination.Durability) (first, repeated bool) {
	b.t.Helper()
	j := newJob("")
	j.IdempotencyKey = string(j.ID)
	again := *j
	again.ID = job.NewID()
	for i, one := range []*job.Job{j, &again} {
		r, err := b.s.PushDurable(context.Background(), b.lane, d, []*job.Job{one})
		if err != nil || r[0].Verdict != []Verdict{Accepted, Replayed}[i] {
			b.t.Fatalf("push %d: %+v, %v", i, r, err)
		}
		if i == 0 {
			first = r[0].Unconfirmed
		} else {
			repeated = r[0].Unconfirmed
		}
	}
	return first, repeated
}

func TestReplicaConfirmsPushesAndStarts(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Replica(t, master)
	master.AwaitReplicas(t, 1)
	b := openOn(t, master)
	b.apply(perSecond(fast), `"durability":"replica","delivery":"at_most_once"`)
	if first, repeated := b.unconfirmed(destination.Replica); first || repeated {
		t.Errorf("with a replica: unconfirmed %v, %v", first, repeated)
	}
	leases := b.turn(1).Leases
	if held, err := b.s.Start(t.Context(), b.lane, destination.Replica, leases); err != nil || !held[0] {
		t.Errorf("start with a replica: %v, %v", held, err)
	}
	replica.Stop(t)
	if first, repeated := b.unconfirmed(destination.Replica); !first || !repeated {
		t.Errorf("with a stopped replica: unconfirmed %v, %v", first, repeated)
	}
	b.repeatsElsewhere(t, master)
	leases = b.turn(1).Leases
	if held, err := b.s.Start(t.Context(), b.lane, destination.Replica, leases); err != nil || held[0] {
		t.Errorf("start with a stopped replica: %v, %v", held, err)
	}
	if first, repeated := b.unconfirmed(destination.Memory); first || repeated {
		t.Errorf("memory asks nobody: unconfirmed %v, %v", first, repeated)
	}
	replica.Cont(t)
}

// repeatsElsewhere repeats an unconfirmed push over a connection that has written
// nothing: what others wrote must not count as confirmed by its silence.
func (b *bench) repeatsElsewhere(t *testing.T, master *redistest.Server) {
	t.Helper()
	j := newJob("")
	j.IdempotencyKey = "elsewhere"
	if r, err := b.s.PushDurable(t.Context(), b.lane, destination.Replica, []*job.Job{j}); err != nil || !r[0].Unconfirmed {
		t.Fatalf("%+v, %v", r, err)
	}
	db, err := redisdb.Open(t.Context(), redisdb.Config{Namespace: b.db.Keys().Namespace(), URL: master.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	again := *j
	again.ID = job.NewID()
	r, err := New(db).PushDurable(t.Context(), b.lane, destination.Replica, []*job.Job{&again})
	if err != nil || r[0].Verdict != Replayed || !r[0].Unconfirmed {
		t.Errorf("repeated elsewhere: %+v, %v", r, err)
	}
}

// The server here may be older than WAITAOF or not: with appendfsync always both can confirm.
func TestAppendOnlyFileConfirmsPushes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithAOF())
	server.Config(t, "appendfsync", "always")
	b := openOn(t, server)
	b.apply(perSecond(fast), `"durability":"aof"`)
	if first, repeated := b.unconfirmed(destination.AOF); first || repeated {
		t.Errorf("with appendfsync always: unconfirmed %v, %v", first, repeated)
	}
}

func TestContractThatRedisCannotKeepIsRefused(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis") // without an append-only file
	c, written := contractOf(t, b.lane, perSecond(5), `"durability":"aof"`)
	_, _, err := b.s.Apply(t.Context(), ApplyRequest{Name: b.lane, Contract: c, Written: written})
	if job.CodeOf(err) != job.CodeInvalid || !strings.Contains(err.Error(), "appendfsync always") {
		t.Errorf("%v", err)
	}
	if _, err := b.s.Destination(t.Context(), b.lane); job.CodeOf(err) != job.CodeDestinationNotFound {
		t.Errorf("it was stored: %v", err)
	}
}

// Without a replica nothing would ever be confirmed, and nobody would know why.
func TestReplicaThatIsNotThereIsWarnedOf(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	b := openOn(t, master)
	warned := func() []string {
		t.Helper()
		c, written := contractOf(t, b.lane, perSecond(5), `"durability":"replica"`)
		d, _, err := b.s.Apply(t.Context(), ApplyRequest{Name: b.lane, Contract: c, Written: written})
		if err != nil {
			t.Fatal(err)
		}
		return d.Warnings
	}
	if w := warned(); len(w) != 1 || !strings.HasPrefix(w[0], "durability: replica: no replica is connected") {
		t.Errorf("alone: %q", w)
	}
	redistest.Replica(t, master)
	master.AwaitReplicas(t, 1)
	if w := warned(); len(w) != 0 {
		t.Errorf("with a replica: %q", w)
	}
}
