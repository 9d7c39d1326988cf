package api

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"tundish/internal/job"
)

// An address may try badKeysBurst wrong keys at once and then one each
// badKeysEvery; further ones are told to wait. It keeps a caller that repeats a
// revoked key in a tight loop, or guesses, from the work of the door. A right key
// is never held up: many callers may share an address.
const (
	badKeysBurst = 10
	badKeysEvery = time.Second
	badKeysMax   = 10_000 // addresses that are remembered
)

// badKeys counts wrong keys by the address they came from.
type badKeys struct {
	now func() time.Time

	mu      sync.Mutex
	callers map[netip.Prefix]*rate.Limiter
	swept   time.Time
}

func newBadKeys(now func() time.Time) *badKeys {
	return &badKeys{now: now, callers: map[netip.Prefix]*rate.Limiter{}}
}

// refusal counts a wrong key and says what its caller is told.
func (b *badKeys) refusal(r *http.Request) error {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	at := callerOf(r)
	l := b.callers[at]
	if l == nil {
		b.makeRoom(now)
		l = rate.NewLimiter(rate.Every(badKeysEvery), badKeysBurst)
		b.callers[at] = l
	}
	turn := l.ReserveN(now, 1)
	wait := turn.DelayFrom(now)
	if wait == 0 {
		return job.Errorf(job.CodeUnauthenticated, "the key is not known or has expired")
	}
	turn.CancelAt(now) // a refused try does not make the wait longer
	return &job.Error{Code: job.CodeTooManyBadKeys, RetryAfter: wait,
		Detail: "too many wrong keys came from this address; a right one is taken at once"}
}

// makeRoom forgets callers that have been quiet, at most once a period, or
// else any one.
func (b *badKeys) makeRoom(now time.Time) {
	if len(b.callers) < badKeysMax {
		return
	}
	if now.Sub(b.swept) >= badKeysEvery {
		b.swept = now
		for at, l := range b.callers {
			if l.TokensAt(now) >= badKeysBurst {
				delete(b.callers, at)
			}
		}
	}
	for at := range b.callers {
		if len(b.callers) < badKeysMax {
			return
		}
		delete(b.callers, at)
	}
}

// callerOf is the address that the request came from; of IPv6 the network,
// since one caller has all addresses of it.
func callerOf(r *http.Request) netip.Prefix {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	bits := 32
	addr := from.Addr().Unmap().WithZone("")
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits) // of a valid address
	return network
}
