package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/redisdb"
	"tundish/internal/redistest"
)

func tokens(name string) string {
	return `{"name":"` + name + `","algorithm":"token_bucket","rate":20,"per":"1s","burst":10}`
}

// A limit that did not see the lane's last slots starts empty: a change of its
// name, or going back to an old one, gives no second burst.
func TestRenamedTokenBucketGivesNoSecondBurst(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	granted, begin := 0, time.Now()
	for i, name := range []string{"a", "b", "c", "a"} {
		b.apply(tokens(name), "")
		if i == 0 {
			b.accept(newJobs(100, "")...)
		}
		r := b.s.Turns(t.Context(), "w", []Turn{{Lane: b.lane, Call: uint64(i) + 1, Want: 100, Ahead: 100 * time.Millisecond}})[0]
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		granted += len(r.Leases)
	}
	// The burst, and at 20 per second what comes within the horizon and the calls.
	most := 10 + int(20*(time.Since(begin)+100*time.Millisecond).Seconds()) + 1
	if granted < 10 || granted > most {
		t.Errorf("%d granted over three renames at once, at most %d; a burst is 10", granted, most)
	}
}

// A full queue of which nothing goes out does not ask its callers back at once.
func TestFullQueueThatDoesNotDrain(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), `"queue":{"capacity":2}`)
	b.accept(newJobs(2, "")...)
	if _, err := b.s.Pause(t.Context(), b.lane, "test"); err != nil {
		t.Fatal(err)
	}
	if r := b.push(newJobs(1, "")...)[0]; r.Verdict != Full || r.RetryAfter < 10*time.Second {
		t.Errorf("paused: %s, retry after %s", r.Verdict, r.RetryAfter)
	}
	if _, err := b.s.Resume(t.Context(), b.lane); err != nil {
		t.Fatal(err)
	}
	r := b.s.Turns(t.Context(), "w", []Turn{{Lane: b.lane, Call: 1, Want: 2, Ahead: 100 * time.Millisecond}})[0]
	if len(r.Leases) != 2 {
		t.Fatalf("%d leases, %v", len(r.Leases), r.Err)
	}
	var results []Result
	for _, l := range r.Leases {
		results = append(results, Result{ID: l.ID, Token: l.Token, Kind: KindRetry, Delay: 20 * time.Second, Note: []byte("{}"), Counts: true})
	}
	b.s.Turns(t.Context(), "w", []Turn{{Lane: b.lane, Call: 2, Result: results}})
	if r := b.push(newJobs(1, "")...)[0]; r.Verdict != Full || r.RetryAfter < 15*time.Second {
		t.Errorf("all in back-off for 20 s: %s, retry after %s", r.Verdict, r.RetryAfter)
	}
}

