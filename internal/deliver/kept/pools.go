package kept

import (
	"context"
	"sync"
	"time"
)

// forgetAfter is how long the pool of a target that nobody uses is kept.
const forgetAfter = 10 * time.Minute

// Config says how connections are made and kept.
type Config[T comparable, C Conn] struct {
	// Open gets ready for a target and gives what makes its connections.
	Open func(T) (Maker[C], error)
	// DialTimeout bounds all that comes before a connection can be used.
	DialTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept.
	IdleTimeout time.Duration
}

// Pools has the connections to all targets. It is safe for concurrent use.
type Pools[T comparable, C Conn] struct {
	cfg  Config[T, C]
	base context.Context // of dials, which may outlive their Take
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	pools  map[T]*Pool[T, C]
}

// New makes Pools. Close them.
func New[T comparable, C Conn](cfg Config[T, C]) *Pools[T, C] {
	s := &Pools[T, C]{cfg: cfg, pools: make(map[T]*Pool[T, C])}
	s.base, s.stop = context.WithCancel(context.Background())
	s.wg.Go(s.janitor)
	return s
}

// Close drops all unused connections and waits for dials to end. Those that are
// in use are closed when they are put back.
func (s *Pools[T, C]) Close() {
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

// Go runs f in a goroutine that Close waits for, and says whether it does: not
// after Close. What takes long in there ends with Context.
func (s *Pools[T, C]) Go(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// Context ends with Close.
func (s *Pools[T, C]) Context() context.Context { return s.base }

// Use finds or makes the pool of a target, in which at most so many connections are
// kept; of different users' numbers the largest counts until it was not said for
// IdleTimeout. Nil after Close. The error is Open's. Say Done after it.
func (s *Pools[T, C]) Use(t T, most int) (*Pool[T, C], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil
	}
	p := s.pools[t]
	if p == nil {
		maker, err := s.cfg.Open(t)
		if err != nil {
			return nil, err
		}
		p = &Pool[T, C]{all: s, maker: maker, lastUse: time.Now()}
		s.pools[t] = p
	}
	if now := time.Now(); int64(most) >= p.most.Load() || now.Sub(p.mostSaid) > s.cfg.IdleTimeout {
		p.most.Store(int64(most))
		p.mostSaid = now
	}
	p.users++
	return p, nil
}

// Unused lists the connections that nobody uses now.
func (s *Pools[T, C]) Unused() []C {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []C
	for _, p := range s.pools {
		p.mu.Lock()
		for _, u := range p.unused {
			list = append(list, u.conn)
		}
		p.mu.Unlock()
	}
	return list
}

// janitor drops connections that are dead or unused for too long, and pools
// that nobody uses.
func (s *Pools[T, C]) janitor() {
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

func (s *Pools[T, C]) sweep(now time.Time) {
	s.mu.Lock()
	pools := make([]*Pool[T, C], 0, len(s.pools))
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
