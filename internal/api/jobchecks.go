package api

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/job"
)

// detailOf is the part of err that callers may read.
func detailOf(err error) string {
	if e, ok := errors.AsType[*job.Error](err); ok && e.Detail != "" {
		return e.Detail
	}
	return err.Error()
}

// readHeaders keeps order and repeated names: lists, not maps, go out.
func (d *jobDraft) readHeaders(at string, raw json.RawMessage) {
	list, ok := members(raw)
	if !ok {
		d.bad(at, "give an object of strings or lists of strings")
		return
	}
	count, size := 0, 0
	for _, m := range list {
		if isNull(m.value) {
			continue
		}
		for _, value := range d.headerValues(at+token(m.name), m) {
			count++
			size += len(m.name) + len(value)
		}
	}
	if count > job.MaxHeaders || size > job.MaxHeaderBytes {
		d.bad(at, "%d headers of %d bytes; at most %d of %d bytes are allowed", count, size, job.MaxHeaders, job.MaxHeaderBytes)
	}
}

func (d *jobDraft) headerValues(at string, m member) []string {
	var values []string
	if list, ok := elements(m.value); ok {
		if len(list) > job.MaxHeaders {
			d.bad(at, "%d values, at most %d are allowed", len(list), job.MaxHeaders)
			return nil
		}
		for i, raw := range list {
			values = d.headerValue(at+"/"+strconv.Itoa(i), m.name, raw, values)
		}
		return values
	}
	return d.headerValue(at, m.name, m.value, values)
}

func (d *jobDraft) headerValue(at, name string, raw json.RawMessage, values []string) []string {
	value, ok := d.text(at, raw)
	if !ok {
		return values
	}
	if strings.EqualFold(name, "Content-Type") {
		d.setContentType(at, value)
		return append(values, value)
	}
	if err := deliver.ValidateHeader(name, value); err != nil {
		d.bad(at, "%s", detailOf(err))
		return values
	}
	d.job.Request.Headers = append(d.job.Request.Headers, job.Header{Name: name, Value: value})
	return append(values, value)
}

// defaultTypes is the content type of each way to give a body.
var defaultTypes = map[string]string{
	"body":        "application/json",
	"body_text":   "text/plain; charset=utf-8",
	"body_base64": "application/octet-stream",
}

// ofHTTP are the fields of a job that make an HTTP request.
var ofHTTP = []string{"method", "path", "headers", "body", "body_text", "body_base64", "content_type"}

// misplaced says why a field does not belong to a job of the destination.
func misplaced(field string, smtp bool) string {
	switch {
	case smtp && slices.Contains(ofHTTP, field):
		return "is for http destinations, and this one sends mail; give email"
	case !smtp && field == "email":
		return "is for smtp destinations, and this one sends HTTP requests; give body"
	}
	return ""
}

// checkBody sees that there is one body at most and that it has a type.
func (d *jobDraft) checkBody() {
	var way string
	for _, name := range []string{"body", "body_text", "body_base64"} {
		switch {
		case !d.has(name):
		case way != "":
			d.bad("/"+name, "give only one of body, body_text and body_base64")
		default:
			way = name
		}
	}
	if d.contract.SMTP != nil {
		if !d.has("email") {
			d.bad("/email", "is missing: the destination sends mail")
		}
		return
	}
	if way == "" {
		if d.has("content_type") {
			d.bad("/content_type", "there is no body to have a type")
		}
		return
	}
	if d.job.Request.ContentType == "" {
		d.job.Request.ContentType = defaultTypes[way]
	}
}

func (d *jobDraft) readDelay(at string, raw json.RawMessage) {
	t, ok := d.duration(at, raw, 0, maxTime)
	if !ok {
		return
	}
	if t > job.MaxDelay {
		d.unsupported(at, calendarMissing, job.MaxDelay)
		return
	}
	d.job.Delay = t
}

const calendarMissing = "more than %s ahead needs the calendar, which is not built yet"

// maxTime is how far ahead a time may lie; it also keeps microseconds within
// what a double of the store holds exactly.
const maxTime = 10 * 366 * 24 * time.Hour

// longPast is when a deliver_at counts as "at once" by our own clock, which
// may differ a little from the store's.
const longPast = time.Minute

func (d *jobDraft) readDeliverAt(at string, raw json.RawMessage) {
	t, ok := d.moment(at, raw)
	if !ok {
		return
	}
	ahead := t.Sub(d.now)
	switch {
	case ahead > job.MaxDelay:
		d.unsupported(at, calendarMissing, job.MaxDelay)
	case ahead > -longPast:
		d.job.DeliverAt = t
	}
}

func (d *jobDraft) readExpiresAt(at string, raw json.RawMessage) {
	t, ok := d.moment(at, raw)
	if !ok {
		return
	}
	if t.Sub(d.now) > maxTime {
		d.bad(at, "is too far ahead; leave it out for a job that never expires")
		return
	}
	// A time before the epoch has passed like any other and has no place in
	// the store's microseconds.
	if t.Unix() < 1 {
		t = time.Unix(1, 0)
	}
	d.job.ExpiresAt = t
}

func (d *jobDraft) readExpiresIn(at string, raw json.RawMessage) {
	if t, ok := d.duration(at, raw, time.Millisecond, maxTime); ok {
		d.job.ExpiresIn = t
	}
}

// checkTimes looks at the relations that hold at any moment, so that a
// repeated push is judged as the first was.
func (d *jobDraft) checkTimes() {
	j := d.job
	if d.has("delay") && d.has("deliver_at") {
		d.bad("/delay", "give only one of delay and deliver_at")
	}
	if d.has("expires_in") && d.has("expires_at") {
		d.bad("/expires_in", "give only one of expires_in and expires_at")
	}
	if j.ExpiresIn > 0 && j.Delay >= j.ExpiresIn {
		d.bad("/expires_in", "the job would expire before it is due: delay is %s", j.Delay)
	}
	if !j.ExpiresAt.IsZero() && !j.DeliverAt.IsZero() && !j.ExpiresAt.After(j.DeliverAt) {
		d.bad("/expires_at", "the job would expire before it is due: give a time after deliver_at")
	}
}

// checkExpiry refuses a job that could only expire. One with an Idempotency-Key
// may be the repeat of a push that came in time, which is answered with the
// first job; when it is none, it is taken and has expired.
func checkExpiry(j *job.Job, now time.Time) error {
	if j.IdempotencyKey != "" || j.ExpiresAt.IsZero() || j.ExpiresAt.After(now) {
		return nil
	}
	return invalid([]job.FieldError{{Pointer: "/expires_at", Detail: "has passed; give a time to come", Code: job.CodeInvalid}})
}