// A file's destination is removed in the file; one that the file let go, by anybody.
func TestDeleteOfAFilesDestination(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	c, written := contractOf(t, b.lane, perSecond(50), "")
	request := ApplyRequest{Name: b.lane, Contract: c, Written: written, Source: Source{Kind: "file", Set: "payments", Revision: 3}}
	if _, _, err := b.s.Apply(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if _, err := b.s.Delete(t.Context(), b.lane, 0, true); job.CodeOf(err) != job.CodeOwnedByFile {
		t.Errorf("delete: %v", err)
	}
	if owned, err := b.s.OwnedBy(t.Context(), "payments"); err != nil || len(owned) != 1 {
		t.Errorf("owned: %v, %v", owned, err)
	}
	if err := b.s.Orphan(t.Context(), b.lane, "payments", 3); err != nil {
		t.Fatal(err)
	}
	if owned, err := b.s.OwnedBy(t.Context(), "payments"); err != nil || len(owned) != 0 {
		t.Errorf("owned after it was let go: %v, %v", owned, err)
	}
	if _, _, err := b.s.Apply(t.Context(), request); err != nil {
		t.Errorf("its own set takes it again: %v", err)
	}
	if err := b.s.Orphan(t.Context(), b.lane, "payments", 3); err != nil {
		t.Fatal(err)
	}
	if _, err := b.s.Delete(t.Context(), b.lane, 0, true); err != nil {
		t.Errorf("delete of what the file let go: %v", err)
	}
}

// Who names the set deletes what it owns or let go, and nothing else.
func TestDeleteOfASet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		owner  Source
		orphan bool
		set    string
		want   job.Code
	}{
		"its own":        {Source{Kind: "file", Set: "payments", Revision: 3}, false, "payments", ""},
		"what it let go": {Source{Kind: "file", Set: "payments"}, true, "payments", ""},
		"another set's":  {Source{Kind: "file", Set: "mails"}, false, "payments", job.CodeOwnedByFile},
		"let go by it":   {Source{Kind: "file", Set: "mails"}, true, "payments", job.CodeOwnedByFile},
		"the API's":      {Source{Kind: "api"}, false, "payments", job.CodeOwnedByFile},
		"no set named":   {Source{Kind: "file", Set: "payments"}, false, "", job.CodeOwnedByFile},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, "redis")
			contract, written := contractOf(t, b.lane, perSecond(50), "")
			if _, _, err := b.s.Apply(t.Context(), ApplyRequest{Name: b.lane, Contract: contract, Written: written, Source: c.owner}); err != nil {
				t.Fatal(err)
			}
			if c.orphan {
				if err := b.s.Orphan(t.Context(), b.lane, c.owner.Set, 0); err != nil {
					t.Fatal(err)
				}
			}
			_, err := b.s.DeleteOf(t.Context(), c.set, b.lane, 0, false)
			if c.want == "" && err != nil || c.want != "" && job.CodeOf(err) != c.want {
				t.Errorf("%v, want %q", err, c.want)
			}
			if c.want != "" && c.set == "" && !strings.Contains(err.Error(), "set=payments") {
				t.Errorf("%v does not say what to do", err)
			}
			if _, err := b.s.Destination(t.Context(), b.lane); (err == nil) != (c.want != "") {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// What was deleted, or taken by others, is not let go a second time.
func TestOrphanLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), "")
	for _, deleted := range []bool{false, true} {
		if deleted {
			if _, err := b.s.Delete(t.Context(), b.lane, 0, true); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.s.Orphan(t.Context(), b.lane, "payments", 3); err != nil {
			t.Fatal(err)
		}
		d, err := b.s.Destination(t.Context(), b.lane)
		if deleted && job.CodeOf(err) != job.CodeDestinationNotFound || !deleted && (err != nil || d.Source.Kind != "api") {
			t.Errorf("deleted %v: %+v, %v", deleted, d, err)
		}
	}
}

// One lane with data of a wrong kind is shown as faulty, and the others are listed.
func TestDamagedLaneDoesNotHideTheList(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), "")
	c, written := contractOf(t, "other", perSecond(50), "")
	if _, _, err := b.s.Apply(t.Context(), ApplyRequest{Name: "other", Contract: c, Written: written}); err != nil {
		t.Fatal(err)
	}
	client := b.db.Client()
	client.Del(t.Context(), b.keys.State())
	client.Set(t.Context(), b.keys.State(), "not a hash", 0)
	list, _, err := b.s.Destinations(t.Context(), "", "", 10)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d listed, %v", len(list), err)
	}
	for _, d := range list {
		if faulty := d.Name == b.lane; faulty != (d.Live.State == "faulty") {
			t.Errorf("%s is %s", d.Name, d.Live.State)
		}
	}
}

// A stray member of ready neither stops a delete nor outlives it.
func TestDeleteWithAStrayMember(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), "")
	b.accept(newJobs(3, "")...)
	b.db.Client().ZAdd(t.Context(), strings.TrimSuffix(b.keys.State(), "state")+"ready", zero("zzz"))
	if _, err := b.s.Delete(t.Context(), b.lane, 0, true); err != nil {
		t.Error(err)
	}
}

