package redisdb

import (
	"strings"
	"testing"
	"time"

	"tundish/internal/redistest"
)

var noted = NewScript("noted", Prelude(), Part{Name: "body", Source: "return redis.call('HINCRBY', K.state, 'n', 1)"})

// confirm runs a script that writes and says whether that is known to be durable.
func confirm(t *testing.T, db *DB, d Durability, keys []string) bool {
	t.Helper()
	_, confirmed, err := db.RunConfirmed(t.Context(), d, 200*time.Millisecond, noted, keys)
	if err != nil {
		t.Fatal(err)
	}
	return confirmed
}

// Before WAITAOF the reply is the proof, but only of a server that never answers before the sync.
func TestReplyProvesTheSyncOnlyWithAlways(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithAOF())
	db := open(t, Config{URL: server.URL()})
	if err := server.Client(t).Do(t.Context(), "WAITAOF", 1, 0, 1).Err(); !unknownCommand(err) {
		t.Skip("this server has WAITAOF")
	}
	keys := laneKeys(t, db)
	for _, c := range []struct {
		fsync, rewrite string
		want           bool
	}{
		{"everysec", "no", false},
		{"always", "no", true},
		{"always", "yes", false}, // it does not sync while it rewrites
	} {
		server.Config(t, "appendfsync", c.fsync)
		server.Config(t, "no-appendfsync-on-rewrite", c.rewrite)
		if got := confirm(t, db, Synced, keys); got != c.want {
			t.Errorf("%+v: confirmed %v", c, got)
		}
		if can, late, err := db.CanSync(t.Context(), keys); err != nil || can != c.want || late != "" {
			t.Errorf("%+v: can sync %v, %q, %v", c, can, late, err)
		}
	}
}

// A server that has WAITAOF can confirm whatever it is set to, but not always in time.
func TestLateConfirmationsAreTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ fsync, rewrite, want string }{
		{"always", "no", ""},
		{"everysec", "no", "appendfsync is everysec: Redis confirms up to a second late, or later, and pushes get 503 durability_unconfirmed; set appendfsync always"},
		{"no", "no", "appendfsync is no: "},
		{"always", "yes", "no-appendfsync-on-rewrite is yes: "},
		{"", "", ""}, // a hosted one that answers and tells nothing
	} {
		config := appending{"appendonly": "yes"}
		if c.fsync != "" {
			config["appendfsync"], config["no-appendfsync-on-rewrite"] = c.fsync, c.rewrite
		}
		if got := config.late(); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("appendfsync %q, no-appendfsync-on-rewrite %q: %q, want %q", c.fsync, c.rewrite, got, c.want)
		}
	}
}

// A lane that moves to another node costs one call at most; what is confirmed is
// confirmed by the node that has it.
func TestConfirmationFollowsTheLane(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartNodes(t, 2, redistest.WithAOF(), redistest.WithConfig("appendfsync", "always"))
	db := open(t, Config{URL: nodes.URL()})
	keys := laneKeys(t, db)
	if !confirm(t, db, Synced, keys) {
		t.Fatal("not confirmed")
	}
	from := 0
	if !nodes[0].Holds(t, keys[1]) {
		from = 1
	}
	nodes.Move(t, keys[1], from, 1-from)
	for start := time.Now(); ; {
		_, confirmed, err := db.RunConfirmed(t.Context(), Synced, 200*time.Millisecond, noted, keys)
		if confirmed && err == nil {
			break
		}
		if confirmed || !Unavailable(err) || Lost(err) {
			t.Fatalf("confirmed %v, %v", confirmed, err)
		}
		if time.Since(start) > 10*time.Second {
			t.Fatalf("after the move: %v", err)
		}
	}
}

// Without a replica nothing is confirmed, and without an answer neither.
func TestNothingConfirmsWithoutAReplica(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	db := open(t, Config{URL: server.URL()})
	keys := laneKeys(t, db)
	if confirm(t, db, Replicated, keys) {
		t.Error("confirmed without a replica")
	}
	if err := server.Client(t).ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if confirm(t, db, Replicated, keys) {
		t.Error("confirmed without a replica, by a server that had forgotten the script")
	}
	redistest.Replica(t, server)
	server.AwaitReplicas(t, 1)
	if !confirm(t, db, Replicated, keys) {
		t.Error("not confirmed with a replica")
	}
	server.Kill(t)
	if _, confirmed, err := db.RunConfirmed(t.Context(), Replicated, 200*time.Millisecond, noted, keys); confirmed || !Unavailable(err) {
		t.Errorf("a dead server: confirmed %v, %v", confirmed, err)
	}
}
