package api

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tundish/internal/job"
)

// problemType is the media type of every error (RFC 9457).
const problemType = "application/problem+json"

// problem is the one form in which a caller learns of a failure.
type problem struct {
	Type         string         `json:"type" doc:"urn:tundish:problem: and the code"`
	Title        string         `json:"title"`
	Status       int            `json:"status"`
	Detail       string         `json:"detail,omitempty"`
	Code         job.Code       `json:"code" doc:"An entry of the closed list of codes"`
	Retryable    bool           `json:"retryable" doc:"Whether the same request may succeed later"`
	RequestID    string         `json:"request_id"`
	RetryAfterMS int64          `json:"retry_after_ms,omitempty" doc:"With 429 and 503"`
	ID           job.ID         `json:"id,omitempty" doc:"The job, where there is one: with durability_unconfirmed it is kept, with 502 and 504 it has ended without an answer"`
	Errors       []problemField `json:"errors,omitempty" doc:"Every problem with the request at once"`

	headers http.Header
}

// problemField is one problem with one field.
type problemField struct {
	Pointer string `json:"pointer" doc:"JSON pointer into the body; /query/x and /header/x for parameters"`
	Detail  string `json:"detail"`
}

// Error, GetStatus, GetHeaders and ContentType are what huma asks of an error.
func (p *problem) Error() string             { return string(p.Code) + ": " + p.Detail }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) GetHeaders() http.Header   { return p.headers }
func (p *problem) ContentType(string) string { return problemType }

// newProblem turns err into what the caller of ctx is told. What has no code
// is internal: its text stays inside.
func newProblem(ctx context.Context, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	e, ok := errors.AsType[*job.Error](err)
	if !ok {
		e = job.Errorf(job.CodeInternal, "the request failed; its request_id is in the log")
	}
	p := problemOf(e)
	p.RequestID = callOf(ctx).id
	return p
}

func problemOf(e *job.Error) *problem {
	status := e.Code.Status()
	if status == 0 { // a code outside the table is a bug, not the caller's
		e, status = job.Errorf(job.CodeInternal, "unknown code"), http.StatusInternalServerError
	}
	p := &problem{
		Type: "urn:tundish:problem:" + string(e.Code), Title: e.Code.Title(), Status: status,
		Detail: e.Detail, Code: e.Code, Retryable: e.Code.Retryable(), headers: http.Header{},
		Errors: fieldsOf(e), ID: e.Job,
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		wait := atLeastMS(e.RetryAfter)
		p.RetryAfterMS = wait.Milliseconds()
		p.headers.Set("Retry-After", retryAfter(wait))
	}
	if status == http.StatusUnauthorized {
		p.headers.Set("WWW-Authenticate", `Bearer realm="tundish"`)
	}
	return p // Cache-Control: no-store stands on every answer already
}

func fieldsOf(e *job.Error) []problemField {
	var list []problemField
	for _, f := range e.Fields {
		list = append(list, problemField{Pointer: f.Pointer, Detail: f.Detail})
	}
	return list
}

// defaultRetryAfter is told when nobody knows better.
const defaultRetryAfter = time.Second

// atLeastMS keeps a wait whole in milliseconds, rounded up and above zero.
func atLeastMS(d time.Duration) time.Duration {
	if d <= 0 {
		return defaultRetryAfter
	}
	return time.Duration(math.Ceil(float64(d)/float64(time.Millisecond))) * time.Millisecond
}

// retryAfter is the header's value: whole seconds, rounded up, because a
// caller that is a moment early is refused again.
func retryAfter(d time.Duration) string {
	return strconv.FormatInt(max(1, int64(math.Ceil(d.Seconds()))), 10)
}

// write sends the problem to a caller that huma does not serve.
func (p *problem) write(w http.ResponseWriter) {
	for name, values := range p.headers {
		w.Header()[name] = values
	}
	writeJSON(w, p.Status, problemType, p)
}

// invalid makes one error of all field errors; nil when there are none. Only
// when every problem is a part not built yet is the whole not_supported.
func invalid(fields []job.FieldError) error {
	if len(fields) == 0 {
		return nil
	}
	code := job.CodeNotSupported
	for _, f := range fields {
		if f.Code != job.CodeNotSupported {
			code = job.CodeInvalid
		}
	}
	return &job.Error{Code: code, Detail: problemsWith(fields), Fields: fields}
}

func problemsWith(fields []job.FieldError) string {
	if len(fields) == 1 {
		return "1 problem with the request, see errors"
	}
	return strconv.Itoa(len(fields)) + " problems with the request, see errors"
}

// humaGlobals makes huma speak of errors, and of lists, which are never null,
// as we do. It offers no other place for that than its variables.
var humaGlobals = sync.OnceFunc(func() {
	huma.DefaultArrayNullable = false
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return problemOf(fromHuma(status, msg, errs))
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return newProblem(ctx.Context(), fromHuma(status, msg, errs))
	}
})

// humaCodes maps the few statuses that huma makes by itself.
var humaCodes = map[int]job.Code{
	http.StatusBadRequest:            job.CodeMalformed,
	http.StatusNotFound:              job.CodeNotFound,
	http.StatusMethodNotAllowed:      job.CodeMethodNotAllowed,
	http.StatusRequestEntityTooLarge: job.CodeTooLarge,
	http.StatusUnsupportedMediaType:  job.CodeUnsupportedMediaType,
	http.StatusUnprocessableEntity:   job.CodeInvalid,
}

func fromHuma(status int, msg string, errs []error) *job.Error {
	code := cmp.Or(humaCodes[status], job.CodeInternal)
	if code == job.CodeInternal {
		return job.Errorf(code, "the request failed")
	}
	e := job.Errorf(code, "%s", msg)
	for _, err := range errs {
		var d huma.ErrorDetailer
		if errors.As(err, &d) {
			detail := d.ErrorDetail()
			e.Fields = append(e.Fields, job.FieldError{Pointer: pointerOf(detail.Location), Detail: detail.Message, Code: job.CodeInvalid})
		}
	}
	if code == job.CodeInvalid && len(e.Fields) > 0 {
		e.Detail = problemsWith(e.Fields)
	}
	return e
}

// pointerOf turns huma's "query.limit" into "/query/limit".
func pointerOf(location string) string {
	return "/" + strings.ReplaceAll(location, ".", "/")
}
