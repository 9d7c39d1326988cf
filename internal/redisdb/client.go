package redisdb

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Reads are repeated twice after a failure; scripts sent with RunOnce never.
const (
	maxRetries      = 2
	minRetryBackoff = 10 * time.Millisecond
	maxRetryBackoff = 250 * time.Millisecond
)

// silent drops what go-redis logs by itself: the same comes back as the error
// of a call, and is told there once.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// The logger of go-redis is one for the process and may only be set before the
// first client.
func init() { redis.SetLogger(silent{}) }

func newClient(cfg Config, t target) redis.UniversalClient {
	switch t.mode {
	case Cluster:
		return redis.NewClusterClient(clusterOptions(cfg, t))
	case Sentinel:
		return redis.NewFailoverClient(failoverOptions(cfg, t))
	}
	return redis.NewClient(singleOptions(cfg, t))
}

func singleOptions(cfg Config, t target) *redis.Options {
	network := "tcp"
	if t.unix {
		network = "unix"
	}
	return &redis.Options{
		Network: network, Addr: t.addrs[0], Username: t.username, Password: t.password, DB: t.db,
		Dialer: cfg.dial, DialTimeout: cfg.DialTimeout, DialerRetries: 1,
		ReadTimeout: cfg.CallTimeout, WriteTimeout: cfg.CallTimeout, PoolTimeout: cfg.CallTimeout,
		ContextTimeoutEnabled: true, PoolSize: cfg.PoolSize,
		MaxRetries: maxRetries, MinRetryBackoff: minRetryBackoff, MaxRetryBackoff: maxRetryBackoff,
		TLSConfig: tlsConfig(cfg, t), DisableIdentity: true, MaintNotificationsConfig: noNotifications(),
	}
}

func clusterOptions(cfg Config, t target) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs: t.addrs, Username: t.username, Password: t.password,
		Dialer: cfg.dial, DialTimeout: cfg.DialTimeout, DialerRetries: 1,
		ReadTimeout: cfg.CallTimeout, WriteTimeout: cfg.CallTimeout, PoolTimeout: cfg.CallTimeout,
		ContextTimeoutEnabled: true, PoolSize: cfg.PoolSize,
		MinRetryBackoff: minRetryBackoff, MaxRetryBackoff: maxRetryBackoff,
		TLSConfig: tlsConfig(cfg, t), DisableIdentity: true, MaintNotificationsConfig: noNotifications(),
	}
}

func failoverOptions(cfg Config, t target) *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName: t.master, SentinelAddrs: t.addrs,
		SentinelUsername: t.sentinelUsername, SentinelPassword: t.sentinelPassword,
		Username: t.username, Password: t.password, DB: t.db,
		Dialer: cfg.dial, DialTimeout: cfg.DialTimeout, DialerRetries: 1,
		ReadTimeout: cfg.CallTimeout, WriteTimeout: cfg.CallTimeout, PoolTimeout: cfg.CallTimeout,
		ContextTimeoutEnabled: true, PoolSize: cfg.PoolSize,
		MaxRetries: maxRetries, MinRetryBackoff: minRetryBackoff, MaxRetryBackoff: maxRetryBackoff,
		TLSConfig: tlsConfig(cfg, t), DisableIdentity: true,
	}
}

func tlsConfig(cfg Config, t target) *tls.Config {
	if !t.tls {
		return nil
	}
	if cfg.TLS != nil {
		return cfg.TLS
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.mode == Single {
		c.ServerName, _, _ = net.SplitHostPort(t.addrs[0]) // with several hosts the dialler takes each one's own
	}
	return c
}

// noNotifications keeps the client from asking servers for something that
// only one vendor's have.
func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
