package api

import (
	"math"
	"net/http"
	"time"

	"github.com/dunglas/httpsfv"
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
// is the only place that knows their form. The policy "queue" is the bound of
// the destination's queue: q places that all producers share, so there is no
// window (w), and r is what was free at the push. With a refusal r is 0 for
// the t seconds of Retry-After.
func quotaOf(capacity, depth int64, refused time.Duration) Quota {
	if capacity <= 0 {
		return Quota{}
	}
	policy := httpsfv.NewItem("queue")
	policy.Params.Add("q", capacity)
	limit := httpsfv.NewItem("queue")
	limit.Params.Add("r", max(0, capacity-depth))
	if refused > 0 {
		limit.Params.Add("r", int64(0))
		limit.Params.Add("t", int64(math.Ceil(refused.Seconds())))
	}
	return Quota{Policy: field(policy), Limit: field(limit)}
}

// field is empty when the item cannot be written, and then no header is sent.
func field(item httpsfv.Item) string {
	s, err := httpsfv.Marshal(httpsfv.List{item})
	if err != nil {
		return ""
	}
	return s
}
