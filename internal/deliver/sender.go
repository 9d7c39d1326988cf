package deliver

import (
	"context"
	"crypto/x509"
	"errors"
	"net/netip"
	"sync"
	"time"

	"tundish/internal/deliver/kept"
	"tundish/internal/destination"
	"tundish/internal/job"
)

// ErrStopped is the cause to cancel a Send with when the worker stops.
var ErrStopped = errors.New("the worker stops")

const (
	defaultMaxIdle     = 256
	defaultIdleTimeout = 30 * time.Second
	defaultDialTimeout = 10 * time.Second
	defaultTimeout     = 10 * time.Second
	defaultUserAgent   = "tundish"

	// connections is how many a Send may find dead before its slot is over.
	connections = 3
)

// Config holds what all attempts of a worker share.
type Config struct {
	// AllowPrivate lists address ranges that may be dialled although they are
	// not public. Default: none.
	AllowPrivate []netip.Prefix
	// MaxIdlePerTarget is how many connections to one scheme, host and port are
	// kept while unused. Below the number of senders, connections are opened
	// and closed all the time. Default: 256.
	MaxIdlePerTarget int
	// IdleTimeout is how long an unused connection is kept. Default: 30 s.
	IdleTimeout time.Duration
	// MaxAge is how long a connection is used. Default: kept.DefaultMaxAge.
	MaxAge time.Duration
	// DialTimeout bounds name lookup, connect and TLS handshake together. Default: 10 s.
	DialTimeout time.Duration
	// UserAgent is sent unless contract or job name one. Default: "tundish".
	UserAgent string
	// RootCAs are trusted for TLS. Default: the system's.
	RootCAs *x509.CertPool
	// Secrets resolves the references of contracts. Default: none is resolved.
	Secrets Secrets
	// Tokens shares access tokens among workers. Default: each has its own, for
	// in the clear they must not be where others could read them.
	Tokens Tokens
}

// Attempt is one request to make.
type Attempt struct {
	Lane     string // destination name
	Contract *destination.Contract
	Job      *job.Job
	Number   int    // 1, 2, …
	Key      string // idempotency key as the destination gets it; empty: the job's id
	// Traceparent is sent as it is; empty or unusable: a fresh one.
	Traceparent string
	// Timeout is counted from the first byte written; zero: the contract's.
	Timeout time.Duration
	// At is the moment of the slot, with Go's monotonic reading; zero: now. The
	// connection is made ready before it, nothing is written before it.
	At time.Time
	// Gate is the last check, called inside the Write that carries the first
	// bytes. With an error nothing is written. When the connection is at hand
	// only after At, Gate is asked once more before, to spare the connection:
	// only a call that a write follows counts. Nil: always open.
	Gate func() error
	// Writing is called once, when Gate has opened and the write follows. Nil: not called.
	Writing func()
}

// Result says how an attempt ended.
type Result struct {
	Outcome    job.Outcome
	HTTPStatus int           // 0: no answer
	RetryAfter time.Duration // 0: none; at most 24 h
	Exhausted  time.Duration // for how long nothing is left of the destination's quota, as it says; at most 24 h
	Wrote      bool          // the first byte left, or may have left
	// StartedAt is when the first byte was written, with the monotonic reading,
	// so that StartedAt.Sub(At) is the lateness; zero when none was.
	StartedAt time.Time
	Duration  time.Duration // from StartedAt until the outcome was known
	Error     string        // short, for people; no secret, no URL query
	Response  *job.Response // nil: answers are not kept
	// Fault says why nothing can be sent under the contract here; see Check.
	// Nothing was written, and the job is not to blame.
	Fault error
}

// Sender makes attempts. It is safe for concurrent use.
type Sender struct {
	cfg   Config
	pools *kept.Pools[target, *conn]

	mu     sync.Mutex
	tokens map[string]*tokenOf // by destination
}

// New makes a Sender. Close it.
func New(cfg Config) *Sender {
	setDefault(&cfg.MaxIdlePerTarget, defaultMaxIdle)
	setDefault(&cfg.IdleTimeout, defaultIdleTimeout)
	setDefault(&cfg.MaxAge, kept.DefaultMaxAge)
	setDefault(&cfg.DialTimeout, defaultDialTimeout)
	setDefault(&cfg.UserAgent, defaultUserAgent)
	setDefault(&cfg.Secrets, Secrets(NoSecrets{}))
	s := &Sender{cfg: cfg, tokens: make(map[string]*tokenOf)}
	s.pools = kept.New(kept.Config[target, *conn]{Open: s.open, DialTimeout: cfg.DialTimeout, IdleTimeout: cfg.IdleTimeout})
	return s
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Close drops all unused connections and waits for dials to end. A Send under
// way is not cut: cancel its context first. A Send after Close sends nothing.
func (s *Sender) Close() { s.pools.Close() }

// Send makes one attempt and never more than one write of it. It ends at the
// latest when ctx does.
func (s *Sender) Send(ctx context.Context, a Attempt) (res Result) {
	var g *pass
	defer func() {
		if recover() != nil {
			res = panicked(g)
		}
	}()
	if a.Contract == nil || a.Job == nil {
		return Result{Outcome: job.OutcomeBadRequest, Error: "attempt without contract or job"}
	}
	e, err := s.equip(a.Contract)
	if err != nil {
		return faulty(err)
	}
	tok, err := s.authorize(ctx, a.Contract.Name, e)
	if err != nil {
		return tokenResult(ctx, err)
	}
	defer func() { tok.answered(&res) }()
	out, err := build(&a, e, s.cfg.UserAgent)
	if err != nil {
		return Result{Outcome: job.OutcomeBadRequest, Error: short(err.Error())}
	}
	defer func() { out.answered(&res) }()
	p, err := s.pools.Use(out.target, s.cfg.MaxIdlePerTarget)
	if err != nil {
		return faulty(err)
	}
	if p == nil {
		return Result{Outcome: job.OutcomeNotSent, Error: "the sender is closed"}
	}
	defer p.Done()

	for try := 1; ; try++ {
		c, err := p.Take(ctx, a.At)
		if err != nil {
			return connectResult(ctx, err)
		}
		g = &pass{at: a.At, gate: a.Gate, writing: a.Writing, timeout: timeoutOf(&a)}
		res, stale := exchange(ctx, p, c, out, g)
		if !stale || try == connections {
			return res
		}
	}
}

// faulty is the result when nothing can be sent under a contract here.
func faulty(err error) Result {
	return Result{Outcome: job.OutcomeNotSent, Error: short(err.Error()), Fault: err}
}

// panicked is the result of a Send that panicked: the job must not come back
// for ever, nor be sent again if it may have left.
func panicked(g *pass) Result {
	r := Result{Outcome: job.OutcomeBadRequest, Error: "internal error while sending"}
	if g == nil {
		return r
	}
	if at, wrote := g.written(); wrote {
		r.Outcome, r.Wrote, r.StartedAt = job.OutcomeReset, true, at
	}
	return r
}

func timeoutOf(a *Attempt) time.Duration {
	if a.Timeout > 0 {
		return a.Timeout
	}
	if t := a.Contract.Timeout(); t > 0 {
		return t
	}
	return defaultTimeout
}
