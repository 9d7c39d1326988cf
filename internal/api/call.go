package api

import (
	"context"
	"net/http"

	"tundish/internal/job"
)

// call is what the layers of the door know about one request, and the context
// in which it is answered.
type call struct {
	context.Context //nolint:containedctx // it is one

	id       string // request_id
	w        http.ResponseWriter
	r        *http.Request
	producer *producer

	bodies *bodies // the budget for what it sends
	held   int64   // of that
	until  []<-chan struct{}
}

type callKey struct{}

// callOf finds the call of a request's context. A context from elsewhere has
// an empty one, so that no caller need look for nil.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{Context: ctx, producer: nobody}
}

// Value finds the call itself, and what the request's context holds.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// nobody is the producer of a call whose key was not looked at.
var nobody = &producer{}

// maxRequestID bounds an id that a caller brings along.
const maxRequestID = 128

// requestID takes the caller's own id when it is harmless, so that one id can
// be followed through several systems.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && len(id) <= maxRequestID && visible(id) {
		return id
	}
	return string(job.NewID())
}

// visible says whether s consists of visible ASCII only.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
