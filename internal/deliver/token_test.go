package deliver

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// issuer is a server of tokens: t1, t2, …
type issuer struct {
	*httptest.Server
	mu     sync.Mutex
	made   int
	asked  []string // authorization and form of each request
	life   int      // expires_in; 0: not told
	answer string   // instead of a token, with status
	status int
	wait   chan struct{} // nil: answers at once
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{life: 3600}
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	wait := i.wait
	i.mu.Unlock()
	if wait != nil {
		<-wait
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	i.asked = append(i.asked, fmt.Sprint(r.Method, " ", id, ":", secret, " ", r.FormValue("grant_type"), " ", r.FormValue("scope")))
	w.Header().Set("Content-Type", "application/json")
	if i.status != 0 {
		w.WriteHeader(i.status)
		fmt.Fprint(w, i.answer)
		return
	}
	i.made++
	fmt.Fprintf(w, `{"access_token":"t%d","token_type":"Bearer","expires_in":%d}`, i.made, i.life)
}

func (i *issuer) count() int { i.mu.Lock(); defer i.mu.Unlock(); return len(i.asked) }

// taker is a destination that takes some tokens and answers 401 to the others.
type taker struct {
	*httptest.Server
	mu    sync.Mutex
	takes map[string]bool
	came  []string
}

func newTaker(t *testing.T, tokens ...string) *taker {
	d := &taker{takes: map[string]bool{}}
	d.take(tokens...)
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		tok := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		d.came = append(d.came, tok)
		if !d.takes[tok] {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(d.Close)
	return d
}

func (d *taker) take(tokens ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.takes)
	for _, tok := range tokens {
		d.takes[tok] = true
	}
}

func withOAuth2(url, tokenURL string) Attempt {
	a := attemptTo(url)
	a.Contract.Target.Auth.OAuth2 = &destination.OAuth2{TokenURL: tokenURL, ClientID: "tundish", ClientSecret: "${env:a}", Scopes: []string{"pay", "read"}}
	return a
}

// errand is a sender that gets tokens of an issuer for a destination.
type errand struct {
	t *testing.T
	i *issuer
	d *taker
	s *Sender
}

func newErrand(t *testing.T, secrets held, takes ...string) *errand {
	t.Helper()
	return &errand{t, newIssuer(t), newTaker(t, takes...), newSender(t, with(secrets))}
}

// send makes an attempt that must end so.
func (e *errand) send(ctx context.Context, want job.Outcome, wrote bool) {
	e.t.Helper()
	wantOutcome(e.t, e.s.Send(ctx, withOAuth2(e.d.URL, e.i.URL)), want, wrote)
}

func TestTokenIsFetchedOnceAndUsed(t *testing.T) {
	t.Parallel()
	i, d := newIssuer(t), newTaker(t, "t1")
	i.wait = make(chan struct{})
	s := newSender(t, with(held{"a": "s3 cr:t"}))
	done := make(chan Result)
	const senders = 8
	for range senders {
		go func() {
			a := withOAuth2(d.URL, i.URL)
			a.Job.Request.Headers = []job.Header{{Name: "Authorization", Value: "Bearer mine"}}
			done <- s.Send(background, a)
		}()
	}
	close(i.wait)
	for range senders {
		wantOutcome(t, <-done, job.OutcomeDelivered, true)
	}
	if want := "POST tundish:s3+cr%3At client_credentials pay read"; i.count() != 1 || i.asked[0] != want {
		t.Errorf("asked %q, want one %q", i.asked, want)
	}
}

// A refused token is fetched again, once: the job comes back for it. When the
// next one is refused as well, the answer stands.
func TestRefusedTokenIsFetchedAgainOnce(t *testing.T) {
	t.Parallel()
	e := newErrand(t, held{"a": "x"})
	e.send(background, job.OutcomeAuth, true)
	for range 3 {
		e.send(background, job.OutcomeRejected, true)
	}
	if e.i.count() != 2 {
		t.Errorf("%d tokens fetched, want 2 (%v)", e.i.count(), e.d.came)
	}
	if c := job.OutcomeAuth.Class(); c != job.Retry {
		t.Errorf("class %s", c)
	}
}

// A destination that takes some requests and refuses others with 401 does not
// make us ask for a token with each of them. Those refused come back.
func TestRefusalsOfSomeRequestsFetchNoMoreTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	d := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/poison" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(d.Close)
	s := newSender(t, with(held{"a": "x"}))
	for range 10 {
		wantOutcome(t, s.Send(background, withOAuth2(d.URL, i.URL)), job.OutcomeDelivered, true)
		wantOutcome(t, s.Send(background, withOAuth2(d.URL+"/poison", i.URL)), job.OutcomeAuth, true)
	}
	if i.count() != 2 {
		t.Errorf("%d tokens fetched, want 2", i.count())
	}
	tok := s.tokenFor("bank").token // a minute later
	tok.got = tok.got.Add(-dropAgain)
	wantOutcome(t, s.Send(background, withOAuth2(d.URL+"/poison", i.URL)), job.OutcomeAuth, true)
	wantOutcome(t, s.Send(background, withOAuth2(d.URL, i.URL)), job.OutcomeDelivered, true)
	if i.count() != 3 {
		t.Errorf("%d tokens fetched after a minute, want 3", i.count())
	}
}

