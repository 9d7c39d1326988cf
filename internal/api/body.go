package api

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"tundish/internal/job"
)

// The media types that are read.
const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson"
)

// bodyTimeout bounds how long a caller may take to send a body.
const bodyTimeout = 10 * time.Second

// readBody reads the request's body, at most limit bytes and what is free of
// the budget of all bodies. What is announced
// as larger is refused before a byte is read. huma's own reading has one
// bound per operation; ours depends on the destination.
func readBody(ctx context.Context, limit int64, types ...string) ([]byte, string, error) {
	c := callOf(ctx)
	kind, err := mediaType(c.r.Header, types)
	if err != nil {
		return nil, "", err
	}
	data, err := c.readBytes(limit)
	return data, kind, err
}

// readBytes is readBody for a body of any kind.
func (c *call) readBytes(limit int64) ([]byte, error) {
	if c.r.ContentLength > limit {
		c.w.Header().Set("Connection", "close") // the rest is not worth reading
		return nil, tooLarge("the request has %d bytes, at most %d are taken here", c.r.ContentLength, limit)
	}
	// The deadline must not outlive the reading: met while the handler works,
	// it would cancel the request.
	rc := http.NewResponseController(c.w)
	if rc.SetReadDeadline(time.Now().Add(bodyTimeout)) == nil {
		defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	}
	body := c.r.Body
	if c.r.ContentLength < 0 { // else no more than announced can come
		body = http.MaxBytesReader(c.w, body, limit)
	}
	data, err := c.readAll(body, c.r.ContentLength, limit)
	if err != nil {
		c.w.Header().Set("Connection", "close")
		return nil, readError(err, limit)
	}
	return data, nil
}

func readError(err error, limit int64) error {
	if job.CodeOf(err) == job.CodeOverloaded {
		return err
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge("the request has more than %d bytes", limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return job.Errorf(job.CodeMalformed, "the body did not arrive within %s", bodyTimeout)
	}
	return job.Errorf(job.CodeMalformed, "the body ended early")
}

// mediaType checks what the body claims to be; the first of types when it
// claims nothing.
func mediaType(h http.Header, types []string) (string, error) {
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return "", job.Errorf(job.CodeUnsupportedMediaType, "Content-Encoding is not taken; send the body as it is")
	}
	given := h.Get("Content-Type")
	if given == "" {
		return types[0], nil
	}
	if slices.Contains(types, given) { // as most write it
		return given, nil
	}
	kind, params, err := mime.ParseMediaType(given)
	if err != nil || !slices.Contains(types, kind) {
		return "", job.Errorf(job.CodeUnsupportedMediaType, "send the body as Content-Type: %s", strings.Join(types, " or "))
	}
	if cs := params["charset"]; cs != "" && !strings.EqualFold(cs, "utf-8") {
		return "", job.Errorf(job.CodeUnsupportedMediaType, "the charset must be utf-8")
	}
	return kind, nil
}