// A clock that went back while no worker could tell does not hold the lane.
func TestStepBackThatNobodySaw(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), "")
	b.accept(newJobs(10, "")...)
	turn := func(call uint64) TurnReply {
		return b.s.Turns(t.Context(), "w", []Turn{{Lane: b.lane, Call: call, Want: 2, Ahead: 100 * time.Millisecond}})[0]
	}
	if r := turn(1); len(r.Leases) != 2 {
		t.Fatalf("%d leases, %v", len(r.Leases), r.Err)
	}
	client := b.db.Client()
	client.HIncrBy(t.Context(), b.keys.Clock(), "adj", -time.Hour.Microseconds())
	turn(2)
	adj, err := client.HGet(t.Context(), b.keys.Clock(), "adj").Int64()
	if err != nil || adj < -time.Second.Microseconds() {
		t.Errorf("adj is %d µs, %v; the step was not mended", adj, err)
	}
}

// Such a step is no time that passes: slots that a slow worker may use late keep
// the next ones apart for as long as without it.
func TestStepBackForgetsNoTolerance(t *testing.T) {
	t.Parallel()
	onBoth(t, perSecond(10), "", func(t *testing.T, b *bench) {
		b.accept(newJobs(40, "")...)
		first := b.turn(1)
		b.pass(3 * time.Second)
		slow := ClockView{Expect: first.Logical + 3_000_000, Width: 500_000}
		b.turnAs("w2", Turn{Want: 3, Ahead: 400 * time.Millisecond, Clock: slow})
		b.pass(500 * time.Millisecond)
		if r := b.turn(9); len(r.Leases) == 0 || r.Tolerance < 500*time.Millisecond {
			t.Fatalf("%d leases, each for %v", len(r.Leases), r.Tolerance)
		}
		b.pass(-time.Hour)
		if r := b.turn(9); !r.Stepped {
			t.Fatal("the step was not seen")
		}
		b.pass(200 * time.Millisecond)
		r := b.turn(9)
		if r.Tolerance < 500*time.Millisecond {
			t.Errorf("slots for %v, and those before may be used 500 ms late", r.Tolerance)
		}
		for i := 1; i < len(r.Leases); i++ {
			if gap := r.Leases[i].Slot - r.Leases[i-1].Slot; gap < 150_000 {
				t.Errorf("slots %d µs apart", gap)
			}
		}
	})
}

// A name that nobody may give, in the due index by accident, harms no other lane.
func TestBadNameAmongTurns(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), "")
	b.accept(newJobs(1, "")...)
	r := b.s.Turns(t.Context(), "w", []Turn{{Lane: "Not A Name", Call: 1, Want: 1}, {Lane: b.lane, Call: 2, Want: 1, Ahead: 100 * time.Millisecond}})
	if r[0].Err == nil || r[1].Err != nil || len(r[1].Leases) != 1 {
		t.Errorf("%v; %v with %d leases", r[0].Err, r[1].Err, len(r[1].Leases))
	}
}

func zero(member string) redis.Z { return redis.Z{Member: member} }

// What a process knows of a loss counts also when another applied the same first.
func TestLossIsHeardWhenAnotherAppliedFirst(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(50), "")
	c, written := contractOf(t, b.lane, perSecond(50), "")
	if _, _, err := b.s.Apply(t.Context(), ApplyRequest{Name: b.lane, Contract: c, Written: written, Source: Source{Kind: "api"}, MemoryLost: true}); err != nil {
		t.Fatal(err)
	}
	b.accept(newJobs(1, "")...)
	r := b.s.Turns(t.Context(), "w", []Turn{{Lane: b.lane, Call: 1, Want: 1, Ahead: 100 * time.Millisecond}})[0]
	if r.Err != nil || !r.LostMemory || len(r.Leases) != 0 {
		t.Errorf("lost %v, %d leases at once, %v", r.LostMemory, len(r.Leases), r.Err)
	}
}