// What was refused long ago says nothing of the token that a renewal brings.
func TestRenewedTokenMayBeRefusedOnceToo(t *testing.T) {
	t.Parallel()
	e := newErrand(t, held{"a": "x"}, "t2")
	e.send(background, job.OutcomeAuth, true)
	e.send(background, job.OutcomeDelivered, true)
	place := e.s.tokenFor("bank")
	place.mu.Lock()
	place.token.renewed, place.ended = time.Now(), time.Time{}
	place.mu.Unlock()
	e.send(background, job.OutcomeDelivered, true)
	waitFor(t, "the renewal", func() bool {
		place.mu.Lock()
		defer place.mu.Unlock()
		return place.token.value == "t3"
	})
	e.d.take("t4")
	e.send(background, job.OutcomeAuth, true)
	e.send(background, job.OutcomeDelivered, true)
}

// A token that has ended when it comes is not asked for again and again.
func TestTokenThatEndsAtOnceIsNotFetchedWithoutPause(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`{"access_token":"t1","expires_in":0.000001}`, `{"access_token":"t1","expires_in":1e-300}`} {
		e := newErrand(t, held{"a": "x"}, "t1")
		e.i.status, e.i.answer = 200, answer
		ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
		for range 5 {
			e.send(ctx, job.OutcomeDelivered, true)
		}
		cancel()
		if n := e.i.count(); n > 1 {
			t.Errorf("%s: asked %d times", answer, n)
		}
	}
}

func TestTokenIsRenewedBesideItsUse(t *testing.T) {
	t.Parallel()
	e := newErrand(t, held{"a": "x"}, "t1", "t2", "t3", "t4", "t5", "t6")
	e.i.life = 1
	e.send(background, job.OutcomeDelivered, true)
	waitFor(t, "a token to be renewed and used", func() bool {
		e.send(background, job.OutcomeDelivered, true)
		e.d.mu.Lock()
		defer e.d.mu.Unlock()
		return e.d.came[len(e.d.came)-1] != "t1"
	})
	place := e.s.tokenFor("bank")
	place.mu.Lock()
	defer place.mu.Unlock()
	if tok := place.token; tok.renewed.Sub(tok.got) != 800*time.Millisecond || tok.until.Sub(tok.got) != time.Second {
		t.Errorf("renewed after %v of %v", tok.renewed.Sub(tok.got), tok.until.Sub(tok.got))
	}
}

