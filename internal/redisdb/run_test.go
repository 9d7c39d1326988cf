package redisdb

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tundish/internal/redistest"
)

func TestRun(t *testing.T) {
	t.Parallel()
	echo := NewScript("echo", Prelude(), Part{Name: "body", Source: `return {KEYS[1] == K.conf and 1 or 0, ARGV[1], ARGV[2]}`})
	none := NewScript("none", Part{Name: "body", Source: `return false`})
	broken := NewScript("broken", Prelude(), Part{Name: "body", Source: "local x = nil\nreturn x.y"})
	for name, url := range backends(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, Config{URL: url})
			keys := laneKeys(t, db)
			for _, run := range []func(context.Context, *Script, []string, ...any) (any, error){db.Run, db.RunOnce} {
				v, err := run(t.Context(), echo, keys, "x", 1_780_000_000_000_001)
				if err != nil {
					t.Fatal(err)
				}
				if got := v.([]any); got[0] != int64(1) || got[1] != "x" || got[2] != "1780000000000001" {
					t.Errorf("reply %v", got)
				}
				if v, err := run(t.Context(), none, keys); v != nil || err != nil {
					t.Errorf("nil reply gives %v, %v", v, err)
				}
				_, err = run(t.Context(), broken, keys)
				if err == nil || !strings.Contains(err.Error(), "broken") || Kind(err) != KindScript || Unavailable(err) || Lost(err) {
					t.Errorf("broken script gives %v", err)
				}
			}
		})
	}
}

func TestErrorNamesPartAndLine(t *testing.T) {
	t.Parallel()
	db := open(t, Config{URL: redistest.Shared(t).URL()})
	s := NewScript("turn", Prelude(), Part{Name: "fair.lua", Source: "local a\n\n"}, Part{Name: "settle.lua", Source: "-- one\nlocal x = nil\nreturn x.y"})
	_, err := db.Run(t.Context(), s, laneKeys(t, db))
	if err == nil || !strings.Contains(err.Error(), "settle.lua line 3") {
		t.Fatalf("error is %v", err)
	}
}

// A connection cut after the command was executed: sent once it ran once;
// the same without Once runs again, which shows that the test can fail.
func TestOnceIsNeverRepeated(t *testing.T) {
	t.Parallel()
	clients := []struct{ name, url, target string }{
		{"client", redistest.Shared(t).URL(), redistest.Shared(t).Addr()},
		{"cluster client", redistest.SharedCluster(t).ClusterURL(), redistest.SharedCluster(t).Addr()},
	}
	for _, c := range clients {
		for _, pipelined := range []bool{false, true} {
			for _, once := range []bool{true, false} {
				name := c.name + map[bool]string{true: " pipelined"}[pipelined] + map[bool]string{true: " once"}[once]
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					checkExecutions(t, c.url, c.target, pipelined, once)
				})
			}
		}
	}
}

func checkExecutions(t *testing.T, url, target string, pipelined, once bool) {
	proxy := newCutter(t, target, incr.SHA())
	db := open(t, Config{URL: url, dial: proxy.dial})
	keys := laneKeys(t, db)
	if _, err := db.Run(t.Context(), incr, keys); err != nil { // loads the script
		t.Fatal(err)
	}
	proxy.cuts.Store(1)
	calls := []Call{{Script: incr, Keys: keys, Once: once}}
	if pipelined {
		calls = append(calls, calls[0], calls[0])
	}
	replies := db.Pipeline(t.Context(), calls)
	if proxy.made.Load() != 1 {
		t.Fatalf("%d cuts were made", proxy.made.Load())
	}
	n, err := db.Client().Get(t.Context(), keys.Conf()).Int()
	if err != nil {
		t.Fatal(err)
	}
	ran := n - 1
	if once != (ran == len(calls)) {
		t.Fatalf("%d calls, once=%v, ran %d times", len(calls), once, ran)
	}
	for i, r := range replies {
		if once && (r.Err == nil || !Lost(r.Err) || !Unavailable(r.Err)) {
			t.Errorf("reply %d of a lost call: %v, %v", i, r.Value, r.Err)
		}
		if !once && r.Err != nil {
			t.Errorf("reply %d of a repeated call: %v", i, r.Err)
		}
	}
}

