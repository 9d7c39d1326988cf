package queue

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"tundish/internal/redisdb"
	"tundish/internal/redistest"
)

// survey is what gauges say of the bench's lane.
func (b *bench) survey() Lane {
	b.t.Helper()
	lanes, err := b.s.Survey(context.Background())
	if err != nil || len(lanes) != 1 || lanes[0].Name != b.lane {
		b.t.Fatalf("survey: %+v, %v", lanes, err)
	}
	return lanes[0]
}

func TestSurveyTellsWhatIsThere(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, backend)
			if lanes, err := b.s.Survey(context.Background()); err != nil || len(lanes) != 0 {
				t.Fatalf("survey of nothing: %+v, %v", lanes, err)
			}
			b.apply(perSecond(100), `"class":"webhook","queue":{"capacity":7}`)
			if l := b.survey(); l.State != "running" || l.Class != "webhook" || l.Depth != 0 || l.OldestAge != 0 || l.Capacity != 7 || l.MaxBytes == 0 {
				t.Errorf("empty: %+v", l)
			}
			b.accept(newJobs(5, "a")...)
			leases := b.turn(3).Leases
			retry := settleAll(leases[:1], KindRetry)
			retry[0].Delay = time.Minute
			b.turn(0, append(retry, settleAll(leases[1:2], KindDead)...)...)
			l := b.survey()
			if l.Depth != 4 || l.Ready != 2 || l.Waiting != 1 || l.Leased != 1 || l.Dead != 1 || l.SizeBytes == 0 {
				t.Errorf("counts: %+v", l)
			}
			if len(l.Limits) != 1 || l.Limits[0].Name != "tps" || l.Limits[0].Rate != 100 || l.Limits[0].Granted >= 100 || l.Limits[0].Granted < 98 {
				t.Errorf("limits: %+v", l.Limits)
			}
			if want := time.Duration(4 / l.Rate() * float64(time.Second)); l.Drain() != want {
				t.Errorf("drain: %v, want %v", l.Drain(), want)
			}
		})
	}
}

func TestSurveyTellsTheState(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), openBench(t, "redis")
	b.apply(perSecond(10), "")
	if _, err := b.s.Pause(ctx, b.lane, "x"); err != nil {
		t.Fatal(err)
	}
	if l := b.survey(); l.State != "paused" {
		t.Errorf("paused: %+v", l)
	}
	if err := b.s.MarkFaulty(ctx, b.lane, 1); err != nil {
		t.Fatal(err)
	}
	if l := b.survey(); l.State != "faulty" {
		t.Errorf("a contract that no worker can read: %+v", l)
	}
	client := b.db.Client()
	for field, text := range map[string]string{"limits": "nonsense", "capacity": "many"} {
		if err := client.HSet(ctx, b.keys.Conf(), field, text).Err(); err != nil {
			t.Fatal(err)
		}
		b.s.seen.lanes = nil
		if l := b.survey(); l.State != "faulty" || len(l.Limits) != 0 {
			t.Errorf("damaged %s: %+v", field, l)
		}
	}
	// One lane whose data is of another type does not hide the others.
	c, written := contractOf(t, "other", perSecond(10), "")
	if _, _, err := b.s.Apply(ctx, ApplyRequest{Name: "other", Contract: c, Written: written}); err != nil {
		t.Fatal(err)
	}
	if err := client.Del(ctx, b.keys.State()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Set(ctx, b.keys.State(), "text", 0).Err(); err != nil {
		t.Fatal(err)
	}
	lanes, err := b.s.Survey(ctx)
	if err != nil || len(lanes) != 2 || lanes[0].State != "faulty" || lanes[1].State != "running" {
		t.Errorf("beside a damaged lane: %+v, %v", lanes, err)
	}
	if err := client.HSet(ctx, b.keys.Lanes(), "No Lane", "1|1|0").Err(); err != nil {
		t.Fatal(err)
	}
	if lanes, err := b.s.Survey(ctx); err != nil || len(lanes) != 2 {
		t.Errorf("beside a name that no lane can have: %+v, %v", lanes, err)
	}
	if _, err := b.s.Delete(ctx, "other", 0, true); err != nil {
		t.Fatal(err)
	}
	if lanes, err := b.s.Survey(ctx); err != nil || len(lanes) != 1 {
		t.Errorf("after a delete: %+v, %v", lanes, err)
	}
}

