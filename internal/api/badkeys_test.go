package api

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tundish/internal/job"
)

// pushFrom pushes with a key from an address.
func pushFrom(a *API, addr, key string) answer {
	r := newRequest("POST", bankJobs, strings.NewReader(`{}`))
	r.RemoteAddr = addr
	if key != "" {
		r.Header.Set("Tundish-Key", key)
	}
	return send(a, r)
}

func TestTooManyBadKeys(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	a := newTestAPI(t, newFakeStore(), testKeys(t), func(c *Config) { c.Now = func() time.Time { return now } })
	const bad, other = "192.0.2.1:4000", "192.0.2.2:4000"
	for range badKeysBurst {
		pushFrom(a, bad, "wrong").problem(t, job.CodeUnauthenticated)
	}
	for range 3 { // and trying on does not make it longer
		if p := pushFrom(a, bad, "wrong").problem(t, job.CodeTooManyBadKeys); p.RetryAfterMS != badKeysEvery.Milliseconds() {
			t.Errorf("told to wait %d ms", p.RetryAfterMS)
		}
	}
	if r := pushFrom(a, "192.0.2.1:4001", "pusher"); r.status != 202 {
		t.Errorf("a right key from the same address: %d %s", r.status, r.body)
	}
	pushFrom(a, bad, "").problem(t, job.CodeUnauthenticated)
	pushFrom(a, other, "wrong").problem(t, job.CodeUnauthenticated)
	now = now.Add(badKeysEvery)
	pushFrom(a, bad, "wrong").problem(t, job.CodeUnauthenticated)
	pushFrom(a, bad, "wrong").problem(t, job.CodeTooManyBadKeys)
}

func TestCallerOf(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"192.0.2.7:80": "192.0.2.7/32", "[::ffff:192.0.2.7]:80": "192.0.2.7/32", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64", "[fe80::1%eth0]:80": "fe80::/64",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = addr
		if got := callerOf(r).String(); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "@" // a unix socket
	if got := callerOf(r); got != (netip.Prefix{}) {
		t.Errorf("%s", got)
	}
}

// However many addresses try, memory is bounded; one that goes on trying is
// not forgotten for those that have been quiet.
func TestBadKeysAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := newBadKeys(func() time.Time { return now })
	try := func(n int) error {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 1).String()
		return b.refusal(r)
	}
	for n := range badKeysMax {
		_ = try(n)
	}
	now = now.Add(badKeysBurst * badKeysEvery)
	for range badKeysBurst + 1 {
		_ = try(7)
	}
	for n := badKeysMax; n < 2*badKeysMax-1; n++ {
		_ = try(n)
	}
	if len(b.callers) != badKeysMax {
		t.Errorf("%d callers are remembered, want %d", len(b.callers), badKeysMax)
	}
	if err := try(7); job.CodeOf(err) != job.CodeTooManyBadKeys {
		t.Errorf("an address that was trying is forgotten: %v", err)
	}
	for n := range badKeysMax {
		_ = try(3*badKeysMax + n)
	}
	if len(b.callers) > badKeysMax {
		t.Errorf("%d callers are remembered, at most %d are allowed", len(b.callers), badKeysMax)
	}
}
