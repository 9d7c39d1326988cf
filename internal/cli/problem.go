package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"tundish/internal/job"
)

// apiError is a call that the API, or something before it, refused.
type apiError struct {
	status     int
	problem    problemDoc // empty when something before the API answered
	server     string
	retryAfter time.Duration // 0: none was told
	hadKey     bool
}

// problemDoc is an application/problem+json as far as it is shown.
type problemDoc struct {
	Title        string         `json:"title"`
	Detail       string         `json:"detail"`
	Code         string         `json:"code"`
	RequestID    string         `json:"request_id"`
	RetryAfterMS int64          `json:"retry_after_ms"`
	Errors       []problemField `json:"errors"`
}

type problemField struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

func newAPIError(a *answer, c *client) *apiError {
	e := &apiError{status: a.status, server: c.base, hadKey: c.key != ""}
	if json.Unmarshal(a.body, &e.problem) != nil || e.problem.Code == "" {
		e.problem = problemDoc{}
	}
	e.retryAfter = time.Duration(e.problem.RetryAfterMS) * time.Millisecond
	if e.retryAfter <= 0 {
		e.retryAfter = retryAfter(a.header.Get("Retry-After"))
	}
	return e
}

// retryAfter reads the header's seconds or date; 0 when it says nothing.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// Error is the problem in one line, with every field.
func (e *apiError) Error() string {
	if e.problem.Code == "" {
		return fmt.Sprintf("%s answered HTTP %d %s; is it the API?", e.server, e.status, http.StatusText(e.status))
	}
	s := problemLine(e.problem.Code, cmp.Or(e.problem.Detail, e.problem.Title), e.problem.Errors)
	if e.status == http.StatusUnauthorized || e.badKey() {
		s += hint(e.hadKey)
	}
	if e.status >= http.StatusInternalServerError && e.problem.RequestID != "" {
		s += " (request_id " + plain(e.problem.RequestID) + ")"
	}
	return s
}

func hint(hadKey bool) string {
	if hadKey {
		return " (the key given is not known there, or has expired)"
	}
	return " (no key was given: set TUNDISH_KEY or --key-file)"
}

// problemLine joins code, detail and fields.
func problemLine(code, detail string, fields []problemField) string {
	s := plain(code)
	if detail != "" {
		s += ": " + plain(detail)
	}
	for _, f := range fields {
		s += "; " + plain(cmp.Or(f.Pointer, "/")) + ": " + plain(f.Detail)
	}
	return s
}

func (e *apiError) exitCode() int {
	if e.badKey() {
		return exitNotAllowed
	}
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitNotAllowed
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return exitUsage
	}
	return exitFailed
}

// badKey says whether the key is wrong, and others from here were before.
func (e *apiError) badKey() bool { return e.problem.Code == string(job.CodeTooManyBadKeys) }

// later says whether the same call is to be made again after a wait.
func (e *apiError) later() bool {
	if e.badKey() {
		return false // the key will not get better
	}
	return e.status == http.StatusTooManyRequests || e.status == http.StatusServiceUnavailable
}

// broken says whether the call failed in a way that may pass.
func (e *apiError) broken() bool { return e.status >= http.StatusInternalServerError && !e.later() }

// plain keeps text of others from moving the cursor or breaking lines.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, s)
}
