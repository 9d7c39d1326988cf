package mail

import (
	"cmp"
	"context"
	"crypto/x509"
	"net/netip"
	"os"
	"sync"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/job"
)

const (
	defaultMaxIdle     = 256
	defaultIdleTimeout = 30 * time.Second
	defaultDialTimeout = 30 * time.Second

	// forgetAfter is how long the pool of a target nobody sends to is kept.
	forgetAfter = 10 * time.Minute
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
	cfg  Config
	base context.Context // of dials, which may outlive their Send
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	pools  map[target]*pool
}

// New makes a Sender. Close it.
func New(cfg Config) *Sender {
	cfg.fill()
	s := &Sender{cfg: cfg, pools: make(map[target]*pool)}
	s.base, s.stop = context.WithCancel(context.Background())
	s.wg.Go(s.janitor)
	return s
}

// Close drops all unused connections and waits for dials to end. A Send under
// way is not cut: cancel its context first. A Send after Close sends nothing.
func (s *Sender) Close() {
	s.mu.Lock()
	s.closed = true
	pools := s.pools
	s.pools = nil
	s.mu.Unlock()
	s.stop()
	for _, p := range pools {
		p.close()
	}
	s.wg.Wait()
}

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
	p := s.borrow(to, a.Contract.MaxInFlight)
	if p == nil {
		return deliver.Result{Outcome: job.OutcomeNotSent, Error: "the sender is closed"}
	}
	defer s.giveBack(p)

	for try := 1; ; try++ {
		c, err := p.acquire(ctx, a.At)
		if err != nil {
			return connectResult(ctx, err)
		}
		t = transaction{conn: c, letter: l}
		res, stale := t.run(ctx, &a)
		if t.usable {
			p.put(c)
		} else {
			c.close()
		}
		if !stale || try == connections {
			return res
		}
	}
}

// borrow finds or makes the pool of a target, of which at most so many are in
// flight; nil when the sender is closed.
func (s *Sender) borrow(t target, most int) *pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	p := s.pools[t]
	if p == nil {
		p = &pool{s: s, target: t}
		s.pools[t] = p
	}
	p.most.Store(int64(most))
	p.users++
	return p
}

func (s *Sender) giveBack(p *pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.users--
	p.lastUse = time.Now()
}

// spawn runs f in a goroutine that Close waits for.
func (s *Sender) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// janitor drops connections that are dead or unused for too long, and pools
// that nobody uses.
func (s *Sender) janitor() {
	tick := time.NewTicker(max(s.cfg.IdleTimeout/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-s.base.Done():
			return
		case now := <-tick.C:
			s.sweep(now)
		}
	}
}

func (s *Sender) sweep(now time.Time) {
	s.mu.Lock()
	pools := make([]*pool, 0, len(s.pools))
	for t, p := range s.pools {
		pools = append(pools, p)
		if p.users == 0 && now.Sub(p.lastUse) > forgetAfter {
			delete(s.pools, t)
			p.close()
		}
	}
	s.mu.Unlock()
	for _, p := range pools {
		p.prune(now)
	}
}
