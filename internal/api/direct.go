package api

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// output is an answer that writes itself.
type output interface{ write(w http.ResponseWriter) }

// direct is a call that huma describes and does not serve: finding out by
// reflection, for each request anew, where parameters come from and headers go
// costs as much as all else that a push costs the door.
type direct struct {
	gate   *gate
	route  string // as in the mux, without the method
	scopes []Scope
	handle func(ctx context.Context, destination string) (output, error)
}

// ServeHTTP serves a request that the mux has matched.
func (d *direct) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.serve(callOf(r.Context()), w, r.PathValue("destination"))
}

// serve does what huma would: the guard, the parameters, the handler, the answer.
func (d *direct) serve(c *call, w http.ResponseWriter, destination string) {
	err := d.gate.admit(c, d.scopes, destination)
	if err == nil {
		err = noQuery(c.r)
	}
	var out output
	if err == nil {
		out, err = d.handle(c, destination)
	}
	if err != nil {
		newProblem(c, err).write(w)
		return
	}
	out.write(w)
}

// noQuery refuses all parameters: the calls that are served here have none.
func noQuery(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	var f fieldErrors
	for _, name := range slices.Sorted(maps.Keys(r.URL.Query())) {
		f.bad(pointerOf("query."+name), "unknown query parameter")
	}
	return invalid(f)
}

// writeJSON answers with v. A caller that is gone fails the write, and nothing
// else can.
func writeJSON(w http.ResponseWriter, status int, kind string, v any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
}

// setGiven sets a header unless its value is empty.
func setGiven(h http.Header, name, value string) {
	if value != "" {
		h.Set(name, value)
	}
}

// directMux is the mux as huma sees it: what is served directly goes past huma.
type directMux struct {
	*http.ServeMux

	direct map[string]*direct // by pattern
	send   *sender
}

// HandleFunc registers a pattern.
func (m *directMux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	if d := m.direct[pattern]; d != nil {
		m.Handle(pattern, d)
		return
	}
	if strings.HasSuffix(pattern, " "+sendRoute) {
		return // only described: see findSend
	}
	m.ServeMux.HandleFunc(pattern, h)
}

// registerDirect adds an operation to the description; I and O are its
// parameters and its answer.
func registerDirect[I, O any](h huma.API, mux *directMux, d *direct, id, summary string, options ...option) {
	mux.direct[http.MethodPost+" "+d.route] = d
	register[I, O](h, http.MethodPost, d.route, id, summary, nil, append(options, needs(d.scopes...))...)
}

// The direct calls.
const (
	pushRoute  = "/v1/destinations/{destination}/jobs"
	batchRoute = pushRoute + "/batch"
)

// found is a direct call with its destination.
type found struct {
	*direct

	destination string
}

// ServeHTTP serves a request that the mux has not seen.
func (f found) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.serve(callOf(r.Context()), w, f.destination)
}

// find gives the direct call of a request whose path is written plainly and
// which has no query. The mux finds the others, and those that no call answers.
func (m *directMux) find(r *http.Request) (found, bool) {
	rest, ok := strings.CutPrefix(r.URL.Path, "/v1/destinations/")
	if !ok || r.Method != http.MethodPost || r.URL.RawPath != "" || r.URL.RawQuery != "" {
		return found{}, false
	}
	name, call, _ := strings.Cut(rest, "/")
	if strings.Trim(name, ".") == "" { // a path that would be cleaned
		return found{}, false
	}
	pattern := ""
	switch call {
	case "jobs":
		pattern = http.MethodPost + " " + pushRoute
	case "jobs/batch":
		pattern = http.MethodPost + " " + batchRoute
	}
	d := m.direct[pattern]
	return found{d, name}, d != nil
}
