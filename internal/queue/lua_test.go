package queue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/redisdb"
)

// argvNames are the arguments as the calls in Go send them, by script.
var argvNames = map[string][]string{
	"turn": {"lane", "wake", "worker", "call", "lost", "want", "short", "keep", "expect", "width", "slack", "confirmed", "move",
		"lead", "horizon", "bytes", "mylast", "late", "nres", "results"},
	"push":   {"lane", "wake", "n", "jobs"},
	"apply":  {"lane", "wake", "ifversion", "ifnone", "dry", "kind", "set", "revision", "lost", "fields"},
	"pause":  {"lane", "wake", "reason"},
	"delete": {"lane", "ifversion", "cancel", "keep", "set"},
	"read":   {"lane", "id"},
	"survey": {"lanes", "known"},
	"mend":   {"lane", "wake"},
	"list":   {"lane", "index", "back", "n", "after", "id", "until"},
	"act":    {"lane", "wake", "verb", "fill", "step", "from", "to", "seen", "matched", "state", "jobs"},
	"glance": {"lanes"},
	"start":  {"jobs"},
	"claim":  {"limit", "first", "views"},
}

func TestHeadersMatchTheCalls(t *testing.T) {
	t.Parallel()
	for _, s := range Scripts() {
		argv, ok := argvNames[s.Name()]
		if !ok {
			t.Errorf("script %s has no list of arguments here", s.Name())
			continue
		}
		if err := redisdb.CheckHeader(s, argv); err != nil {
			t.Error(err)
		}
	}
}

func TestEveryScriptLoads(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, backend)
			for _, s := range Scripts() {
				sha, err := b.db.Client().ScriptLoad(context.Background(), s.Source()).Result()
				if err != nil || sha != s.SHA() {
					t.Errorf("%s: %q, %v", s.Name(), sha, err)
				}
			}
		})
	}
}

// TestScriptsWithoutALane runs each script on an empty Redis: "no" is an
// answer, never an error.
func TestScriptsWithoutALane(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			ctx, b := context.Background(), openBench(t, backend)
			_, pushErr := b.s.Push(ctx, b.lane, newJobs(1, ""))
			_, pauseErr := b.s.Pause(ctx, b.lane, "")
			_, deleteErr := b.s.Delete(ctx, b.lane, 0, true)
			_, readErr := b.s.Destination(ctx, b.lane)
			for name, err := range map[string]error{"push": pushErr, "pause": pauseErr, "delete": deleteErr, "read": readErr} {
				if job.CodeOf(err) != job.CodeDestinationNotFound {
					t.Errorf("%s: %v", name, err)
				}
			}
			if r := b.turn(1, Result{ID: job.NewID(), Token: "w:1:1", Kind: KindDelivered}); r.Status != TurnNoLane || !slices.Equal(r.Verdicts, []string{"gone"}) {
				t.Errorf("turn: %+v", r)
			}
			if held, err := b.s.Start(ctx, b.lane, destination.Memory, []Lease{{ID: job.NewID(), Token: "x"}, {ID: job.NewID()}}); err != nil || !slices.Equal(held, []bool{false, false}) {
				t.Errorf("start: %v, %v", held, err)
			}
			if m, _, err := b.s.mend(ctx, b.lane); err != nil || m != (Repairs{}) {
				t.Errorf("mend: %+v, %v", m, err)
			}
			claim, err := b.s.Claim(ctx, b.s.Groups()[0], 3, MaxClaim, &[redisdb.Shards]ClockView{})
			if err != nil || len(claim.Lanes) != 0 || claim.Wait >= 0 {
				t.Errorf("claim: %+v, %v", claim, err)
			}
		})
	}
}

