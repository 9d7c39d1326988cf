package deliver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"tundish/internal/job"
)

const maxTokenBytes = 64 << 10

// tokenErrors are the codes by which a server says why it gives no token (RFC
// 6749, section 5.2). What else it says may quote what we sent.
var tokenErrors = []string{"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope"}

// fetchToken asks for a token with the client credentials grant. It goes
// through the same guard as requests do. The error holds nothing of what was
// sent or answered but a code of the closed list.
func (s *Sender) fetchToken(ctx context.Context, c *credentials) (*token, error) {
	config, err := c.identity.config(s.cfg.RootCAs)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DialContext: s.dialer().DialContext, TLSClientConfig: config, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeaderBytes}
	begin := time.Now()
	var handshake atomic.Bool // it failed in there
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { handshake.Store(err != nil) },
	})
	resp, err := transport.RoundTrip(c.request(traced))
	if err != nil {
		return nil, tokenError(err, handshake.Load())
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenBytes+1))
	if err != nil {
		return nil, tokenError(err, false)
	}
	return readToken(resp.StatusCode, body, begin)
}

// request asks with the client's name and secret in the header, which every
// server must take (RFC 6749, section 2.3.1).
func (c *credentials) request(ctx context.Context) *http.Request {
	form := url.Values{"grant_type": {"client_credentials"}}
	if c.scope != "" {
		form.Set("scope", c.scope)
	}
	u, _ := url.Parse(c.url) // the contract was checked; nil fails in RoundTrip
	body := []byte(form.Encode())
	r := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	r.SetBasicAuth(url.QueryEscape(c.id), url.QueryEscape(c.secret))
	return r.WithContext(ctx)
}

func tokenError(err error, handshake bool) error {
	outcome, text := connectOutcome(err, handshake)
	switch {
	case text == "":
		text = fmt.Sprintf("no answer within %v", tokenTimeout)
	case outcome == job.OutcomeTLS:
		text = "TLS handshake: " + text
	}
	return errors.New("token: " + text)
}

// readToken reads the answer of a token's server; got is when it was asked.
func readToken(status int, body []byte, got time.Time) (*token, error) {
	var a struct {
		Token     string      `json:"access_token"`
		Type      string      `json:"token_type"`
		ExpiresIn json.Number `json:"expires_in"` // also in quotes
		Error     string      `json:"error"`
	}
	err := json.Unmarshal(body, &a)
	switch {
	case status != http.StatusOK && slices.Contains(tokenErrors, a.Error):
		return nil, fmt.Errorf("token: %s, %s", statusText(status), a.Error)
	case status != http.StatusOK:
		return nil, fmt.Errorf("token: %s", statusText(status))
	case err != nil || a.Token == "" || len(body) > maxTokenBytes || validField("Authorization", a.Token) != nil:
		return nil, errors.New("token: the answer holds no access_token")
	case a.Type != "" && !strings.EqualFold(a.Type, "bearer"):
		return nil, errors.New("token: its token_type is not bearer")
	}
	life := tokenLife
	if in, _ := a.ExpiresIn.Float64(); in > 0 && in < (365*24*time.Hour).Seconds() {
		life = time.Duration(in * float64(time.Second))
	}
	return newToken(a.Token, got, life), nil
}
