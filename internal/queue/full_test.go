package queue

import (
	"context"
	"testing"
	"time"

	"tundish/internal/job"
	"tundish/internal/redisdb"
	"tundish/internal/redistest"
)

// openOn opens a namespace of its own on a server.
func openOn(t *testing.T, server *redistest.Server) *bench {
	t.Helper()
	db, err := redisdb.Open(context.Background(), redisdb.Config{Namespace: redistest.Namespace(t), URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	b := &bench{t: t, lane: "bank", db: db, s: New(db)}
	if b.keys, err = db.Keys().Lane(b.lane); err != nil {
		t.Fatal(err)
	}
	return b
}

// openFull is a bench on a server of its own, and what fills that server.
func openFull(t *testing.T) (b *bench, fill func()) {
	t.Helper()
	server := redistest.Start(t)
	b = openOn(t, server)
	return b, func() { server.Config(t, "maxmemory", "1") }
}

// A step of the clock on a full server must not keep lanes from being drained.
func TestStepOnAFullServer(t *testing.T) {
	t.Parallel()
	b, fill := openFull(t)
	b.apply(perSecond(fast), "")
	b.accept(newJobs(10, "")...)
	r := b.turn(1)
	fill()
	for name, v := range map[string]ClockView{
		"back":    {Expect: r.Logical + 3_600_000_000, Width: 1000},
		"forward": {Expect: r.Logical - 10_000_000, Width: 1000, Confirmed: "0", Move: -5_000_000},
	} {
		reply := b.s.Turns(t.Context(), "w1", []Turn{{Lane: b.lane, Call: 100, Want: 1, Ahead: time.Second, Clock: v}})[0]
		if reply.Err != nil {
			t.Errorf("%s: turn: %v", name, reply.Err)
		}
		var views [redisdb.Shards]ClockView
		shard := redisdb.ShardOf(b.lane)
		views[shard] = v
		if _, err := b.s.Claim(t.Context(), []int{shard}, 0, 10, &views); err != nil {
			t.Errorf("%s: claim: %v", name, err)
		}
	}
}

// A full server takes no jobs, also when a push has something to trim.
func TestPushToAFullServerThatHasSomethingToTrim(t *testing.T) {
	t.Parallel()
	b, fill := openFull(t)
	b.apply(perSecond(fast), `"retention":{"finished":"1m"}`)
	b.accept(newJobs(100, "")...)
	for range 3 {
		b.turn(0, settleAll(b.turn(100).Leases, KindDelivered)...)
	}
	ids := b.db.Client().ZRange(t.Context(), b.key("doneends"), 0, -1).Val()
	for _, id := range ids {
		b.db.Client().ZAdd(t.Context(), b.key("doneends"), zero(id))
	}
	fill()
	taken := 0
	for range 8 {
		j := newJob("")
		j.Request.Body = make([]byte, 200_000)
		if _, err := b.s.Push(t.Context(), b.lane, []*job.Job{j}); err == nil {
			taken++
		}
	}
	if taken > 0 {
		t.Errorf("a full server took %d jobs of 200 kB", taken)
	}
}
