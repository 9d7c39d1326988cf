package api

import (
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"

	"tundish/internal/job"
)

const keyHeader = "Idempotency-Key"

func badKey(format string, args ...any) error {
	return job.Errorf(job.CodeIdempotencyKeyInvalid, format, args...)
}

// checkKey holds the rule for keys wherever they stand.
func checkKey(key string) error {
	if key == "" || len(key) > job.MaxKeyBytes || !visible(key) {
		return badKey("give 1 to %d visible ASCII characters", job.MaxKeyBytes)
	}
	return nil
}

// headerKey reads the Idempotency-Key header, which the draft wants quoted
// and most clients send bare; empty when there is none.
func headerKey(h http.Header) (string, error) {
	values := h.Values(keyHeader)
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", badKey("the header is there %d times", len(values))
	}
	key := strings.Trim(values[0], " \t")
	if strings.HasPrefix(key, `"`) {
		item, err := httpsfv.UnmarshalItem([]string{key})
		if err != nil {
			return "", badKey("the quoted header is not a structured field string")
		}
		text, ok := item.Value.(string)
		if !ok {
			return "", badKey("the header is not a string")
		}
		key = text
	}
	return key, checkKey(key)
}