// Others flush the script cache all the time: each call still runs once.
func TestScriptFlushBetweenPipelines(t *testing.T) {
	t.Parallel()
	const rounds, width = 200, 8
	for name, opts := range map[string][]redistest.Option{"client": nil, "cluster client": {redistest.WithCluster()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, opts...)
			url := s.URL()
			if opts != nil {
				url = s.ClusterURL()
			}
			db := open(t, Config{URL: url, CallTimeout: 10 * time.Second})
			flusher := redis.NewClient(&redis.Options{Addr: s.Addr()})
			defer flusher.Close()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			var flushes atomic.Int64
			go func() {
				defer close(done)
				for ctx.Err() == nil {
					if flusher.ScriptFlush(ctx).Err() == nil {
						flushes.Add(1)
					}
				}
			}()
			keys := laneKeys(t, db)
			for range rounds {
				calls := make([]Call, width)
				for i := range calls {
					calls[i] = Call{Script: incr, Keys: keys, Once: true}
				}
				for _, r := range db.Pipeline(t.Context(), calls) {
					if r.Err != nil {
						t.Fatal(r.Err)
					}
				}
			}
			cancel()
			<-done
			if n, err := db.Client().Get(t.Context(), keys.Conf()).Int(); err != nil || n != rounds*width {
				t.Fatalf("%d calls ran %d times (%v), %d flushes", rounds*width, n, err, flushes.Load())
			}
		})
	}
}

// Only what was refused is sent again.
func TestNoScriptRepeatsOnlyTheRefused(t *testing.T) {
	t.Parallel()
	add := NewScript("add", Prelude(), Part{Name: "body", Source: `return redis.call('INCRBY', K.state, ARGV[1])`})
	for name, url := range backends(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, Config{URL: url})
			keys := laneKeys(t, db)
			fresh := NewScript("fresh", Prelude(), Part{Name: "body", Source: "return redis.call('INCRBY', K.conf, ARGV[1]) -- " + db.Keys().Namespace()})
			if _, err := db.Run(t.Context(), add, keys, 1); err != nil {
				t.Fatal(err)
			}
			var calls []Call
			for range 3 {
				calls = append(calls, Call{Script: add, Keys: keys, Args: []any{1}}, Call{Script: fresh, Keys: keys, Args: []any{1}})
			}
			before := db.Calls()
			for i, r := range db.Pipeline(t.Context(), calls) {
				if want := int64(i/2 + 1 + (i+1)%2); r.Err != nil || r.Value != want {
					t.Errorf("reply %d is %v, %v, want %d", i, r.Value, r.Err, want)
				}
			}
			if n := db.Calls() - before; n < 9 || n > 10 {
				t.Errorf("%d commands were sent, want 6, 3 repeated and a load", n)
			}
		})
	}
}

func TestPipelineOfErrors(t *testing.T) {
	t.Parallel()
	wrong := NewScript("wrong", Prelude(), Part{Name: "body", Source: `return redis.call('HGET', K.conf, 'x')`})
	for name, url := range backends(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, Config{URL: url})
			keys := laneKeys(t, db)
			c := Call{Script: incr, Keys: keys, Once: true}
			replies := db.Pipeline(t.Context(), []Call{c, {Script: wrong, Keys: keys, Once: true}, c})
			if replies[0].Value != int64(1) || replies[2].Value != int64(2) {
				t.Errorf("replies beside the error: %v", replies)
			}
			if replies[1].Err == nil || replies[0].Err != nil || replies[2].Err != nil {
				t.Errorf("errors are not by position: %v", replies)
			}
			if got := db.Pipeline(t.Context(), nil); len(got) != 0 {
				t.Errorf("an empty pipeline gives %v", got)
			}
		})
	}
}

