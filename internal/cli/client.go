package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"tundish/internal/destination"
)

const (
	requestTimeout = 30 * time.Second
	maxAnswer      = 64 << 20
	typeJSON       = "application/json"
	typeNDJSON     = "application/x-ndjson"
)

// client speaks to the API.
type client struct {
	base string // without a slash at the end
	key  string
	http *http.Client
}

// newClient reads the key, from the file before the variable. No message
// repeats what may be one.
func newClient(f *flags, getenv func(string) string, p *problems) *client {
	key, from := getenv("TUNDISH_KEY"), "TUNDISH_KEY"
	if f.KeyFile != "" {
		from = "--key-file"
		data, err := os.ReadFile(f.KeyFile)
		if key = strings.TrimSpace(string(data)); err != nil {
			p.add("--key-file: %v", err)
		} else if key == "" {
			p.add("--key-file: the file is empty")
		}
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		p.add("%s: it holds more than one key: spaces, line breaks or characters beyond ASCII", from)
	}
	return &client{base: strings.TrimRight(f.Server, "/"), key: key, http: &http.Client{
		// A key is sent to the server it was meant for, and to no other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// request is one call of the API.
type request struct {
	method string
	path   string // below the base, escaped, with its query
	body   []byte
	kind   string // media type of the body; empty: JSON
	header map[string]string
}

// answer is what the API said, as it said it.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// lostError is a call that got no whole answer: it may have been carried out.
type lostError struct {
	server string
	cause  error
}

func (e *lostError) Error() string { return fmt.Sprintf("no answer from %s: %v", e.server, e.cause) }
func (e *lostError) Unwrap() error { return e.cause }

// do makes one call. What is not a success is an *apiError or a *lostError, or
// the reason for which ctx ended.
func (c *client) do(ctx context.Context, r request) (*answer, error) {
	call, cancel := context.WithTimeoutCause(ctx, requestTimeout, &timedOut{"the request", requestTimeout})
	defer cancel()
	a, err := c.send(call, r)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, why(ctx)
	case err != nil && call.Err() != nil:
		return nil, &lostError{c.base, context.Cause(call)}
	case err != nil:
		return nil, &lostError{c.base, err}
	case a.status < 200 || a.status > 299:
		return nil, newAPIError(a, c)
	}
	return a, nil
}

func (c *client) send(ctx context.Context, r request) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, withoutURL(err)
	}
	req.Header.Set("Accept", typeJSON)
	req.Header.Set("User-Agent", "tundish")
	if len(r.body) > 0 {
		req.Header.Set("Content-Type", typeJSON)
		if r.kind != "" {
			req.Header.Set("Content-Type", r.kind)
		}
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("the answer ended early: %w", err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer is larger than %s", destination.FormatSize(maxAnswer))
	}
	return &answer{resp.StatusCode, resp.Header, body}, nil
}

// withoutURL drops the URL that net/http puts before an error.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if errors.Is(err, io.EOF) {
		return errHungUp
	}
	return err
}

var errHungUp = errors.New("the connection was closed")

// The paths of the API.
const destinationsPath = "/v1/destinations"

func destinationPath(name string) string { return destinationsPath + "/" + url.PathEscape(name) }

func jobPath(name, id string) string { return destinationPath(name) + "/jobs/" + url.PathEscape(id) }
