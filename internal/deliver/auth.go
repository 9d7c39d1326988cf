package deliver

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// credentials are what a token is asked for with.
type credentials struct {
	url, id, secret, scope string
	identity               identity
}

var errColon = errors.New("auth: basic: username: a colon is not allowed in it")

// basic makes the Authorization of a contract's basic authentication; empty when it has none.
func (r *resolving) basic(b *destination.Basic) string {
	if b == nil {
		return ""
	}
	name, password := r.part(b.Username), r.part(b.Password)
	if strings.Contains(name, ":") {
		r.failed(errColon)
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
}

// oauth2 reads the credentials of a contract; nil when it has none.
func (r *resolving) oauth2(o *destination.OAuth2, i identity) *credentials {
	if o == nil {
		return nil
	}
	i.serverName = "" // that of the destination; the token's URL is another
	return &credentials{url: o.TokenURL, id: r.part(o.ClientID), secret: r.part(o.ClientSecret), scope: strings.Join(o.Scopes, " "), identity: i}
}

// part resolves a text that may hold references.
func (r *resolving) part(s string) string {
	value, _ := r.text(s)
	return value
}

// authorize puts a token into what an attempt is made with, where the contract
// wants one; nil when it does not.
func (s *Sender) authorize(ctx context.Context, destination string, e *equipment) (*token, error) {
	if e.oauth2 == nil {
		return nil, nil
	}
	tok, err := s.tokenFor(destination).get(ctx, e.oauth2)
	if err == nil {
		e.authorization = "Bearer " + tok.value
		e.hide.add(tok.value, "(access token)")
	}
	return tok, err
}

// tokenResult is the outcome of an attempt that got no token.
func tokenResult(ctx context.Context, err error) Result {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Result{Outcome: job.OutcomeAuth, Error: "token: none before the attempt's end"}
	case ctx.Err() != nil:
		return notSent(context.Cause(ctx))
	case errors.Is(err, errLeft):
		return Result{Outcome: job.OutcomeNotSent, Error: "the sender is closed"}
	}
	return Result{Outcome: job.OutcomeAuth, Error: short(err.Error())}
}

// answered follows an answer to a request that carried a token. A 401 makes the
// token be fetched again, once.
func (t *token) answered(res *Result) {
	if t != nil && res.HTTPStatus == http.StatusUnauthorized {
		t.of.drop(t)
		res.Error = fmt.Sprintf("%s: the token was refused", statusText(res.HTTPStatus))
	}
}

// answered follows an answer. A 401 says of the contract's credentials that all
// jobs are refused for; of the job's own that this job is.
func (o *outgoing) answered(res *Result) {
	if o.own && res.HTTPStatus == http.StatusUnauthorized {
		res.Outcome = job.OutcomeRejected
	}
}
