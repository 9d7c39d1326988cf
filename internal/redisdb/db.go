package redisdb

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Config says where Redis is and how long to wait for it.
type Config struct {
	// URL: see the forms in url.go. Required.
	URL string
	// Namespace is in every key, so that several installations share a Redis.
	// Default "default".
	Namespace string
	// DialTimeout bounds the making of a connection. Default 2 s.
	DialTimeout time.Duration
	// CallTimeout bounds each call, retries included. Default 2 s.
	CallTimeout time.Duration
	// PoolSize is the number of connections (per node of a Cluster). Default:
	// 10 per processor, 5 with Cluster.
	PoolSize int
	// TLS replaces the settings that rediss:// makes: other roots, a client certificate.
	TLS *tls.Config
	// Logger gets what happens outside of calls. Default: none.
	Logger *slog.Logger
	// OnScript is told of each execution of a script: its name, the time of
	// the round trip, and the error if there was one.
	OnScript func(name string, d time.Duration, err error)

	dial func(ctx context.Context, network, addr string) (net.Conn, error) // tests only
}

func (c *Config) fill() {
	if c.Namespace == "" {
		c.Namespace = "default"
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = 2 * time.Second
	}
	if c.CallTimeout <= 0 {
		c.CallTimeout = 2 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// DB is a connected Redis, one server, a Cluster or a master behind Sentinels.
// It is safe for concurrent use.
type DB struct {
	cfg    Config
	mode   Mode
	keys   *Keys
	client redis.UniversalClient
	calls  atomic.Uint64
}

// Open reads the configuration and makes sure that Redis answers. When it does
// not, Unavailable(err) is true. Errors never carry the password.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg.fill()
	keys, err := NewKeys(cfg.Namespace)
	if err != nil {
		return nil, err
	}
	t, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	db := &DB{cfg: cfg, mode: t.mode, keys: keys, client: newClient(cfg, t)}
	db.client.AddHook(hook{db})
	if err := db.Ping(ctx); err != nil {
		_ = db.client.Close() // the first error says more
		return nil, err
	}
	return db, nil
}

// Client is the client beneath, for plain commands. Each of its calls is
// bounded by CallTimeout and counted; one that fails for the network is
// repeated, so a script goes through Run or RunOnce.
func (db *DB) Client() redis.UniversalClient { return db.client }

// Keys makes key names.
func (db *DB) Keys() *Keys { return db.keys }

// Mode says what kind of Redis this is.
func (db *DB) Mode() Mode { return db.mode }

// Calls counts the commands sent so far, each script as one.
func (db *DB) Calls() uint64 { return db.calls.Load() }

// Ping asks for an answer: of every master of a Cluster.
func (db *DB) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, db.cfg.CallTimeout)
	defer cancel()
	err := db.eachMaster(ctx, func(ctx context.Context, c redis.UniversalClient) error { return c.Ping(ctx).Err() })
	if err != nil {
		return fmt.Errorf("redis does not answer: %w", err)
	}
	return nil
}

// Close ends all connections.
func (db *DB) Close() error { return db.client.Close() }

// eachMaster calls fn for each server that takes writes, at the same time.
func (db *DB) eachMaster(ctx context.Context, fn func(context.Context, redis.UniversalClient) error) error {
	c, ok := db.client.(*redis.ClusterClient)
	if !ok {
		return fn(ctx, db.client)
	}
	return c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return fn(ctx, node) })
}

// hook bounds and counts what goes through a client. A deadline on the context
// covers waiting for a connection, dialling and all repeats; the timeouts of
// the client cover one read or write each.
type hook struct{ db *DB }

func (h hook) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if d, ok := ctx.Deadline(); ok && time.Until(d) <= h.db.cfg.CallTimeout {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, h.db.cfg.CallTimeout)
}

// count leaves out what a new connection says of itself: it comes through the
// same hook.
func (h hook) count(cmds ...redis.Cmder) {
	for _, c := range cmds {
		switch c.Name() {
		case "hello", "auth", "select", "client":
		default:
			h.db.calls.Add(1)
		}
	}
}

// DialHook changes nothing.
func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook bounds and counts one command.
func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		ctx, cancel := h.bound(ctx)
		defer cancel()
		h.count(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook bounds a pipeline and counts its commands.
func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, cancel := h.bound(ctx)
		defer cancel()
		h.count(cmds...)
		return next(ctx, cmds)
	}
}