func TestOnScript(t *testing.T) {
	t.Parallel()
	type seen struct {
		name string
		err  bool
	}
	var got []seen
	db := open(t, Config{URL: redistest.Shared(t).URL(), OnScript: func(name string, d time.Duration, err error) {
		if d <= 0 {
			t.Errorf("%s took %v", name, d)
		}
		got = append(got, seen{name, err != nil})
	}})
	keys := laneKeys(t, db)
	bad := NewScript("bad", Part{Name: "body", Source: "return redis.call('NOSUCH')"})
	_, _ = db.Run(t.Context(), incr, keys)
	_, _ = db.Run(t.Context(), bad, keys)
	if len(got) != 2 || got[0] != (seen{"incr", false}) || got[1] != (seen{"bad", true}) {
		t.Fatalf("told of %v", got)
	}
}

// A server that stopped in its tracks costs a call its timeout and no more,
// with and without connections at hand, for scripts and plain commands.
func TestStalledServerIsBounded(t *testing.T) {
	t.Parallel()
	const timeout = 400 * time.Millisecond
	s := redistest.Start(t)
	cfg := Config{URL: s.URL(), CallTimeout: timeout}
	db := open(t, cfg)
	keys := laneKeys(t, db)
	if _, err := db.Run(t.Context(), incr, keys); err != nil {
		t.Fatal(err)
	}
	s.Stop(t)
	get := func() error { return db.Client().Get(context.Background(), "x").Err() }
	calls := []struct {
		name string
		call func() error
	}{
		{"get with a connection", get},
		{"get", get},
		{"run", func() error { _, err := db.Run(t.Context(), incr, keys); return err }},
		{"run once", func() error { _, err := db.RunOnce(t.Context(), incr, keys); return err }},
		{"pipeline", func() error {
			c := Call{Script: incr, Keys: keys}
			return db.Pipeline(t.Context(), []Call{c, c})[1].Err
		}},
		{"ping", func() error { return db.Ping(context.Background()) }},
		{"open", func() error { _, err := Open(context.Background(), cfg); return err }},
		{"check", func() error { _, err := db.Check(context.Background()); return err }},
	}
	for _, c := range calls {
		begin := time.Now()
		err := c.call()
		if d := time.Since(begin); d > timeout*3/2 || !Unavailable(err) {
			t.Errorf("%s took %v and gave %v", c.name, d, err)
		}
		if err != nil && Kind(err) != KindTimeout {
			t.Errorf("%s is a %s: %v", c.name, Kind(err), err)
		}
	}
	s.Cont(t)
	if err := db.Client().Ping(t.Context()).Err(); err != nil {
		t.Fatalf("after the stall: %v", err)
	}
}

func TestKilledServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	db := open(t, Config{URL: s.URL()})
	keys := laneKeys(t, db)
	s.Kill(t)
	_, err := db.RunOnce(t.Context(), incr, keys)
	if !Unavailable(err) || Kind(err) != KindNetwork {
		t.Errorf("with a dead server: %v (%s)", err, Kind(err))
	}
	s.Restart(t)
	var v any
	for range 20 { // connections of the pool that died with the server
		if v, err = db.Run(t.Context(), incr, keys); err == nil {
			break
		}
	}
	if v != int64(1) || err != nil {
		t.Fatalf("after the restart: %v, %v", v, err)
	}
}

func TestCancelledCall(t *testing.T) {
	t.Parallel()
	db := open(t, Config{URL: redistest.Shared(t).URL()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := db.Run(ctx, incr, laneKeys(t, db))
	if !errors.Is(err, context.Canceled) || Unavailable(err) || Kind(err) != KindCancelled {
		t.Fatalf("a cancelled call gives %v", err)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	db := open(t, Config{URL: redistest.MiniURL(redistest.Mini(t))})
	if _, err := db.Run(t.Context(), incr, laneKeys(t, db)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Run(t.Context(), incr, laneKeys(t, db)); Kind(err) != KindClosed || Lost(err) {
		t.Fatalf("after Close: %v", err)
	}
}