// The age is that of the oldest job wherever it stands; one that waits for its
// own time has none.
func TestAgeOfTheOldestJob(t *testing.T) {
	t.Parallel()
	b := openBench(t, "miniredis")
	now := time.Now().Truncate(time.Second)
	pass := func(d time.Duration) { now = now.Add(d); b.mini.SetTime(now) }
	check := func(what string, want time.Duration) {
		t.Helper()
		read, surveyed := b.live().OldestAge, b.survey().OldestAge
		if d := read - want; d.Abs() > 10*time.Millisecond {
			t.Errorf("%s: %v when read, want %v", what, read, want)
		}
		if d := surveyed - want; d.Abs() > 10*time.Millisecond {
			t.Errorf("%s: %v when surveyed, want %v", what, surveyed, want)
		}
	}
	pass(0)
	b.apply(perSecond(100), "")
	check("nothing there", 0)
	delayed := newJob("")
	delayed.Delay = time.Hour
	b.accept(delayed)
	pass(time.Minute)
	check("one with its own time", 0)
	late := newJob("a")
	late.Priority = 9
	b.accept(late)
	pass(time.Minute)
	check("one that is ready, of low priority", time.Minute)
	b.accept(newJob("b"))
	lease := b.turn(1).Leases
	check("one that is leased, before one that is ready", time.Minute)
	b.turn(1)
	retry := settleAll(lease, KindRetry)
	retry[0].Delay = 10 * time.Minute
	b.turn(0, retry...)
	pass(3 * time.Second)
	check("one in back-off", time.Minute+3*time.Second)
}

// What a lane is granted falls with the tolerance that its workers need.
func TestSurveyTellsTheRateAsGranted(t *testing.T) {
	t.Parallel()
	b := openBench(t, "miniredis")
	b.mini.SetTime(time.Unix(1_800_000_000, 0))
	b.apply(perSecond(10), "")
	if l := b.survey(); math.Abs(l.Rate()-10/1.005) > 1e-9 {
		t.Errorf("rate %v by the guard alone", l.Rate())
	}
	b.accept(newJobs(2, "")...)
	turn := Turn{Lane: b.lane, Call: 1, Want: 1, Lead: time.Millisecond, Ahead: 100 * time.Millisecond, Clock: ClockView{Expect: 1_800_000_000_000_000, Width: 98_000}}
	if r := b.s.Turns(context.Background(), "w", []Turn{turn})[0]; r.Err != nil || r.Tolerance != 100*time.Millisecond {
		t.Fatalf("turn: %+v", r)
	}
	if l := b.survey(); math.Abs(l.Rate()-10/1.1) > 1e-9 {
		t.Errorf("rate %v with bounds of 98 ms", l.Rate())
	}
}

func TestSurveyTellsHowLongSendersAreHeld(t *testing.T) {
	t.Parallel()
	b := openBench(t, "miniredis")
	now := time.Unix(1_800_000_000, 0)
	b.mini.SetTime(now)
	b.apply(perSecond(100), "")
	b.accept(newJobs(3, "")...)
	leases := b.turn(3).Leases
	now = now.Add(2 * time.Second)
	b.mini.SetTime(now)
	b.turn(0, settleAll(leases[:1], KindDelivered)...)
	if got := b.survey().Occupied; got < 1900*time.Millisecond || got > 2*time.Second {
		t.Errorf("held for %v, want about 2 s", got)
	}
	before := b.survey().Occupied
	b.turn(0, settleAll(leases[1:2], KindRelease)...)
	if got := b.survey().Occupied; got != before {
		t.Errorf("a release counts: %v, was %v", got, before)
	}
	now = now.Add(10 * time.Second)
	b.mini.SetTime(now)
	b.turn(0, settleAll(leases[2:], KindDelivered)...)
	if got := b.survey().Occupied; got <= before || got > before+time.Second {
		t.Errorf("one slow answer moves the mean from %v to %v", before, got)
	}
}

