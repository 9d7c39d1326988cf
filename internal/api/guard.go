package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"tundish/internal/job"
)

// scopeOf is the metadata under which an operation names the scopes of which
// one is needed.
const scopeOf = "scopes"

// gate finds out who calls and refuses what the key may not do. A
// destination outside the producer's patterns does not exist for it.
type gate struct {
	keys *Keys // nil: everybody may do everything
	bad  *badKeys
}

// admit notes the producer of the call, or says why it may not pass.
func (g *gate) admit(c *call, needed []Scope, destination string) error {
	if g.keys != nil {
		p, err := identify(g.keys, g.bad, c.r)
		if err != nil {
			return err
		}
		c.producer = p
	}
	return allowed(c.producer, needed, destination)
}

// guard is the gate before what huma serves.
func (g *gate) guard(hc huma.Context, next func(huma.Context)) {
	c := callOf(hc.Context())
	needed, _ := hc.Operation().Metadata[scopeOf].([]Scope)
	if err := g.admit(c, needed, hc.Param("destination")); err != nil {
		newProblem(hc.Context(), err).write(c.w)
		return
	}
	next(hc)
}

// identify finds the producer by its key. Only wrong keys are counted: who
// sends none has guessed nothing.
func identify(keys *Keys, bad *badKeys, r *http.Request) (*producer, error) {
	key, err := presented(r)
	if err != nil {
		return nil, err
	}
	if key == "" {
		return nil, job.Errorf(job.CodeUnauthenticated, "send a key as Authorization: Bearer, Tundish-Key or the user name of Basic")
	}
	if p := keys.find(key); p != nil {
		return p, nil
	}
	return nil, bad.refusal(r)
}

func allowed(p *producer, needed []Scope, destination string) error {
	if !slices.ContainsFunc(needed, p.may) {
		names := make([]string, 0, len(needed))
		for _, s := range needed {
			names = append(names, string(s))
		}
		return job.Errorf(job.CodeForbidden, "the key needs the scope %s", strings.Join(names, " or "))
	}
	if destination != "" && !p.sees(destination) {
		return noDestination(destination)
	}
	return nil
}

func noDestination(name string) error {
	return job.Errorf(job.CodeDestinationNotFound, "there is no destination %q", clip(name, 80))
}

// clip bounds what an answer repeats of a request.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// presented takes the key from where a caller may put it; empty when there is
// none. Two that differ are none either: whichever counted, the caller, or a
// proxy in between, may have meant the other.
func presented(r *http.Request) (string, error) {
	found := ""
	for _, key := range slices.Concat(authorized(r), r.Header.Values("Tundish-Key")) {
		if key == "" {
			continue
		}
		if found != "" && key != found {
			return "", job.Errorf(job.CodeUnauthenticated, "the request holds different keys in Authorization and Tundish-Key; send one")
		}
		found = key
	}
	return found, nil
}

// authorized lists the keys of Authorization.
func authorized(r *http.Request) []string {
	if user, _, ok := r.BasicAuth(); ok {
		return []string{user}
	}
	var keys []string
	for _, value := range r.Header.Values("Authorization") {
		if scheme, key, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "Bearer") {
			keys = append(keys, strings.TrimSpace(key))
		}
	}
	return keys
}

// producerName is who pushes, as jobs and metrics call it.
func producerName(ctx context.Context) string { return callOf(ctx).producer.name }