// TestLifeOfALane walks one lane through every script.
func TestLifeOfALane(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			ctx, b := context.Background(), openBench(t, backend)
			if d := b.apply(perSecond(100), ""); d.Version != 1 || d.Generation != 1 || d.Live.State != "running" {
				t.Fatalf("applied: %+v", d)
			}
			jobs := newJobs(5, "a")
			jobs[4].Delay = 30 * time.Second
			jobs[3].ExpiresIn = time.Minute
			b.accept(jobs...)
			if got := b.state(jobs[4].ID); got != job.Scheduled {
				t.Errorf("delayed job is %s", got)
			}
			claim, err := b.s.Claim(ctx, b.s.Groups()[0], 0, MaxClaim, &[redisdb.Shards]ClockView{})
			if err != nil || !slices.Equal(claim.Lanes, []string{b.lane}) {
				t.Fatalf("claim: %+v, %v", claim, err)
			}
			r := b.turn(10)
			if r.Status != TurnOK || len(r.Leases) != 4 || r.Why != "empty" || r.Epoch == 0 || r.Version != 1 {
				t.Fatalf("turn: %+v", r)
			}
			checkLeases(t, r, jobs)
			if held, err := b.s.Start(ctx, b.lane, destination.Memory, []Lease{{ID: "nobody"}, r.Leases[0], {ID: r.Leases[1].ID, Token: "other"}}); err != nil ||
				!slices.Equal(held, []bool{false, true, false}) {
				t.Errorf("start: %v, %v", held, err)
			}
			results := append(settleAll(r.Leases[:1], KindDelivered), settleAll(r.Leases[1:2], KindDead)...)
			results = append(results, settleAll(r.Leases[2:3], KindRelease)...)
			retry := settleAll(r.Leases[3:4], KindRetry)[0]
			retry.Delay = time.Minute
			if v := b.turn(0, append(results, retry)...).Verdicts; !slices.Equal(v, []string{"ok", "ok", "ok", "ok"}) {
				t.Errorf("verdicts: %v", v)
			}
			for i, want := range []job.State{job.Delivered, job.Dead, job.Ready, job.Waiting, job.Scheduled} {
				if got := b.state(jobs[i].ID); got != want {
					t.Errorf("job %d is %s, want %s", i, got, want)
				}
			}
			live := b.live()
			if live.Depth != 3 || live.Ready != 1 || live.Waiting != 2 || live.Leased != 0 || live.Dead != 1 {
				t.Errorf("live: %+v", live)
			}
			walkPauseAndDelete(t, b, jobs)
		})
	}
}

func checkLeases(t *testing.T, r TurnReply, jobs []*job.Job) {
	t.Helper()
	for i, l := range r.Leases {
		j, err := Decode("bank", l.ID, l.Envelope)
		if err != nil || l.ID != jobs[i].ID || string(j.Request.Body) != string(jobs[i].Request.Body) {
			t.Errorf("lease %d: %s, want %s: %v", i, l.ID, jobs[i].ID, err)
		}
		if i > 0 && l.Slot-r.Leases[i-1].Slot < 10_000 {
			t.Errorf("slots %d and %d are %d µs apart", i-1, i, l.Slot-r.Leases[i-1].Slot)
		}
	}
}

func walkPauseAndDelete(t *testing.T, b *bench, jobs []*job.Job) {
	t.Helper()
	ctx := context.Background()
	if _, err := b.s.Pause(ctx, b.lane, "maintenance"); err != nil {
		t.Fatal(err)
	}
	if r := b.turn(5); len(r.Leases) != 0 || r.Why != "paused" || r.Epoch != 2 {
		t.Errorf("turn while paused: %+v", r)
	}
	if live := b.live(); live.State != "paused" || len(live.StateReasons) != 1 {
		t.Errorf("live: %+v", live)
	}
	if _, err := b.s.Resume(ctx, b.lane); err != nil {
		t.Fatal(err)
	}
	if r := b.turn(5); len(r.Leases) != 1 || r.Leases[0].ID != jobs[2].ID {
		t.Errorf("turn after resume: %+v", r)
	}
	if m, _, err := b.s.mend(ctx, b.lane); err != nil || m != (Repairs{}) {
		t.Errorf("mend: %+v, %v", m, err)
	}
	if _, err := b.s.Delete(ctx, b.lane, 0, false); job.CodeOf(err) != job.CodeDestinationNotEmpty {
		t.Errorf("delete of a full lane: %v", err)
	}
	if _, err := b.s.Delete(ctx, b.lane, 7, true); job.CodeOf(err) != job.CodeVersionMismatch {
		t.Errorf("delete of another version: %v", err)
	}
	if _, err := b.s.Delete(ctx, b.lane, 1, true); err != nil {
		t.Fatal(err)
	}
	if names, err := b.s.Names(ctx); err != nil || len(names) != 0 {
		t.Errorf("names: %v, %v", names, err)
	}
	if d := b.apply(perSecond(10), ""); d.Generation != 2 || d.Live.Depth != 0 || d.Live.SizeBytes != 0 {
		t.Errorf("made again: %+v", d)
	}
}

func TestDamagedReplyIsAnError(t *testing.T) {
	t.Parallel()
	for _, reply := range []any{nil, "ok", []any{}, []any{"ok", "1"}, []any{"what"}, []any{"ok", 1.5}} {
		if r := parseTurn(reply); r.Err == nil {
			t.Errorf("%v: %+v", reply, r)
		}
	}
	var damaged *DamagedError
	if errors.As(error(&DamagedError{Lane: "x", Cause: errors.New("y")}), &damaged); damaged.Error() == "" {
		t.Error("no text")
	}
}
