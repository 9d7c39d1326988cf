package api

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// Quota is what the RateLimit headers tell.
type Quota struct {
	Policy string `header:"RateLimit-Policy"`
	Limit  string `header:"RateLimit"`
}

// set writes the headers, unless nothing is known.
func (q *Quota) set(h http.Header) {
	setGiven(h, "RateLimit-Policy", q.Policy)
	setGiven(h, "RateLimit", q.Limit)
}

// quotaOf writes the fields of draft-ietf-httpapi-ratelimit-headers-11, and
// is the only place that knows their form: lists of one string with integers
// as parameters, which need no library to be written. The policy "queue" is the bound of
// the destination's queue: q places that all producers share, so there is no
// window (w), and r is what was free at the push. With a refusal r is 0 for
// the t seconds of Retry-After.
func quotaOf(capacity, depth int64, refused time.Duration) Quota {
	if capacity <= 0 {
		return Quota{}
	}
	q := Quota{Policy: `"queue";q=` + strconv.FormatInt(capacity, 10)}
	if refused > 0 {
		q.Limit = `"queue";r=0;t=` + strconv.FormatInt(int64(math.Ceil(refused.Seconds())), 10)
		return q
	}
	q.Limit = `"queue";r=` + strconv.FormatInt(max(0, capacity-depth), 10)
	return q
}
