package deliver

import (
	"net/http"
	"testing"
	"time"
)

func TestExhaustedQuota(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		fields []string // name, value …
		want   time.Duration
	}{
		"nothing said":             {nil, 0},
		"something left":           {[]string{"RateLimit", `"default";r=5;t=30`}, 0},
		"nothing left":             {[]string{"RateLimit", `"default";r=0;t=30`}, 30 * time.Second},
		"the longest of two":       {[]string{"RateLimit", `"burst";r=0;t=2, "day";r=0;t=3600`}, time.Hour},
		"two fields":               {[]string{"RateLimit", `"burst";r=0;t=2`, "RateLimit", `"day";r=9;t=3600`}, 2 * time.Second},
		"no time":                  {[]string{"RateLimit", `"default";r=0`}, 0},
		"a time of zero":           {[]string{"RateLimit", `"default";r=0;t=0`}, 0},
		"beyond a day":             {[]string{"RateLimit", `"default";r=0;t=9999999`}, MaxRetryAfter},
		"malformed":                {[]string{"RateLimit", `;;r=0;t=`}, 0},
		"of another type":          {[]string{"RateLimit", `"default";r="0";t=30.5`}, 0},
		"as of old":                {[]string{"RateLimit", `limit=100, remaining=0, reset=7`}, 7 * time.Second},
		"as of old, left":          {[]string{"RateLimit", `limit=100, remaining=1, reset=7`}, 0},
		"a pair":                   {[]string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "12"}, 12 * time.Second},
		"a pair without prefix":    {[]string{"RateLimit-Remaining", "0", "RateLimit-Reset", "12"}, 12 * time.Second},
		"a pair, left":             {[]string{"X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "12"}, 0},
		"a moment in seconds":      {[]string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1796040030"}, 30 * time.Second},
		"a moment in milliseconds": {[]string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1796040030000"}, 30 * time.Second},
		"a date":                   {[]string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "Mon, 30 Nov 2026 12:00:30 GMT"}, 30 * time.Second},
		"a past moment":            {[]string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1796030000"}, 0},
		"not a number":             {[]string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "soon"}, 0},
		"nan":                      {[]string{"X-RateLimit-Remaining", "nan", "X-RateLimit-Reset", "nan"}, 0},
		"infinite":                 {[]string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "inf"}, MaxRetryAfter},
	} {
		h := http.Header{"Date": {now.Format(http.TimeFormat)}}
		for i := 0; i+1 < len(c.fields); i += 2 {
			h.Add(c.fields[i], c.fields[i+1])
		}
		if got := exhausted(h, now.Add(time.Hour)); got != c.want { // our clock is wrong: the answer's Date counts
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
