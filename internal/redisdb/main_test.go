package redisdb

import (
	"context"
	"testing"

	"tundish/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// open opens a DB that is closed at the test's end.
func open(t *testing.T, cfg Config) *DB {
	t.Helper()
	if cfg.Namespace == "" {
		cfg.Namespace = redistest.Namespace(t)
	}
	db, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// backends are what every script must run on.
func backends(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		"redis":     redistest.Shared(t).URL(),
		"cluster":   redistest.SharedCluster(t).ClusterURL(),
		"miniredis": redistest.MiniURL(redistest.Mini(t)),
	}
}

// incr counts how often it ran, in the lane's conf.
var incr = NewScript("incr", Prelude(), Part{Name: "body", Source: `return redis.call('INCR', K.conf)`})

func laneKeys(t *testing.T, db *DB) LaneKeys {
	t.Helper()
	keys, err := db.Keys().Lane("bank")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
