package deliver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tundish/internal/job"
)

// closedPort is an address nobody listens on.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestConnectionsThatFail(t *testing.T) {
	t.Parallel()
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	secure := httptest.NewUnstartedServer(ok)
	secure.Config.ErrorLog = quiet
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(ok)
	t.Cleanup(plain.Close)
	silent := serveRaw(t, func(_ *rawServer, _ int, c net.Conn) { c.Read(make([]byte, 4096)); c.Read(make([]byte, 1)) })
	hangup := serveRaw(t, func(*rawServer, int, net.Conn) {})

	for name, tc := range map[string]struct {
		url    string
		change func(*Config)
		want   job.Outcome
		text   string // within the error
	}{
		"refused":          {"http://" + closedPort(t), nil, job.OutcomeRefused, "connect: connection refused"},
		"no such host":     {"http://nowhere.invalid", nil, job.OutcomeDNS, "lookup nowhere.invalid"},
		"unknown issuer":   {secure.URL, nil, job.OutcomeTLS, "certificate signed by unknown authority"},
		"wrong name":       {strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), trust(secure), job.OutcomeTLS, "not localhost"},
		"not TLS":          {strings.Replace(plain.URL, "http:", "https:", 1), nil, job.OutcomeTLS, "does not speak TLS"},
		"hangs up":         {strings.Replace(hangup.url(), "http:", "https:", 1), nil, job.OutcomeTLS, "TLS handshake: "},
		"silent handshake": {strings.Replace(silent.url(), "http:", "https:", 1), func(c *Config) { c.DialTimeout = 50 * time.Millisecond }, job.OutcomeConnectTimeout, "TLS handshake: not done within 50ms"},
		"blocked":          {plain.URL, func(c *Config) { c.AllowPrivate = nil }, job.OutcomeBlocked, "connect: the address is not public"},
		"blocked by name":  {strings.Replace(plain.URL, "127.0.0.1", "localhost", 1), func(c *Config) { c.AllowPrivate = nil }, job.OutcomeBlocked, "not public"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.change == nil {
				tc.change = func(*Config) {}
			}
			a := attemptTo(tc.url + "/hook")
			a.Job.Request.Path = "?token=s3cret"
			a.Job.Request.Headers = []job.Header{{Name: "Authorization", Value: "Bearer s3cret"}}
			a.Gate = func() error { t.Error("the gate was asked"); return nil }
			r := newSender(t, tc.change).Send(background, a)
			wantOutcome(t, r, tc.want, false)
			if !strings.Contains(r.Error, tc.text) || strings.Contains(r.Error, "s3cret") || strings.Contains(r.Error, "token") {
				t.Errorf("error %q, want %q in it", r.Error, tc.text)
			}
			if tc.want.Class() != job.Retry {
				t.Errorf("class %s", tc.want.Class())
			}
		})
	}
}

func TestContextEndsBeforeAConnection(t *testing.T) {
	t.Parallel()
	// The handshake is never answered.
	srv := serveRaw(t, func(_ *rawServer, _ int, c net.Conn) { c.Read(make([]byte, 4096)); c.Read(make([]byte, 1)) })
	url := strings.Replace(srv.url(), "http:", "https:", 1)
	s := newSender(t)

	ended, cancel := context.WithCancelCause(background)
	cancel(ErrStopped)
	r := s.Send(ended, attemptTo(url))
	wantOutcome(t, r, job.OutcomeNotSent, false)
	if r.Error != ErrStopped.Error() {
		t.Errorf("error %q", r.Error)
	}

	ctx, cancel := context.WithCancelCause(background)
	time.AfterFunc(20*time.Millisecond, func() { cancel(errors.New("the lane was paused")) })
	wantOutcome(t, s.Send(ctx, attemptTo(url)), job.OutcomeNotSent, false)
}

func TestSendAfterClose(t *testing.T) {
	t.Parallel()
	srv := serveRaw(t, answering(okAnswer))
	s := New(Config{AllowPrivate: loopback})
	wantOutcome(t, s.Send(background, attemptTo(srv.url())), job.OutcomeDelivered, true)
	s.Close()
	s.Close()
	wantOutcome(t, s.Send(background, attemptTo(srv.url())), job.OutcomeNotSent, false)
	if conns, requests := srv.counts(); conns != 1 || requests != 1 {
		t.Errorf("%d connections, %d requests", conns, requests)
	}
}

func TestIdleConnectionsAreDropped(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	srv := serveRaw(t, func(s *rawServer, n int, c net.Conn) {
		answering(okAnswer)(s, n, c)
		close(gone)
	})
	s := newSender(t, func(c *Config) { c.IdleTimeout = 20 * time.Millisecond })
	wantOutcome(t, s.Send(background, attemptTo(srv.url())), job.OutcomeDelivered, true)
	<-gone
	waitFor(t, "the pool to be empty", func() bool { return len(s.pools.Unused()) == 0 })
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const senders = 8
	all := make(chan struct{})
	arrived := make(chan struct{}, senders)
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-all
	}))
	t.Cleanup(srv.Close)
	s := newSender(t, func(c *Config) { c.MaxIdlePerTarget = 2 })
	done := make(chan Result)
	for range senders {
		go func() { done <- s.Send(background, attemptTo(srv.URL)) }()
	}
	for range senders {
		<-arrived
	}
	close(all)
	for range senders {
		wantOutcome(t, <-done, job.OutcomeDelivered, true)
	}
	if n := len(s.pools.Unused()); n != 2 {
		t.Errorf("%d idle connections, want 2", n)
	}
}

func TestMayDial(t *testing.T) {
	t.Parallel()
	for _, a := range []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.8", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001::1",
		"::ffff:169.254.169.254", "::ffff:0:169.254.169.254", "::169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b:1:fffe::a9fe:a9fe",
		"2002:a9fe:a9fe::1", "100.100.100.200", "192.0.0.192", "168.63.129.16", "::ffff:168.63.129.16", "fd20:ce::254", "fd00:42::42",
		"fd00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "2001:db8::1",
	} {
		if mayDial(netip.MustParseAddr(a), nil) {
			t.Errorf("%s may be dialled", a)
		}
	}
	for _, a := range []string{"8.8.8.8", "172.32.0.1", "100.128.0.1", "::ffff:8.8.8.8", "2606:4700::1111", "2a00:1450::1"} {
		if !mayDial(netip.MustParseAddr(a), nil) {
			t.Errorf("%s may not be dialled", a)
		}
	}
	if mayDial(netip.Addr{}, nil) {
		t.Error("no address may be dialled")
	}
	allow := []netip.Prefix{netip.MustParsePrefix("10.1.2.3/32"), netip.MustParsePrefix("fe80::/10")}
	for a, want := range map[string]bool{"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.1.2.4": false, "127.0.0.1": false, "fe80::1%eth0": true} {
		if mayDial(netip.MustParseAddr(a), allow) != want {
			t.Errorf("%s with an allow-list: want %v", a, want)
		}
	}
}
