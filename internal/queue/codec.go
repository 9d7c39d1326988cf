package queue

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tundish/internal/job"
)

// A stored job is an envelope: a header that scripts read (envelope.lua) and a
// body that they do not: the length of the meta data, the meta data, and the
// request's body byte for byte.
// meta is what is stored of a job beside its body. Field names are part of the
// stored format: add, never rename.
type meta struct {
	Method      string            `json:"m,omitempty"`
	Path        string            `json:"p,omitempty"`
	Headers     []job.Header      `json:"h,omitempty"`
	Bytes       map[int][]byte    `json:"hb,omitempty"` // values of Headers that are not UTF-8, which JSON would change
	ContentType string            `json:"ct,omitempty"`
	Key         string            `json:"k,omitempty"`
	Downstream  string            `json:"dk,omitempty"` // none: the key or the id
	Producer    string            `json:"pr,omitempty"`
	Created     int64             `json:"c,omitempty"` // ms; none: the id's
	Deliver     int64             `json:"d,omitempty"`
	Timeout     int64             `json:"t,omitempty"` // ms
	MaxAttempts int               `json:"a,omitempty"`
	Metadata    map[string]string `json:"md,omitempty"`
}

// encodeBody makes the part of the envelope behind the header. What follows
// from the job's id is left out: most jobs have no more than a path and a content type.
func encodeBody(j *job.Job) ([]byte, error) {
	m := meta{
		Method: j.Request.Method, Path: j.Request.Path, Headers: j.Request.Headers, ContentType: j.Request.ContentType,
		Key: j.IdempotencyKey, Producer: j.Producer,
		Timeout: j.Timeout.Milliseconds(), MaxAttempts: j.MaxAttempts, Metadata: j.Metadata,
	}
	m.Bytes = notText(m.Headers)
	if ms := j.CreatedAt.UnixMilli(); ms != j.ID.Time().UnixMilli() {
		m.Created = ms
	}
	if j.DownstreamKey != cmp.Or(j.IdempotencyKey, string(j.ID)) {
		m.Downstream = j.DownstreamKey
	}
	if !j.DeliverAt.IsZero() {
		m.Deliver = j.DeliverAt.UnixMilli()
	} else if j.Delay > 0 {
		m.Deliver = j.CreatedAt.Add(j.Delay).UnixMilli()
	}
	head, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode job: %w", err)
	}
	if string(head) == "{}" {
		head = nil
	}
	out := make([]byte, 0, binary.MaxVarintLen32+len(head)+len(j.Request.Body))
	out = binary.AppendUvarint(out, uint64(len(head)))
	out = append(out, head...)
	return append(out, j.Request.Body...), nil
}

// notText lists by place the values that are not UTF-8: nil for most jobs.
func notText(list []job.Header) map[int][]byte {
	var odd map[int][]byte
	for i, h := range list {
		if utf8.ValidString(h.Value) {
			continue
		}
		if odd == nil {
			odd = map[int][]byte{}
		}
		odd[i] = []byte(h.Value)
	}
	return odd
}

// restore puts back what notText has listed.
func restore(list []job.Header, odd map[int][]byte) {
	for i, value := range odd {
		if i >= 0 && i < len(list) {
			list[i].Value = string(value)
		}
	}
}

// Decode reads a stored envelope. The body is not copied.
func Decode(lane string, id job.ID, envelope []byte) (*job.Job, error) {
	return decode(lane, id, envelope, splitEnvelope)
}

// DecodeHead reads an envelope that was cut behind its meta data: the job has no body.
func DecodeHead(lane string, id job.ID, envelope []byte) (*job.Job, error) {
	return decode(lane, id, envelope, splitHead)
}

// split parts an envelope, or the front of one.
type split func(envelope []byte) (tenant string, expiry int64, body []byte, err error)

func decode(lane string, id job.ID, envelope []byte, split split) (*job.Job, error) {
	tenant, expiry, body, err := split(envelope)
	if err != nil {
		return nil, err
	}
	n, prefix := binary.Uvarint(body)
	if prefix <= 0 || n > uint64(len(body)-prefix) {
		return nil, fmt.Errorf("envelope: meta data of %d bytes in %d", n, len(body))
	}
	head, body := body[prefix:prefix+int(n)], body[prefix+int(n):] //nolint:gosec // bounded by the line above
	var m meta
	if len(head) > 0 {
		if err := json.Unmarshal(head, &m); err != nil {
			return nil, fmt.Errorf("envelope: meta data: %w", err)
		}
	}
	restore(m.Headers, m.Bytes)
	j := &job.Job{
		ID: id, Destination: lane, Producer: m.Producer, Tenant: tenant, Priority: int(envelope[1] - '0'),
		CreatedAt: id.Time(), Timeout: time.Duration(m.Timeout) * time.Millisecond,
		MaxAttempts: m.MaxAttempts, IdempotencyKey: m.Key, DownstreamKey: cmp.Or(m.Downstream, m.Key, string(id)), Metadata: m.Metadata,
		Request: job.Request{Method: m.Method, Path: m.Path, Headers: m.Headers, ContentType: m.ContentType, Body: body},
	}
	if m.Created > 0 {
		j.CreatedAt = time.UnixMilli(m.Created).UTC()
	}
	if m.Deliver > 0 {
		j.DeliverAt = time.UnixMilli(m.Deliver).UTC()
	}
	if expiry > 0 {
		j.ExpiresAt = time.UnixMicro(expiry).UTC()
	}
	return j, nil
}

// orderEnds is where the order ends in a header: version 1, priority 1, order 14.
const orderEnds = 16

// splitEnvelope is splitHead for one that must be whole.
func splitEnvelope(e []byte) (tenant string, expiry int64, body []byte, err error) {
	tenant, expiry, size, body, err := splitHeader(e)
	if err == nil && len(body) != size {
		return "", 0, nil, fmt.Errorf("envelope: %d bytes behind the header, which says %d", len(body), size)
	}
	return tenant, expiry, body, err
}

// splitHead takes what there is of the body.
func splitHead(e []byte) (tenant string, expiry int64, body []byte, err error) {
	tenant, expiry, _, body, err = splitHeader(e)
	return tenant, expiry, body, err
}

// splitHeader reads the header: version, priority and order, then expiry or
// nothing | size | key hash or - | tenant, NUL.
func splitHeader(e []byte) (tenant string, expiry int64, size int, body []byte, err error) {
	head, body, whole := bytes.Cut(e, []byte{0})
	fields := strings.SplitN(string(head), "|", 4)
	first := fields[0]
	if !whole || len(fields) < 4 || len(first) < orderEnds || first[0] != '2' || first[1] < '0' || first[1] > '9' {
		return "", 0, 0, nil, fmt.Errorf("envelope: not of a known version")
	}
	var problem error
	if first = first[orderEnds:]; first != "" {
		expiry, problem = strconv.ParseInt(first, 10, 64)
	}
	size, err = strconv.Atoi(fields[1])
	if err := errors.Join(problem, err); err != nil {
		return "", 0, 0, nil, fmt.Errorf("envelope: header: %w", err)
	}
	return fields[3], expiry, size, body, nil
}
