package api

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"tundish/internal/job"
)

// entry is the outermost layer: every request gets an id and is counted, and
// none ends the process.
type entry struct {
	mux     *directMux
	origin  *http.CrossOriginProtection
	metrics *metrics
	log     *slog.Logger
	bodies  *bodies
	// ownNames: only requests to a name or an address of this machine are answered.
	ownNames bool
}

func (e *entry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	rec := &recorder{ResponseWriter: w}
	c := &call{Context: r.Context(), id: requestID(r), w: rec, r: r, producer: nobody, bodies: e.bodies}
	defer c.release()

	h := rec.Header()
	h.Set("X-Request-Id", c.id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")

	handler, route := e.route(r)
	defer func() {
		e.recovered(c, rec, recover())
		e.metrics.request(route, r.Method, rec.status, time.Since(started), c)
	}()
	if d, ok := handler.(found); ok {
		d.serve(c, rec, d.destination)
		return
	}
	c.r = r.WithContext(c)
	handler.ServeHTTP(rec, c.r)
}

// route finds who answers and the pattern that names the request in metrics:
// never the raw path, which callers choose.
func (e *entry) route(r *http.Request) (http.Handler, string) {
	if e.ownNames && !ownName(r.Host) {
		return refuse(job.Errorf(job.CodeForbidden, "without keys only requests to 127.0.0.1 or localhost are answered; start the enqueuer with --keys FILE, or with --insecure-no-auth if everybody who can reach it may push")), "foreign_host"
	}
	send, sends := e.mux.findSend(r)
	checked := r
	if sends {
		checked = asChange(r)
	}
	if err := e.origin.Check(checked); err != nil {
		return refuse(job.Errorf(job.CodeForbidden, "a page of another site may not call this API")), "cross_site"
	}
	if sends {
		return send, sendRoute
	}
	if d, ok := e.mux.find(r); ok {
		return d, d.route
	}
	// The mux would redirect these, and a redirected push loses its body.
	if p := r.URL.EscapedPath(); path.Clean("/"+p) != p && p != docsFolder {
		return refuse(job.Errorf(job.CodeNotFound, "there is no such path")), "unmatched"
	}
	// Query() leaves out what it cannot read, and a list without its cursor begins again.
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return refuse(job.Errorf(job.CodeMalformed, "the query cannot be read: a %% in it is not followed by two hex digits, or it holds a semicolon")), "unmatched"
	}
	if err := repeated(query); err != nil {
		return refuse(err), "unmatched"
	}
	handler, pattern := e.mux.Handler(r)
	if pattern == "" {
		return refuseUnmatched(handler), "unmatched"
	}
	_, route, _ := strings.Cut(pattern, " ")
	return e.mux, route
}

// ownName says whether a Host header names this machine. A page of another
// site whose name was made to lead to 127.0.0.1 (DNS rebinding) is of the same
// origin as we are, and is known by that name alone.
func ownName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}

// repeated refuses parameters that are given twice: no call takes lists, and
// whichever counted, the caller may have meant the other.
func repeated(query url.Values) error {
	var f fieldErrors
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if n := len(query[name]); n > 1 {
			f.bad("/query"+token(name), "is given %d times", n)
		}
	}
	return invalid(f)
}

// recovered answers for a handler that panicked.
func (e *entry) recovered(c *call, w *recorder, reason any) {
	if reason == nil {
		return
	}
	if err, ok := reason.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(reason)
	}
	e.log.Error("request panicked", "request_id", c.id, "panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
	if w.status == 0 {
		newProblem(c, job.Errorf(job.CodeInternal, "the request failed; its request_id is in the log")).write(w)
	}
}

// refuse answers every request with err.
func refuse(err error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		newProblem(r.Context(), err).write(w)
	})
}

// refuseUnmatched asks the mux's own answer whether the path or only the
// method is wrong, and says it in our form.
func refuseUnmatched(own http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		probe := &discard{header: http.Header{}}
		own.ServeHTTP(probe, r)
		if probe.status != http.StatusMethodNotAllowed {
			newProblem(r.Context(), job.Errorf(job.CodeNotFound, "there is no such path, or its part is not built yet")).write(w)
			return
		}
		allow := probe.header.Get("Allow")
		p := newProblem(r.Context(), job.Errorf(job.CodeMethodNotAllowed, "this path allows %s", allow))
		p.headers.Set("Allow", allow)
		p.write(w)
	})
}

// recorder remembers the status for metrics. A caller that goes away while
// the answer is written is no failure of ours: huma would panic over it.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
		r.ResponseWriter.WriteHeader(status)
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	_, _ = r.ResponseWriter.Write(b)
	return len(b), nil
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// discard takes an answer that nobody shall see.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
