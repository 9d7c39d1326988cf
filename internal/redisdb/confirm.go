package redisdb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Durability says what a server must have done with a write beside answering.
type Durability int

// What a server can be asked for.
const (
	Answered   Durability = iota
	Replicated            // a replica has it (WAIT)
	Synced                // its append-only file is on the disk (WAITAOF, or appendfsync always)
)

// RunConfirmed executes a script at most once and asks, on the same connection,
// whether what it wrote or found written is durable: both commands count all that the
// server had written when it last answered that connection.
// A script that ran and was not confirmed in time is no error.
func (db *DB) RunConfirmed(ctx context.Context, d Durability, within time.Duration, s *Script, keys []string, args ...any) (value any, confirmed bool, err error) {
	if d == Answered {
		value, err = db.RunOnce(ctx, s, keys, args...)
		return value, err == nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, db.cfg.CallTimeout+within)
	defer cancel()
	begin := time.Now()
	call := Call{Script: s, Keys: keys, Args: args, Once: true}
	var reply Reply
	for _, verb := range []string{"evalsha", "eval"} { // eval when the server has forgotten the script
		if reply, confirmed, err = db.sendConfirmed(ctx, d, within, call, verb); len(refused([]Reply{reply}, []int{0})) == 0 {
			break
		}
	}
	replies := []Reply{reply}
	db.finish([]Call{call}, replies, time.Since(begin))
	if replies[0].Err != nil {
		return nil, false, replies[0].Err
	}
	return replies[0].Value, confirmed, err
}

func (db *DB) sendConfirmed(ctx context.Context, d Durability, within time.Duration, call Call, verb string) (Reply, bool, error) {
	node, err := db.masterOf(ctx, call.Keys)
	if err != nil {
		return Reply{Err: err}, false, err
	}
	cmd, inner := call.command(ctx, verb)
	pipe := node.Pipeline()
	_ = pipe.Process(ctx, cmd) // only queues
	wait := redis.NewCmd(ctx, "WAIT", 1, within.Milliseconds())
	if d == Synced {
		wait = redis.NewCmd(ctx, "WAITAOF", 1, 0, within.Milliseconds())
	}
	_ = pipe.Process(ctx, onceCmd{wait})
	_, err = pipe.Exec(ctx)
	reply := replyOf(inner, err)
	if reply.Err != nil {
		return reply, false, reply.Err
	}
	if d == Synced && unknownCommand(wait.Err()) { // the reply itself is the proof, if it came after the sync
		always, err := db.syncsAlways(ctx, call.Keys)
		return reply, always, err
	}
	return reply, atLeastOne(wait.Val()), nil
}

// atLeastOne reads the reply of WAIT, or the first number of WAITAOF's.
func atLeastOne(v any) bool {
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	n, _ := v.(int64)
	return n > 0
}

func unknownCommand(err error) bool {
	return err != nil && strings.Contains(err.Error(), "unknown command")
}

// syncsAlways says whether the server of these keys answers a write only when it is on the disk.
func (db *DB) syncsAlways(ctx context.Context, keys []string) (bool, error) {
	config, err := db.appends(ctx, keys)
	return config.always(), err
}

// appending is what a server says of its append-only file, parameter by parameter.
type appending map[string]string

func (db *DB) appends(ctx context.Context, keys []string) (appending, error) {
	config, err := db.nodeOf(ctx, keys).ConfigGet(ctx, "*append*").Result()
	if err != nil {
		return nil, fmt.Errorf("ask redis whether it syncs each write: %w", err)
	}
	return config, nil
}

func (a appending) always() bool {
	return a["appendonly"] == "yes" && a["appendfsync"] == "always" && a["no-appendfsync-on-rewrite"] == "no"
}

// late says why a server that has WAITAOF confirms later than callers wait;
// empty when it need not, or does not tell.
func (a appending) late() string {
	switch fsync := a["appendfsync"]; {
	case a.always() || fsync == "":
		return ""
	case fsync != "always":
		return "appendfsync is " + fsync + ": Redis confirms up to a second late, or later, and pushes get 503 durability_unconfirmed; set appendfsync always"
	}
	return "no-appendfsync-on-rewrite is yes: while Redis rewrites its file it confirms nothing, and pushes get 503 durability_unconfirmed; set it to no"
}

// CanSync says whether the server of these keys can ever confirm Synced, and if
// so what makes it later than callers wait; empty: nothing that it tells.
func (db *DB) CanSync(ctx context.Context, keys []string) (can bool, late string, err error) {
	pipe := db.nodeOf(ctx, keys).Pipeline()
	_ = pipe.Process(ctx, redis.NewCmd(ctx, "WAITAOF", 1, 0, 1)) // only queues
	_, err = pipe.Exec(ctx)
	switch {
	case err == nil:
		config, err := db.appends(ctx, keys)
		if err != nil && isReply(err) && !Unavailable(err) {
			return true, "", nil // CONFIG is refused, as hosted Redis do
		}
		return true, config.late(), err
	case unknownCommand(err):
		can, err = db.syncsAlways(ctx, keys)
		return can, "", err
	case isReply(err) && !Unavailable(err): // it says that nothing is appended
		return false, "", nil
	}
	return false, "", err
}
