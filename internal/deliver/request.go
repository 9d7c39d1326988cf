package deliver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"tundish/internal/destination"
)

// outgoing is a request that is ready to be written.
type outgoing struct {
	target target
	method string
	url    *url.URL
	host   string // of the contract's Host header; empty: the URL's
	header http.Header
	body   []byte
	keep   *destination.KeepResponse
	hide   hiding // what must not be kept
	own    bool   // the job brought its Authorization
}

// build makes the request of an attempt. An error means that it can never be sent.
func build(a *Attempt, e *equipment, userAgent string) (*outgoing, error) {
	t := &a.Contract.Target
	method := firstOf(a.Job.Request.Method, t.Method, http.MethodPost)
	if err := ValidateMethod(method); err != nil {
		return nil, err
	}
	u, err := join(t.URL, a.Job.Request.Path)
	if err != nil {
		return nil, err
	}
	out := &outgoing{
		target: target{scheme: u.Scheme, addr: hostPort(u), identity: e.identity},
		method: method,
		url:    u,
		header: make(http.Header, 12),
		body:   a.Job.Request.Body,
		keep:   &t.Keep,
		hide:   e.hide,
	}
	if t.HTTP2 {
		out.target.pings = pingsOf(timeoutOf(&Attempt{Contract: a.Contract}))
	}
	if err := out.fillHeader(a, e, userAgent); err != nil {
		return nil, err
	}
	out.sign(a, e.sign)
	out.emptyLength()
	return out, nil
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// fillHeader puts the headers together. A job's header takes the place of the
// contract's of the same name, but for Authorization: what the operator wrote
// there a producer does not replace. What Tundish itself says comes last and wins.
func (o *outgoing) fillHeader(a *Attempt, e *equipment, userAgent string) error {
	if err := o.contractHeaders(e.headers); err != nil {
		return err
	}
	if e.authorization != "" {
		o.header.Set("Authorization", e.authorization)
	}
	if err := o.jobHeaders(a); err != nil {
		return err
	}
	if _, named := o.header["User-Agent"]; !named {
		o.header.Set("User-Agent", userAgent)
	}
	if err := o.ownHeaders(a); err != nil {
		return err
	}
	o.trimValues()
	return nil
}

// trimValues takes the spaces off the ends of values, where they are not allowed:
// HTTP/1.1 would be written without them, and over HTTP/2 some refuse the request.
func (o *outgoing) trimValues() {
	for _, values := range o.header {
		for i, v := range values {
			values[i] = strings.Trim(v, " \t")
		}
	}
}

func (o *outgoing) contractHeaders(headers []destination.Header) error {
	for _, h := range headers {
		if err := validField(h.Name, h.Value); err != nil {
			return fmt.Errorf("contract: %w", err)
		}
		if http.CanonicalHeaderKey(h.Name) == "Host" {
			o.host = h.Value
			continue
		}
		if err := ValidateHeader(h.Name, h.Value); err != nil {
			return fmt.Errorf("contract: %w", err)
		}
		o.header.Add(h.Name, h.Value)
	}
	return nil
}

func (o *outgoing) jobHeaders(a *Attempt) error {
	r := &a.Job.Request
	if r.ContentType != "" {
		if err := validField("Content-Type", r.ContentType); err != nil {
			return err
		}
		o.header.Set("Content-Type", r.ContentType)
	}
	_, contracted := o.header["Authorization"]
	given := make(map[string]bool, len(r.Headers))
	for _, h := range r.Headers {
		if err := ValidateHeader(h.Name, h.Value); err != nil {
			return err
		}
		name := http.CanonicalHeaderKey(h.Name)
		if name == "Authorization" && contracted {
			continue
		}
		o.own = o.own || name == "Authorization"
		if !given[name] {
			o.header.Del(name)
			given[name] = true
		}
		o.header.Add(name, h.Value)
	}
	return nil
}

func (o *outgoing) ownHeaders(a *Attempt) error {
	key := firstOf(a.Key, string(a.Job.ID))
	if name := a.Contract.Idempotency.Header; name != "" {
		if err := validField(name, key); err != nil {
			return err
		}
		o.header.Set(name, key)
	}
	if err := validField("Tundish-Job-Id", string(a.Job.ID)); err != nil {
		return err
	}
	o.header.Set("Tundish-Job-Id", string(a.Job.ID))
	o.header.Set("Tundish-Attempt", strconv.Itoa(max(a.Number, 1)))
	trace := a.Traceparent
	if trace == "" || validField("Traceparent", trace) != nil {
		trace = newTraceparent()
	}
	o.header.Set("Traceparent", trace)
	return nil
}

// newTraceparent starts a W3C trace. Its flags are 00: nothing was recorded here.
func newTraceparent() string {
	var id [24]byte
	rand.Read(id[:]) // never fails
	return "00-" + hex.EncodeToString(id[:16]) + "-" + hex.EncodeToString(id[16:]) + "-00"
}

// request makes the http.Request for one write. The body is never nil nor
// http.NoBody and GetBody is never set, so that nothing takes the request for
// one that can be repeated. Only HTTP/2 gets an empty body as http.NoBody: it
// would say no length of another, and a ClientConn of it repeats nothing.
func (o *outgoing) request(ctx context.Context, http2 bool) *http.Request {
	r := &http.Request{
		Method: o.method, URL: o.url, Host: o.host, Header: o.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		// net/http knows this combination as one in memory and writes headers
		// and body together.
		Body:          io.NopCloser(bytes.NewReader(o.body)),
		ContentLength: int64(len(o.body)),
	}
	switch {
	case len(o.body) > 0:
	case http2:
		r.Body = http.NoBody
	default:
		r.TransferEncoding = []string{"identity"}
	}
	return r.WithContext(ctx)
}

// emptyLength gives an empty body its Content-Length. net/http takes such a body
// for one of unknown length and would send it chunked; "identity" in request
// rules that out, but then it writes no Content-Length of its own and drops ours
// in its canonical spelling. In lower case, the same to every reader (RFC 9110
// §5.1), it passes.
func (o *outgoing) emptyLength() {
	if len(o.body) > 0 {
		return
	}
	switch o.method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return // nobody expects a length there
	}
	o.header["content-length"] = []string{"0"}
}

func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
