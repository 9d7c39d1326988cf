package deliver

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// exhausted is for how long the destination says that nothing is left of its
// quota; 0 when something is, or when it does not say. It reads RateLimit as the
// IETF draft has it (`"day";r=0;t=30`), its form of old (`remaining=0, reset=30`),
// and the pairs RateLimit- and X-RateLimit-Remaining and -Reset. Of several the
// longest counts; what is malformed says nothing.
func exhausted(h http.Header, now time.Time) time.Duration {
	longest := time.Duration(0)
	if values := h["Ratelimit"]; len(values) > 0 {
		longest = max(policies(values), members(values))
	}
	for _, prefix := range []string{"Ratelimit-", "X-Ratelimit-"} {
		if remaining := h[prefix+"Remaining"]; len(remaining) > 0 && isZero(remaining[0]) {
			longest = max(longest, untilReset(h.Get(prefix+"Reset"), h.Get("Date"), now))
		}
	}
	return min(longest, MaxRetryAfter)
}

// policies reads a list of policies, each with what remains (r) and seconds to its reset (t).
func policies(values []string) (longest time.Duration) {
	list, err := httpsfv.UnmarshalList(values)
	if err != nil {
		return 0
	}
	for _, member := range list {
		item, ok := member.(httpsfv.Item)
		if !ok || item.Params == nil {
			continue
		}
		r, _ := item.Params.Get("r")
		t, _ := item.Params.Get("t")
		longest = max(longest, whenNone(r, t))
	}
	return longest
}

func members(values []string) time.Duration {
	dict, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return 0
	}
	value := func(name string) any {
		member, _ := dict.Get(name)
		item, ok := member.(httpsfv.Item)
		if !ok {
			return nil
		}
		return item.Value
	}
	return whenNone(value("remaining"), value("reset"))
}

func whenNone(remaining, seconds any) time.Duration {
	r, known := remaining.(int64)
	s, ok := seconds.(int64)
	if !known || !ok || r != 0 || s <= 0 {
		return 0
	}
	return time.Duration(min(s, int64(MaxRetryAfter/time.Second))) * time.Second
}

func isZero(text string) bool {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return err == nil && n <= 0
}

// The least numbers that are a moment and not a span, in seconds and milliseconds since 1970.
const (
	epochSeconds = 1e9
	epochMillis  = 1e12
)

// untilReset reads what servers mean by a reset: seconds from now, a moment in
// seconds or milliseconds since 1970, or a date. A moment is taken relative to the
// answer's own Date, because clocks differ.
func untilReset(text, date string, now time.Time) time.Duration {
	if d, err := http.ParseTime(date); err == nil {
		now = d
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	switch {
	case err != nil:
		return oneRetryAfter(strings.TrimSpace(text), now)
	case n >= epochMillis:
		return max(0, time.UnixMilli(int64(min(n, 1e15))).Sub(now))
	case n >= epochSeconds:
		return max(0, time.Unix(int64(n), 0).Sub(now))
	case n > 0:
		return time.Duration(min(n, MaxRetryAfter.Seconds()) * float64(time.Second))
	}
	return 0
}