// A lane without jobs that was seen before is not read whole again, and still
// nothing that changes is missed.
func TestSurveySeesWhatChangesInAnIdleLane(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			ctx, b := context.Background(), openBench(t, backend)
			b.apply(perSecond(10), "")
			whole := b.survey()
			if again := b.survey(); again.State != "running" || again.Capacity != whole.Capacity || again.Rate() != whole.Rate() || again.Rate() == 0 {
				t.Errorf("seen again: %+v, was %+v", again, whole)
			}
			b.apply(perSecond(20), `"queue":{"capacity":3}`)
			if l := b.survey(); l.Limits[0].Rate != 20 || l.Capacity != 3 {
				t.Errorf("after a change: %+v", l)
			}
			if _, err := b.s.Pause(ctx, b.lane, "x"); err != nil {
				t.Fatal(err)
			}
			if l := b.survey(); l.State != "paused" {
				t.Errorf("paused: %+v", l)
			}
			if _, err := b.s.Resume(ctx, b.lane); err != nil {
				t.Fatal(err)
			}
			b.accept(newJobs(2, "")...)
			if l := b.survey(); l.State != "running" || l.Ready != 2 || l.SizeBytes == 0 {
				t.Errorf("with jobs: %+v", l)
			}
			b.turn(0, settleAll(b.turn(2).Leases, KindDead)...)
			if l := b.survey(); l.Depth != 0 || l.Ready != 0 || l.Dead != 2 || l.SizeBytes != 0 {
				t.Errorf("all dead: %+v", l)
			}
			b.accept(newJob(""))
			b.turn(0, settleAll(b.turn(1).Leases, KindUnknown)...)
			for range surveyWhole { // whole and not
				if l := b.survey(); l.Dead != 2 || l.Unknown != 1 {
					t.Errorf("two dead and one unknown: %+v", l)
				}
			}
			b.apply(perSecond(20), `"paused":true`)
			for range 2 {
				if l := b.survey(); l.State != "paused" {
					t.Errorf("paused by the contract: %+v", l)
				}
			}
			if _, err := b.s.Delete(ctx, b.lane, 0, true); err != nil {
				t.Fatal(err)
			}
			for range 3 { // as many versions as before
				b.apply(perSecond(7), "")
			}
			if l := b.survey(); l.State != "running" || l.Limits[0].Rate != 7 {
				t.Errorf("made again: %+v", l)
			}
			if err := b.s.MarkFaulty(ctx, b.lane, 1); err != nil {
				t.Fatal(err)
			}
			if l := b.survey(); l.State != "faulty" {
				t.Errorf("marked: %+v", l)
			}
		})
	}
}

// Damage to an idle lane is seen after some looks.
func TestSurveySeesDamageInAnIdleLane(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(10), "")
	b.survey()
	if err := b.db.Client().HSet(context.Background(), b.keys.Conf(), "limits", "nonsense").Err(); err != nil {
		t.Fatal(err)
	}
	for range surveyWhole {
		if b.survey().State == "faulty" {
			return
		}
	}
	t.Errorf("not seen in %d looks", surveyWhole)
}

func TestSendersOfAWorker(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), openBench(t, "redis")
	if n, err := b.s.Senders(ctx); err != nil || n != DefaultSenders {
		t.Errorf("nobody told: %d, %v", n, err)
	}
	if err := b.s.SetSenders(ctx, 16); err != nil {
		t.Fatal(err)
	}
	if n, err := b.s.Senders(ctx); err != nil || n != 16 {
		t.Errorf("told 16: %d, %v", n, err)
	}
}

func TestSurveyChunksCoverEachLaneOnce(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 3000 {
		names = append(names, fmt.Sprintf("d-%d", i))
	}
	seen := map[int]bool{}
	for _, chunk := range surveyChunks(names) {
		if len(chunk) == 0 || len(chunk) > surveyLanes {
			t.Fatalf("a chunk of %d", len(chunk))
		}
		for _, at := range chunk {
			if seen[at] || redisdb.ShardOf(names[at]) != redisdb.ShardOf(names[chunk[0]]) {
				t.Fatalf("lane %d is there twice, or beside one of another shard", at)
			}
			seen[at] = true
		}
	}
	if len(seen) != len(names) {
		t.Errorf("%d of %d lanes", len(seen), len(names))
	}
}

// BenchmarkSurvey looks at many idle lanes on a server of its own.
func BenchmarkSurvey(b *testing.B) {
	ctx := context.Background()
	db, err := redisdb.Open(ctx, redisdb.Config{URL: redistest.Start(b).URL(), Namespace: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	s := New(db)
	const lanes = 2000
	for i := range lanes {
		c, written := contractOf(b, fmt.Sprintf("d-%d", i), perSecond(10), "")
		if _, _, err := s.apply(ctx, ApplyRequest{Name: c.Name, Contract: c, Written: written}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if all, err := s.Survey(ctx); err != nil || len(all) != lanes {
			b.Fatalf("%d lanes, %v", len(all), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/lanes, "µs/lane")
}
