package redisdb

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Call is one execution of a script.
type Call struct {
	Script *Script
	Keys   []string
	Args   []any
	// Once: the command is never sent again once it may have been executed.
	// One such call in a pipeline keeps the whole pipeline from being repeated.
	Once bool
}

// Reply is what became of a Call. A script's nil is a nil Value.
type Reply struct {
	Value any
	Err   error
}

// onceCmd is a command that go-redis never repeats: Client, ClusterClient and
// pipelines ask NoRetry, whereas MaxRetries does not bind a ClusterClient.
type onceCmd struct{ *redis.Cmd }

func (onceCmd) NoRetry() bool { return true }

// Run executes a script that may be repeated: after a lost reply the client
// sends it again.
func (db *DB) Run(ctx context.Context, s *Script, keys []string, args ...any) (any, error) {
	r := db.Pipeline(ctx, []Call{{Script: s, Keys: keys, Args: args}})[0]
	return r.Value, r.Err
}

// RunOnce executes a script at most once. After an error for which Lost is
// true nobody knows whether it ran.
func (db *DB) RunOnce(ctx context.Context, s *Script, keys []string, args ...any) (any, error) {
	r := db.Pipeline(ctx, []Call{{Script: s, Keys: keys, Args: args, Once: true}})[0]
	return r.Value, r.Err
}

// Pipeline executes calls in one round trip, in order, and returns their
// replies by position. The script cache of a server is volatile: calls refused
// with NOSCRIPT did not run, and only they are sent again (behind the others).
func (db *DB) Pipeline(ctx context.Context, calls []Call) []Reply {
	ctx, cancel := context.WithTimeout(ctx, db.cfg.CallTimeout)
	defer cancel()
	begin := time.Now()
	replies := make([]Reply, len(calls))
	todo := make([]int, len(calls))
	for i := range todo {
		todo[i] = i
	}
	db.send(ctx, "evalsha", calls, todo, replies)
	if todo = refused(replies, todo); len(todo) > 0 {
		db.loadAndSend(ctx, calls, todo, replies)
	}
	if todo = refused(replies, todo); len(todo) > 0 {
		// The cache was flushed again, or the lane has just moved to another node:
		// the whole text is the end of the road.
		db.send(ctx, "eval", calls, todo, replies)
	}
	db.finish(calls, replies, time.Since(begin))
	return replies
}

// finish wraps errors and tells the app; the duration of each call is that of
// the whole round trip.
func (db *DB) finish(calls []Call, replies []Reply, d time.Duration) {
	for i, r := range replies {
		s := calls[i].Script
		if r.Err != nil {
			replies[i].Err = s.wrap(r.Err)
			db.reload(r.Err)
		}
		if db.cfg.OnScript != nil {
			db.cfg.OnScript(s.name, d, replies[i].Err)
		}
	}
}

func refused(replies []Reply, among []int) []int {
	var again []int
	for _, i := range among {
		if replies[i].Err != nil && redis.HasErrorPrefix(replies[i].Err, "NOSCRIPT") {
			again = append(again, i)
		}
	}
	return again
}

// loadAndSend loads what was refused onto the nodes that refused it.
func (db *DB) loadAndSend(ctx context.Context, calls []Call, todo []int, replies []Reply) {
	type place struct {
		s    *Script
		node redis.Cmdable
	}
	loaded := map[place]bool{}
	for _, i := range todo {
		p := place{s: calls[i].Script, node: db.nodeOf(ctx, calls[i].Keys)}
		if loaded[p] {
			continue
		}
		loaded[p] = true
		// A failure shows in the next command to the same node.
		_ = p.node.ScriptLoad(ctx, p.s.source).Err()
	}
	db.send(ctx, "evalsha", calls, todo, replies)
}

func (db *DB) send(ctx context.Context, verb string, calls []Call, todo []int, replies []Reply) {
	if len(todo) == 1 {
		i := todo[0]
		cmd, inner := calls[i].command(ctx, verb)
		err := db.client.Process(ctx, cmd)
		replies[i] = replyOf(inner, err)
		return
	}
	pipe := db.client.Pipeline()
	cmds := make([]*redis.Cmd, len(todo))
	for n, i := range todo {
		cmd, inner := calls[i].command(ctx, verb)
		cmds[n] = inner
		_ = pipe.Process(ctx, cmd) // only queues
	}
	_, err := pipe.Exec(ctx)
	for n, i := range todo {
		replies[i] = replyOf(cmds[n], err)
	}
}

func (c Call) command(ctx context.Context, verb string) (redis.Cmder, *redis.Cmd) {
	args := make([]any, 0, 3+len(c.Keys)+len(c.Args))
	if verb == "eval" {
		args = append(args, verb, c.Script.source, len(c.Keys))
	} else {
		args = append(args, verb, c.Script.sha, len(c.Keys))
	}
	for i := range c.Keys {
		args = append(args, &c.Keys[i]) // a string would be put on the heap, each of some thirty
	}
	cmd := redis.NewCmd(ctx, append(args, c.Args...)...)
	if c.Once {
		return onceCmd{cmd}, cmd
	}
	return cmd, cmd
}

// replyOf reads a command that was sent; err is that of the whole send.
func replyOf(cmd *redis.Cmd, err error) Reply {
	v, own := cmd.Result()
	switch {
	case errors.Is(own, redis.Nil):
		return Reply{}
	case own != nil:
		return Reply{Err: own}
	case v == nil && err != nil:
		return Reply{Err: err} // never reached the wire
	}
	return Reply{Value: v}
}

// nodeOf is where a script with these keys runs.
func (db *DB) nodeOf(ctx context.Context, keys []string) redis.Cmdable {
	node, err := db.masterOf(ctx, keys)
	if err != nil {
		return db.client
	}
	return node
}

// masterOf is nodeOf for commands without a key, which must not go anywhere else.
func (db *DB) masterOf(ctx context.Context, keys []string) (redis.Cmdable, error) {
	c, ok := db.client.(*redis.ClusterClient)
	if !ok || len(keys) == 0 {
		return db.client, nil
	}
	return c.MasterForKey(ctx, keys[0])
}

// reload has a cluster client look again where slots live after a node failed
// us: for commands that are not repeated it does not do so by itself.
func (db *DB) reload(err error) {
	if c, ok := db.client.(*redis.ClusterClient); ok && Unavailable(err) {
		c.ReloadState(context.Background())
	}
}
