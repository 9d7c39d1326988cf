package deliver

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter caps what a destination may ask for; contracts cap it further.
const MaxRetryAfter = 24 * time.Hour

// retryAfter reads Retry-After (RFC 9110 §10.2.3) tolerantly: seconds, also with
// a fraction, or a date, which is taken relative to the answer's own Date because
// clocks differ. Of several the longest counts; what is unreadable, zero or past is 0.
func retryAfter(values []string, date string, now time.Time) time.Duration {
	if d, err := http.ParseTime(date); err == nil {
		now = d
	}
	var longest time.Duration
	for _, v := range values {
		longest = max(longest, oneRetryAfter(strings.TrimSpace(v), now))
	}
	return min(longest, MaxRetryAfter)
}

func oneRetryAfter(v string, now time.Time) time.Duration {
	if strings.Trim(v, "0123456789.") == "" {
		s, err := strconv.ParseFloat(v, 64)
		if err != nil && !math.IsInf(s, 1) {
			return 0
		}
		return time.Duration(min(s, MaxRetryAfter.Seconds()) * float64(time.Second))
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}
