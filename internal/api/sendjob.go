package api

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"unicode/utf8"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
)

// sendOptions are the fields of a job that a request says in headers of its
// own; all else of the job is the request.
var sendOptions = []string{"tenant", "priority", "deliver_at", "delay", "expires_in", "timeout", "max_attempts", "metadata", "callback_url"}

// optionFields are the fields by header, optionHeaders the headers by field.
var optionFields, optionHeaders = func() (map[string]string, map[string]string) {
	fields, headers := map[string]string{}, map[string]string{}
	for _, field := range sendOptions {
		name := http.CanonicalHeaderKey("Tundish-" + strings.ReplaceAll(field, "_", "-"))
		fields[name], headers[field] = field, name
	}
	return fields, headers
}()

// ownFields are headers of ours that are no options: the key, and what another
// Tundish says of its own job when it sends one to this.
var ownFields = []string{"Tundish-Key", "Tundish-Job-Id", "Tundish-Attempt"}

// bareFields are written in a header as in JSON; the others are texts.
var bareFields = []string{"priority", "max_attempts", "metadata"}

// sentAs makes a job of a request; path is that of the job.
type sentAs struct {
	api  *API
	path string
}

func (s sentAs) read(ctx context.Context, contract *destination.Contract) (*job.Job, error) {
	c := callOf(ctx)
	if contract.SMTP != nil {
		return nil, job.Errorf(job.CodeInvalid, "the destination sends mail, and a request is no mail; push a job with email")
	}
	key, err := headerKey(c.r.Header)
	if err != nil {
		return nil, err
	}
	j, err := s.draft(c, contract)
	if err != nil {
		return nil, err
	}
	// Read last: a caller that waits for 100 Continue need not send it in vain.
	if j.Request.Body, err = c.readBytes(contract.Queue.MaxJobBytes); err != nil {
		return nil, err
	}
	j.IdempotencyKey = key
	fixKey(j, contract)
	return j, nil
}

// draft makes the job but for its key and its body.
func (s sentAs) draft(c *call, contract *destination.Contract) (*job.Job, error) {
	now := s.api.cfg.Now()
	d := &jobDraft{now: now, contract: contract, job: &job.Job{
		ID: job.NewID(), Destination: contract.Name, Producer: c.producer.name, Priority: job.DefaultPriority, CreatedAt: now,
	}}
	d.readMethod("/method", quoted(c.r.Method))
	d.readPath("/path", quoted(s.path))
	d.takeOptions(c.r.Header)
	d.takeHeaders(c.r.Header)
	d.checkTimes()
	d.pointToHeaders()
	return d.job, invalid(d.fieldErrors)
}

// quoted writes a text as the readers of a job's fields want it.
func quoted(s string) json.RawMessage {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	return raw
}

// takeOptions reads the options, all through the readers of a job's fields.
func (d *jobDraft) takeOptions(h http.Header) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if !strings.HasPrefix(name, "Tundish-") || slices.Contains(ownFields, name) {
			continue
		}
		field, known := optionFields[name]
		switch values := h[name]; {
		case !known:
			d.bad("/header"+token(name), "unknown option; there are %s", strings.Join(slices.Sorted(maps.Keys(optionFields)), ", "))
		case len(values) > 1:
			d.bad("/"+field, "is given %d times", len(values))
		default:
			d.takeOption(field, strings.Trim(values[0], " \t"))
		}
	}
}

func (d *jobDraft) takeOption(field, value string) {
	at, raw := "/"+field, quoted(value)
	if slices.Contains(bareFields, field) {
		raw = json.RawMessage(value)
	}
	read, built := jobFields[field]
	switch {
	case !built:
		d.unsupported(at, "%s", notBuilt[field])
	case !utf8.ValidString(value):
		d.bad(at, "is not UTF-8")
	case field == "metadata" && !json.Valid(raw):
		d.bad(at, "is not JSON; give an object of strings")
	default:
		d.given = append(d.given, field)
		read(d, at, raw)
	}
}

// takeHeaders keeps the headers that are the destination's. Values of one name
// stay in order; names have none in a request.
func (d *jobDraft) takeHeaders(h http.Header) {
	named := connectionOptions(h)
	count, size := 0, 0
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if named[name] || !passesOn(name) {
			continue
		}
		values := h[name]
		if name == "Prefer" {
			_, values = preferences(values)
		}
		for _, value := range values {
			count++
			size += len(name) + len(value)
			d.takeHeader(name, value)
		}
	}
	if count > job.MaxHeaders || size > job.MaxHeaderBytes {
		d.bad("/header", "%d headers of %d bytes; at most %d of %d bytes are allowed", count, size, job.MaxHeaders, job.MaxHeaderBytes)
	}
}

func (d *jobDraft) takeHeader(name, value string) {
	if name == "Content-Type" {
		switch {
		case !utf8.ValidString(value): // it is kept as text
			d.bad("/content_type", "is not UTF-8")
		case value != "":
			d.setContentType("/content_type", value)
		}
		return
	}
	if err := deliver.ValidateHeader(name, value); err != nil {
		d.bad("/header"+token(name), "%s", detailOf(err))
		return
	}
	d.job.Request.Headers = append(d.job.Request.Headers, job.Header{Name: name, Value: value})
}

// connectionOptions are the headers that Connection names: they belong to the
// caller's connection (RFC 9110 §7.6.1).
func connectionOptions(h http.Header) map[string]bool {
	named := map[string]bool{}
	for _, value := range h["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			named[textproto.CanonicalMIMEHeaderKey(strings.Trim(name, " \t"))] = true
		}
	}
	return named
}

// ofCaller are headers that a destination does not get from a caller: who it
// is, and by which way the request came here. Accept-Encoding is one because
// the answer is Tundish's to keep, and Tracestate belongs to a Traceparent
// that is ours.
var ofCaller = map[string]bool{
	"Authorization": true, "Cookie": true,
	"Forwarded": true, "Via": true, "X-Real-Ip": true, "X-Client-Ip": true, "X-Cluster-Client-Ip": true,
	"True-Client-Ip": true, "Cf-Connecting-Ip": true, "Fastly-Client-Ip": true, "X-Original-Forwarded-For": true,
	"Accept-Encoding": true, "Tracestate": true,
}

// passesOn says whether a header reaches the destination; what a job may not
// carry does not.
func passesOn(name string) bool {
	return !ofCaller[name] && !strings.HasPrefix(name, "X-Forwarded-") && deliver.ValidateHeader(name, "") == nil
}

// pointToHeaders makes problems with fields point to the headers that gave them.
func (d *jobDraft) pointToHeaders() {
	for i, e := range d.fieldErrors {
		field, rest, more := strings.Cut(e.Pointer[1:], "/")
		name := optionHeaders[field]
		if field == "content_type" {
			name = "Content-Type"
		}
		if name == "" {
			continue
		}
		d.fieldErrors[i].Pointer = "/header/" + name
		if more {
			d.fieldErrors[i].Pointer += "/" + rest
		}
	}
}
