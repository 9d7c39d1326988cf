package mail

import (
	"cmp"
	"context"
	"crypto/x509"
	"net/netip"
	"os"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/deliver/kept"
	"tundish/internal/job"
)

const (
	defaultMaxIdle     = 256
	defaultIdleTimeout = 30 * time.Second
	defaultDialTimeout = 30 * time.Second

	// connections is how many a Send may find dead before its slot is over.
	connections = 3
)

// Config holds what all attempts of a worker share.
type Config struct {
	// AllowPrivate lists address ranges that may be dialled although they are
	// not public. Default: none.
	AllowPrivate []netip.Prefix
	// Secrets resolves the references in username and password, for each mail.
	// Default: none is resolved.
	Secrets deliver.Secrets
	// MaxIdlePerTarget is how many connections to one server, with one log-in,
	// are kept while unused. Default: 256.
	MaxIdlePerTarget int
	// IdleTimeout is how long an unused connection is kept. Default: 30 s.
	IdleTimeout time.Duration
	// MaxAge is how long a connection is used. Default: kept.DefaultMaxAge.
	MaxAge time.Duration
	// DialTimeout bounds all that comes before the first mail of a connection
	// together: lookup, connect, TLS, greeting and log-in. Default: 30 s.
	DialTimeout time.Duration
	// Hello is how EHLO names this machine. Default: its host name.
	Hello string
	// RootCAs are trusted for TLS. Default: the system's.
	RootCAs *x509.CertPool
}

func (c *Config) fill() {
	c.MaxIdlePerTarget = cmp.Or(c.MaxIdlePerTarget, defaultMaxIdle)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, defaultIdleTimeout)
	c.MaxAge = cmp.Or(c.MaxAge, kept.DefaultMaxAge)
	c.DialTimeout = cmp.Or(c.DialTimeout, defaultDialTimeout)
	if c.Secrets == nil {
		c.Secrets = deliver.NoSecrets{}
	}
	if c.Hello == "" {
		c.Hello, _ = os.Hostname() // fails: localhost
	}
	if !job.ValidHost(c.Hello) {
		c.Hello = "localhost"
	}
}

// Sender makes attempts. It is safe for concurrent use.
type Sender struct {
	cfg   Config
	pools *kept.Pools[target, *conn]
}

// New makes a Sender. Close it.
func New(cfg Config) *Sender {
	cfg.fill()
	s := &Sender{cfg: cfg}
	s.pools = kept.New(kept.Config[target, *conn]{Open: s.connector, DialTimeout: cfg.DialTimeout, IdleTimeout: cfg.IdleTimeout})
	return s
}

// Close drops all unused connections and waits for dials to end. A Send under
// way is not cut: cancel its context first. A Send after Close sends nothing.
func (s *Sender) Close() { s.pools.Close() }

// Send makes one attempt: it hands over one mail, at most once. It ends at the
// latest when ctx does.
func (s *Sender) Send(ctx context.Context, a deliver.Attempt) (res deliver.Result) {
	var t transaction
	defer func() {
		if recover() != nil {
			res = t.panicked()
		}
	}()
	l, err := compose(&a)
	if err != nil {
		return deliver.Result{Outcome: job.OutcomeBadRequest, Error: deliver.ShortText(err.Error(), maxReplyText)}
	}
	to, err := s.targetOf(a.Contract)
	if err != nil {
		return connectResult(ctx, err)
	}
	p, err := s.pools.Use(to, min(s.cfg.MaxIdlePerTarget, a.Contract.MaxInFlight))
	if p == nil || err != nil {
		return deliver.Result{Outcome: job.OutcomeNotSent, Error: "the sender is closed"}
	}
	defer p.Done()

	for try := 1; ; try++ {
		c, err := p.Take(ctx, a.At)
		if err != nil {
			return connectResult(ctx, err)
		}
		t = transaction{conn: c, letter: l}
		res, stale := t.run(ctx, &a)
		if t.usable {
			p.Put(c)
		} else {
			c.Close()
		}
		if !stale || try == connections {
			return res
		}
	}
}
