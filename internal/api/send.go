package api

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// sendRoute is the call whose request is itself the job, with any method and
// any path behind it.
const sendRoute = "/v1/destinations/{destination}/send/{path}"

// sender serves the requests that are jobs themselves. The mux does not see
// them: it would clean their paths, and what stands there is the destination's.
type sender struct {
	api  *API
	gate *gate
}

// passed is a request that is to be passed on.
type passed struct {
	*sender

	destination string
	path        string // below the destination, with the query, as it was written
}

// findSend gives the call of a request that is itself the job.
func (m *directMux) findSend(r *http.Request) (passed, bool) {
	rest, ok := strings.CutPrefix(writtenPath(r.URL), "/v1/destinations/")
	if !ok {
		return passed{}, false
	}
	name, call, _ := strings.Cut(rest, "/")
	path, ok := strings.CutPrefix(call, "send")
	if !ok || path != "" && path[0] != '/' {
		return passed{}, false
	}
	name, err := url.PathUnescape(name)
	if err != nil {
		return passed{}, false
	}
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		path += "?" + r.URL.RawQuery
	}
	return passed{m.send, name, path}, true
}

// writtenPath is the path as the request line has it. EscapedPath would write
// one anew that holds a character out of place, and %2F would become a slash.
func writtenPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// asChange is the request as the cross-site check is to see it: here GET, HEAD
// and OPTIONS make a job too, so a page of another site may send none of them.
func asChange(r *http.Request) *http.Request {
	changed := *r
	changed.Method = http.MethodPost
	return &changed
}

// ServeHTTP serves a request that findSend has found.
func (p passed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	c.r = ownKey(r)
	err := p.gate.admit(c, []Scope{ScopeEnqueue}, p.destination)
	var out output
	if err == nil {
		out, err = p.api.send(c, p.destination, p.path)
	}
	if err != nil {
		newProblem(c, err).write(w)
		return
	}
	out.write(w)
}

// ownKey is the request without an Authorization that is not for us: where
// Tundish-Key holds our key, a client of the destination may go on to send its own.
func ownKey(r *http.Request) *http.Request {
	if r.Header.Get("Tundish-Key") == "" || r.Header.Get("Authorization") == "" {
		return r
	}
	changed := *r
	changed.Header = r.Header.Clone()
	changed.Header.Del("Authorization")
	return &changed
}

// send makes a job of the request and, where the caller wants to, waits for its end.
func (a *API) send(ctx context.Context, name, path string) (output, error) {
	c := callOf(ctx)
	out, err := a.take(ctx, name, sentAs{a, path}.read)
	if err != nil {
		return nil, err
	}
	wait, _ := preferences(c.r.Header.Values("Prefer"))
	if wait == 0 {
		return out, nil
	}
	c.release() // the body is in the store; a wait must not hold room for it
	return a.await(ctx, name, out, wait)
}

// await answers what became of the job, or as a push when it has not ended in time.
func (a *API) await(ctx context.Context, name string, push *pushOutput, wait seconds) (output, error) {
	ended, waited := a.waiters.wait(ctx, name, push.Body.ID, wait.duration(), push.Body.Replayed)
	out := &sendOutput{pushOutput: push, method: callOf(ctx).r.Method}
	if waited {
		out.applied = "wait=" + wait.String()
	}
	if !ended {
		return out, nil
	}
	sctx, cancel := storeContext(ctx)
	defer cancel()
	s, err := a.cfg.Store.Job(sctx, name, push.Body.ID)
	if err != nil || !s.State.Ended() { // gone already, or sent anew: what is known is that it was taken
		return out, nil
	}
	if out.attempt = answeredBy(s); out.attempt == nil {
		return nil, unanswered(ctx, s, out)
	}
	out.response = s.Response
	return out, nil
}
