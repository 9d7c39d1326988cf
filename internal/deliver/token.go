package deliver

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

const (
	// tokenTimeout bounds a fetch, and how long a worker may hold the right to it.
	tokenTimeout = 10 * time.Second
	// tokenPause is how long a fetch is not repeated that failed, or brought a
	// token that had ended when it came: what it brought is for all.
	tokenPause = time.Second
	// tokenLife is that of a token of which its server does not tell.
	tokenLife = 5 * time.Minute
	// renewAt is the share of its life at which a token is renewed.
	renewAt = 0.8
	// dropAgain is how old a token must be to be dropped that was fetched after a
	// refusal and refused itself. A destination may answer 401 to some requests for
	// reasons of its own: with each of them a fetch would be too many.
	dropAgain = time.Minute
	// lookForToken is how often a worker looks whether another has fetched a token.
	lookForToken = 200 * time.Millisecond
)

// Tokens shares the tokens of destinations among all workers, so that they are
// fetched once. Values are secrets; who keeps them seals them.
type Tokens interface {
	// Load gives what was saved for a destination; empty: nothing.
	Load(ctx context.Context, destination string) (string, error)
	Save(ctx context.Context, destination, value string, lasts time.Duration) error
	// Lock gives one worker the right to fetch, until Unlock or for a time.
	Lock(ctx context.Context, destination string, lasts time.Duration) (bool, error)
	Unlock(ctx context.Context, destination string) error
}

// token is one access token.
type token struct {
	of         *tokenOf
	value      string
	got, until time.Time
	renewed    time.Time // from when on a new one is fetched beside
	again      bool      // it was fetched because another was refused
}

func newToken(value string, got time.Time, life time.Duration) *token {
	return &token{value: value, got: got, until: got.Add(life), renewed: got.Add(time.Duration(renewAt * float64(life)))}
}

// tokenOf keeps the token of one destination. Whoever needs one while it is
// fetched waits for that fetch.
type tokenOf struct {
	s           *Sender
	destination string

	mu       sync.Mutex
	creds    credentials
	token    *token
	refused  string        // value of the last one that was dropped
	err      error         // of the last fetch
	ended    time.Time     // when that was
	fetching chan struct{} // closed when the fetch ends; nil: none
}

// tokenFor finds or makes the place of a destination's token.
func (s *Sender) tokenFor(destination string) *tokenOf {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tokens[destination]
	if t == nil {
		t = &tokenOf{s: s, destination: destination}
		s.tokens[destination] = t
	}
	return t
}

// get gives a token that has not ended, and fetches one when there is none or
// it is time to renew it.
func (t *tokenOf) get(ctx context.Context, c *credentials) (*token, error) {
	for {
		tok, wait, err := t.look(c)
		if wait == nil {
			return tok, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// look gives a token or an error, or what to wait for.
func (t *tokenOf) look(c *credentials) (tok *token, wait <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.creds != *c {
		t.creds, t.token, t.refused, t.err, t.fetching = *c, nil, "", nil, nil // a fetch under way is for others
	}
	paused := (t.err != nil || t.token != nil) && now.Before(t.ended.Add(tokenPause))
	valid := t.token != nil && (now.Before(t.token.until) || paused && t.err == nil)
	if valid && now.Before(t.token.renewed) {
		return t.token, nil, nil
	}
	if t.fetching == nil && !paused {
		t.start()
	}
	switch {
	case valid:
		return t.token, nil, nil
	case t.fetching != nil:
		return nil, t.fetching, nil
	}
	return nil, nil, t.err
}

// start begins to fetch. With t.mu.
func (t *tokenOf) start() {
	done, c, refused := make(chan struct{}), t.creds, t.refused
	t.fetching = done
	if !t.s.pools.Go(func() {
		tok, err := t.obtain(&c, refused)
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.fetching == done { // nobody has changed the credentials
			t.fetching = nil
			if t.err, t.ended = err, time.Now(); err == nil {
				tok.of, tok.again = t, refused != ""
				t.token, t.refused = tok, ""
			}
		}
		close(done)
	}) {
		t.fetching, t.err, t.ended = nil, errLeft, time.Now()
	}
}

// drop takes a refused token out of use and says whether the job may come back:
// for another, or because this one is good for others.
func (t *tokenOf) drop(tok *token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != tok {
		return // there is another already
	}
	if !tok.again || time.Since(tok.got) >= dropAgain {
		t.token, t.refused = nil, tok.value
	}
}

// obtain takes the token that another worker has fetched, or fetches one for all.
func (t *tokenOf) obtain(c *credentials, refused string) (*token, error) {
	ctx, cancel := context.WithTimeout(t.s.pools.Context(), tokenTimeout)
	defer cancel()
	shared := t.s.cfg.Tokens
	if shared == nil {
		return t.s.fetchToken(ctx, c)
	}
	tok, mine, err := t.takeTurn(ctx, c, refused)
	if mine {
		defer func() { _ = shared.Unlock(context.WithoutCancel(ctx), t.destination) }() // fails: it ends by itself
	}
	if tok != nil || err != nil {
		return tok, err
	}
	if tok, err = t.s.fetchToken(ctx, c); err == nil {
		_ = shared.Save(ctx, t.destination, tok.encode(c), time.Until(tok.until)) // fails: each worker has its own
	}
	return tok, err
}

// takeTurn waits until another worker has fetched a token or this one may. When
// the store cannot tell, each worker fetches its own.
func (t *tokenOf) takeTurn(ctx context.Context, c *credentials, refused string) (tok *token, mine bool, err error) {
	shared := t.s.cfg.Tokens
	for {
		if tok := load(ctx, shared, t.destination, c); tok != nil && tok.value != refused {
			return tok, mine, nil
		}
		if mine { // looked again: the one before may have fetched
			return nil, true, nil
		}
		if mine, err = shared.Lock(ctx, t.destination, tokenTimeout); err != nil {
			return nil, false, nil //nolint:nilerr // see above
		}
		if !mine && waitUntil(ctx, time.Now().Add(lookForToken), nil) != nil {
			return nil, false, fmt.Errorf("token: not fetched by another worker within %v", tokenTimeout)
		}
	}
}

// storedToken is how a token is shared.
type storedToken struct {
	For   string    `json:"for"` // the credentials it was fetched with
	Value string    `json:"value"`
	Got   time.Time `json:"got"`
	Until time.Time `json:"until"`
}

func (c *credentials) fingerprint() string {
	h := sha256.New()
	for _, s := range []string{c.url, c.id, c.secret, c.scope, c.identity.cert} {
		fmt.Fprintf(h, "%d %s ", len(s), s)
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

func (t *token) encode(c *credentials) string {
	text, err := json.Marshal(storedToken{c.fingerprint(), t.value, t.got.UTC(), t.until.UTC()})
	if err != nil {
		return "" // there is nothing in it that JSON cannot hold
	}
	return string(text)
}

// load gives a token that others have fetched; nil when there is none of use.
func load(ctx context.Context, shared Tokens, destination string, c *credentials) *token {
	text, err := shared.Load(ctx, destination)
	if err != nil || text == "" {
		return nil
	}
	var s storedToken
	if json.Unmarshal([]byte(text), &s) != nil || s.For != c.fingerprint() || s.Value == "" {
		return nil
	}
	tok := newToken(s.Value, s.Got, s.Until.Sub(s.Got))
	if !time.Now().Before(tok.renewed) {
		return nil
	}
	return tok
}