// Other credentials are another token.
func TestChangedSecretFetchesAnother(t *testing.T) {
	t.Parallel()
	secrets := held{"a": "old"}
	e := newErrand(t, secrets, "t1", "t2")
	e.send(background, job.OutcomeDelivered, true)
	secrets["a"] = "new"
	e.send(background, job.OutcomeDelivered, true)
	if e.i.count() != 2 || !strings.Contains(e.i.asked[1], "tundish:new") {
		t.Errorf("asked %q", e.i.asked)
	}
}

func TestTokensThatCannotBeHad(t *testing.T) {
	t.Parallel()
	d := newTaker(t)
	hangup := serveRaw(t, answering("HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1/s3cret\r\nContent-Length: 0\r\n\r\n"))
	for name, tc := range map[string]struct {
		url    string
		status int
		answer string
		allow  bool
		want   string
	}{
		"refused":        {"", 401, `{"error":"invalid_client","error_description":"s3cret"}`, true, "token: HTTP 401 Unauthorized, invalid_client"},
		"own words":      {"", 400, `{"error":"s3cret"}`, true, "token: HTTP 400 Bad Request"},
		"no JSON":        {"", 503, `s3cret`, true, "token: HTTP 503 Service Unavailable"},
		"empty":          {"", 200, `{"token":"s3cret"}`, true, "token: the answer holds no access_token"},
		"control":        {"", 200, `{"access_token":"a\r\nb"}`, true, "token: the answer holds no access_token"},
		"other type":     {"", 200, `{"access_token":"s3cret","token_type":"mac"}`, true, "token: its token_type is not bearer"},
		"redirect":       {hangup.url(), 0, "", true, "token: HTTP 301 Moved Permanently"},
		"nobody listens": {"http://" + closedPort(t), 0, "", true, "token: connection refused"},
		"not public":     {"", 200, `{}`, false, "token: the address is not public"},
		"metadata":       {"http://169.254.169.254/latest/api/token", 0, "", true, "token: the address is not public"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t)
			i.status, i.answer = tc.status, tc.answer
			a := withOAuth2(d.URL, i.URL)
			if tc.url != "" {
				a.Contract.Target.Auth.OAuth2.TokenURL = tc.url
			}
			a.Gate = func() error { t.Error("the gate was asked"); return nil }
			s := newSender(t, with(held{"a": "s3cret"}), func(c *Config) {
				if !tc.allow {
					c.AllowPrivate = nil
				}
			})
			for range 5 { // a failure is for all who ask at that moment
				r := s.Send(background, a)
				wantOutcome(t, r, job.OutcomeAuth, false)
				if r.Error != tc.want || r.Fault != nil {
					t.Errorf("error %q, want %q, fault %v", r.Error, tc.want, r.Fault)
				}
			}
			if n := i.count(); n > 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// Some servers write the life of a token in quotes.
func TestLifeOfTokens(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		``: tokenLife, `,"expires_in":null`: tokenLife, `,"expires_in":60`: time.Minute, `,"expires_in":"60"`: time.Minute, `,"expires_in":1.5`: 1500 * time.Millisecond,
		`,"expires_in":0`: tokenLife, `,"expires_in":-1`: tokenLife, `,"expires_in":1e300`: tokenLife, `,"expires_in":1e999`: tokenLife, `,"expires_in":"soon"`: 0, `,"expires_in":[]`: 0,
	} {
		got := time.Now()
		tok, err := readToken(200, []byte(`{"access_token":"t"`+text+`}`), got)
		if want == 0 {
			if err == nil {
				t.Errorf("%s gives a token until %v", text, tok.until)
			}
		} else if err != nil || tok.until.Sub(got) != want {
			t.Errorf("%s: %+v, %v, want %v", text, tok, err, want)
		}
	}
}

// What is wrong with the certificates of a token's server is told, as for destinations.
func TestTokenServerIsNotTrusted(t *testing.T) {
	t.Parallel()
	d := newTaker(t)
	i := httptest.NewUnstartedServer(http.NotFoundHandler())
	i.Config.ErrorLog = quiet
	i.StartTLS()
	t.Cleanup(i.Close)
	r := newSender(t, with(held{"a": "x"})).Send(background, withOAuth2(d.URL, i.URL))
	wantOutcome(t, r, job.OutcomeAuth, false)
	if !strings.HasPrefix(r.Error, "token: TLS handshake: x509: ") {
		t.Errorf("error %q", r.Error)
	}
}

func TestTokenThatIsSlow(t *testing.T) {
	t.Parallel()
	e := newErrand(t, held{"a": "x"}, "t1")
	e.i.wait = make(chan struct{})
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	e.send(ctx, job.OutcomeAuth, false)
	stopped, stop := context.WithCancelCause(background)
	stop(ErrStopped)
	e.send(stopped, job.OutcomeNotSent, false)
	close(e.i.wait)
	e.send(background, job.OutcomeDelivered, true)
	if e.i.count() != 1 {
		t.Errorf("asked %d times", e.i.count())
	}
}

// shelf is a Tokens in memory.
type shelf struct {
	mu     sync.Mutex
	value  string
	locked bool
	err    error
}

func (s *shelf) Load(context.Context, string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, s.err
}

func (s *shelf) Save(_ context.Context, _, value string, _ time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value = value
	return s.err
}

func (s *shelf) Lock(context.Context, string, time.Duration) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := !s.locked && s.err == nil
	s.locked = s.locked || free
	return free, s.err
}