// A full server lets lanes be claimed and drained, for that is what makes room,
// and lets the operator act.
func TestFullServerIsDrained(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	db, err := redisdb.Open(t.Context(), redisdb.Config{URL: server.URL(), Namespace: "full"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	s := New(db)
	apply := func(perSec int) error {
		c, written := contractOf(t, "bank", perSecond(perSec), "")
		_, _, err := s.Apply(t.Context(), ApplyRequest{Name: "bank", Contract: c, Written: written})
		return err
	}
	if err := apply(50); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Push(t.Context(), "bank", newJobs(2, "")); err != nil {
		t.Fatal(err)
	}
	keys, _ := db.Keys().Lane("bank")
	db.Client().ZAdd(t.Context(), keys.Due(), redis.Z{Member: "bank", Score: 1})
	server.Config(t, "maxmemory", "1")
	if _, err := s.Push(t.Context(), "bank", newJobs(1, "")); job.CodeOf(err) != job.CodeUnavailable {
		t.Errorf("push to a full server: %v", err)
	}
	var none [redisdb.Shards]ClockView
	claim, err := s.Claim(t.Context(), s.Groups()[0], 0, MaxClaim, &none)
	if err != nil || len(claim.Lanes) != 1 {
		t.Errorf("claimed %v, %v", claim.Lanes, err)
	}
	call := uint64(0)
	turn := func(want int, results ...Result) []Lease {
		call++
		r := s.Turns(t.Context(), "w", []Turn{{Lane: "bank", Call: call, Want: want, Ahead: 400 * time.Millisecond, Result: results}})[0]
		if r.Err != nil || r.Status != TurnOK {
			t.Fatalf("turn %d: %s, %v", call, r.Status, r.Err)
		}
		return r.Leases
	}
	leases := turn(2)
	turn(1) // without anything to write but its next look
	if held, err := s.Start(t.Context(), "bank", destination.Memory, leases); err != nil || len(held) != 2 {
		t.Errorf("start: %v, %v", held, err)
	}
	turn(0, settleAll(leases[:1], KindDelivered)...)
	turn(0, settleAll(leases[1:], KindRetry)...)
	_, paused := s.Pause(t.Context(), "bank", "full")
	_, resumed := s.Resume(t.Context(), "bank")
	_, _, mended := s.mend(t.Context(), "bank")
	applied := apply(40)
	_, deleted := s.Delete(t.Context(), "bank", 0, true)
	for name, err := range map[string]error{"pause": paused, "resume": resumed, "mend": mended, "apply": applied, "delete": deleted} {
		if err != nil {
			t.Errorf("%s on a full server: %v", name, err)
		}
	}
}

// The crash guard of a claim that came behind a step forward.
func TestClaimBehindAStepThatIsMendedLater(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), "")
	b.accept(newJobs(10, "")...)
	shard := redisdb.ShardOf(b.lane)
	var views [redisdb.Shards]ClockView
	c, err := b.s.Claim(t.Context(), []int{shard}, 0, 0, &views)
	if err != nil {
		t.Fatal(err)
	}
	views[shard] = ClockView{Expect: c.Logical[shard], Width: 1000}
	b.pass(time.Hour) // the step
	if c, err = b.s.Claim(t.Context(), []int{shard}, 0, 10, &views); err != nil || len(c.Lanes) != 1 {
		t.Fatal(c, err)
	}
	// The reply is lost with its worker. Another one mends the step.
	views[shard].Confirmed, views[shard].Move = c.Adj[shard], -time.Hour.Microseconds()
	c, err = b.s.Claim(t.Context(), []int{shard}, 0, 10, &views)
	if err != nil {
		t.Fatal(err)
	}
	if c.Wait > 2*time.Second {
		t.Errorf("the lane is due in %v", c.Wait)
	}
}
