package job

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code is an entry of the closed list of error codes that callers see.
type Code string

// The codes. Status and Retryable hold what each means.
const (
	CodeMalformed             Code = "malformed"
	CodeIdempotencyKeyInvalid Code = "idempotency_key_invalid"
	CodeUnauthenticated       Code = "unauthenticated"
	CodeForbidden             Code = "forbidden"
	CodeDestinationNotFound   Code = "destination_not_found"
	CodeJobNotFound           Code = "job_not_found"
	CodeOperationNotFound     Code = "operation_not_found"
	CodeMethodNotAllowed      Code = "method_not_allowed"
	CodeNotFound              Code = "not_found"
	CodeUnsupportedMediaType  Code = "unsupported_media_type"
	CodeDestinationNotEmpty   Code = "destination_not_empty"
	CodeOwnedByFile           Code = "owned_by_file"
	CodeJobInFlight           Code = "job_in_flight"
	CodeJobFinished           Code = "job_finished"
	CodeJobNotUnknown         Code = "job_not_unknown"
	CodeVersionMismatch       Code = "version_mismatch"
	CodeTooLarge              Code = "too_large"
	CodeInvalid               Code = "invalid"
	CodeNotSupported          Code = "not_supported"
	CodeIdempotencyKeyReused  Code = "idempotency_key_reused"
	CodeConfirmationMissing   Code = "confirmation_missing"
	CodeQueueFull             Code = "queue_full"
	CodeQueueBytesFull        Code = "queue_bytes_full"
	CodeTenantShareFull       Code = "tenant_share_full"
	CodeTooManyBadKeys        Code = "too_many_bad_keys"
	CodeUnavailable           Code = "unavailable"
	CodeOverloaded            Code = "overloaded"
	CodeDestinationPaused     Code = "destination_paused"
	CodeDestinationFaulty     Code = "destination_faulty"
	CodeDurabilityUnconfirmed Code = "durability_unconfirmed"
	CodeInternal              Code = "internal"
)

type codeInfo struct {
	status    int
	title     string
	retryable bool
}

// codes is the one table from code to HTTP status and title.
var codes = map[Code]codeInfo{
	CodeMalformed:             {400, "The request cannot be parsed", false},
	CodeIdempotencyKeyInvalid: {400, "The Idempotency-Key is not valid", false},
	CodeUnauthenticated:       {401, "A valid key is needed", false},
	CodeForbidden:             {403, "Not allowed", false},
	CodeDestinationNotFound:   {404, "No such destination", false},
	CodeJobNotFound:           {404, "No such job", false},
	CodeOperationNotFound:     {404, "No such operation", false},
	CodeNotFound:              {404, "No such page", false},
	CodeMethodNotAllowed:      {405, "Method not allowed", false},
	CodeUnsupportedMediaType:  {415, "Unsupported media type", false},
	CodeDestinationNotEmpty:   {409, "The destination still has jobs", false},
	CodeOwnedByFile:           {409, "A file owns this destination", false},
	CodeJobInFlight:           {409, "The job has not ended", true},
	CodeJobFinished:           {409, "The job has ended", false},
	CodeJobNotUnknown:         {409, "The job is not unknown", false},
	CodeVersionMismatch:       {412, "The destination has another version", false},
	CodeTooLarge:              {413, "Too large", false},
	CodeInvalid:               {422, "The request is not valid", false},
	CodeNotSupported:          {422, "Not supported", false},
	CodeIdempotencyKeyReused:  {422, "The Idempotency-Key was used for another request", false},
	CodeConfirmationMissing:   {422, "The name of the destination must be repeated", false},
	CodeQueueFull:             {429, "The queue is full", true},
	CodeQueueBytesFull:        {429, "The queue is full by bytes", true},
	CodeTenantShareFull:       {429, "The tenant's share of the queue is full", true},
	CodeTooManyBadKeys:        {429, "Too many wrong keys", false},
	CodeUnavailable:           {503, "Temporarily unavailable", true},
	CodeOverloaded:            {503, "Too many pushes are waiting", true},
	CodeDestinationPaused:     {503, "The destination is paused and refuses jobs", true},
	CodeDurabilityUnconfirmed: {503, "The job is kept, but not known to be durable", true},
	CodeDestinationFaulty:     {503, "The destination's stored contract is damaged", true},
	CodeInternal:              {500, "Internal error", true},
}

// Status is the HTTP status of the code.
func (c Code) Status() int { return codes[c].status }

// Title is a short sentence that does not vary between occurrences.
func (c Code) Title() string { return codes[c].title }

// Retryable says whether the same request may succeed later.
func (c Code) Retryable() bool { return codes[c].retryable }

// Codes lists every code.
func Codes() []Code {
	all := make([]Code, 0, len(codes))
	for c := range codes {
		all = append(all, c)
	}
	return all
}

// FieldError is one problem with one field. Pointer is a JSON pointer
// ("/limits/0/rate"); File and Line say where it was written, and are empty
// and 0 when it came in no file.
type FieldError struct {
	Pointer string
	File    string
	Line    int
	Detail  string
	Code    Code // CodeInvalid or CodeNotSupported
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// PointerTo is the JSON pointer (RFC 6901) of a member below another pointer.
func PointerTo(parent, name string) string {
	return parent + "/" + pointerEscapes.Replace(name)
}

// Error is a failure with a code that a caller may be told.
type Error struct {
	Code       Code
	Detail     string
	Fields     []FieldError
	RetryAfter time.Duration // with 429 and 503
	Job        ID            // that is kept although the call failed; empty: none
	Cause      error         // never shown to callers
}

// Errorf makes an Error with a detail for people.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	s := string(e.Code)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	for _, f := range e.Fields {
		s += "; " + f.String()
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Cause }

// String is the problem in one line: file, line, pointer and detail, as far as known.
func (f FieldError) String() string {
	s := f.Pointer
	if f.Line > 0 {
		s = fmt.Sprintf("line %d: %s", f.Line, s)
	}
	if f.File != "" {
		s = f.File + ": " + s
	}
	return s + ": " + f.Detail
}

// CodeOf finds the code in err; CodeInternal when it has none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