func (s *shelf) Unlock(context.Context, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locked = false
	return nil
}

// One token serves all workers, also when it is refused.
func TestTokenIsSharedByWorkers(t *testing.T) {
	t.Parallel()
	i, d, common := newIssuer(t), newTaker(t, "t1"), &shelf{}
	const workers = 6
	var all []*Sender
	for range workers {
		all = append(all, newSender(t, with(held{"a": "x"}), func(c *Config) { c.Tokens = common }))
	}
	round := func(want job.Outcome) {
		t.Helper()
		done := make(chan Result)
		for _, s := range all {
			go func() { done <- s.Send(background, withOAuth2(d.URL, i.URL)) }()
		}
		for range all {
			wantOutcome(t, <-done, want, true)
		}
	}
	round(job.OutcomeDelivered)
	if i.count() != 1 {
		t.Errorf("%d tokens for %d workers", i.count(), workers)
	}
	d.take("t2")
	round(job.OutcomeAuth)
	round(job.OutcomeDelivered)
	if i.count() != 2 || common.locked {
		t.Errorf("%d tokens after one was refused, locked %v", i.count(), common.locked)
	}
	broken := newSender(t, with(held{"a": "x"}), func(c *Config) { c.Tokens = &shelf{err: context.DeadlineExceeded} })
	d.take("t3")
	wantOutcome(t, broken.Send(background, withOAuth2(d.URL, i.URL)), job.OutcomeDelivered, true)
}

func TestBasicAuth(t *testing.T) {
	t.Parallel()
	srv := serveRaw(t, answering(okAnswer))
	a := attemptTo(srv.url())
	a.Contract.Target.Auth.Basic = &destination.Basic{Username: "shop", Password: "${env:a}"}
	a.Job.Request.Headers = []job.Header{{Name: "Authorization", Value: "Basic mine"}}
	wantOutcome(t, newSender(t, with(held{"a": "pä:ss"})).Send(background, a), job.OutcomeDelivered, true)
	if got := headerLines(srv.seen(), "Authorization"); len(got) != 1 || got[0] != "Basic c2hvcDpww6Q6c3M=" {
		t.Errorf("Authorization: %q", got)
	}
	a.Contract.Target.Auth.Basic.Username = "${env:a}"
	if r := newSender(t, with(held{"a": "s3:cret"})).Send(background, a); r.Fault == nil || strings.Contains(r.Error, "s3") {
		t.Errorf("a colon in the name gives %+v", r)
	}
}
