package queue

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"tundish/internal/job"
)

// A stored job is an envelope: a header that scripts read (envelope.lua) and a
// body that they do not: the length of the meta data, the meta data, and the
// request's body byte for byte.
const headerFixed = 64

// meta is what is stored of a job beside its body. Field names are part of the
// stored format: add, never rename.
type meta struct {
	Method      string            `json:"m,omitempty"`
	Path        string            `json:"p,omitempty"`
	Headers     []job.Header      `json:"h,omitempty"`
	ContentType string            `json:"ct,omitempty"`
	Key         string            `json:"k,omitempty"`
	Downstream  string            `json:"dk,omitempty"`
	Producer    string            `json:"pr,omitempty"`
	Created     int64             `json:"c"` // ms
	Deliver     int64             `json:"d,omitempty"`
	Timeout     int64             `json:"t,omitempty"` // ms
	MaxAttempts int               `json:"a,omitempty"`
	Metadata    map[string]string `json:"md,omitempty"`
}

// encodeBody makes the part of the envelope behind the header.
func encodeBody(j *job.Job) ([]byte, error) {
	m := meta{
		Method: j.Request.Method, Path: j.Request.Path, Headers: j.Request.Headers, ContentType: j.Request.ContentType,
		Key: j.IdempotencyKey, Downstream: j.DownstreamKey, Producer: j.Producer, Created: j.CreatedAt.UnixMilli(),
		Timeout: j.Timeout.Milliseconds(), MaxAttempts: j.MaxAttempts, Metadata: j.Metadata,
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
	out := make([]byte, 0, 4+len(head)+len(j.Request.Body))
	out = binary.BigEndian.AppendUint32(out, uint32(len(head))) //nolint:gosec // bounded by the door's bounds on headers and metadata
	out = append(out, head...)
	return append(out, j.Request.Body...), nil
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
	if len(body) < 4 {
		return nil, fmt.Errorf("envelope: no meta data")
	}
	n := int(binary.BigEndian.Uint32(body))
	if n > len(body)-4 {
		return nil, fmt.Errorf("envelope: meta data of %d bytes in %d", n, len(body))
	}
	var m meta
	if err := json.Unmarshal(body[4:4+n], &m); err != nil {
		return nil, fmt.Errorf("envelope: meta data: %w", err)
	}
	j := &job.Job{
		ID: id, Destination: lane, Producer: m.Producer, Tenant: tenant, Priority: int(envelope[1] - '0'),
		CreatedAt: time.UnixMilli(m.Created).UTC(), Timeout: time.Duration(m.Timeout) * time.Millisecond,
		MaxAttempts: m.MaxAttempts, IdempotencyKey: m.Key, DownstreamKey: m.Downstream, Metadata: m.Metadata,
		Request: job.Request{Method: m.Method, Path: m.Path, Headers: m.Headers, ContentType: m.ContentType, Body: body[4+n:]},
	}
	if m.Deliver > 0 {
		j.DeliverAt = time.UnixMilli(m.Deliver).UTC()
	}
	if expiry > 0 {
		j.ExpiresAt = time.UnixMicro(expiry).UTC()
	}
	return j, nil
}

// splitEnvelope is splitHead for one that must be whole.
func splitEnvelope(e []byte) (tenant string, expiry int64, body []byte, err error) {
	tenant, expiry, body, err = splitHead(e)
	if err != nil {
		return "", 0, nil, err
	}
	if size, err := strconv.Atoi(string(e[32:40])); err != nil || len(body) != size {
		return "", 0, nil, fmt.Errorf("envelope: %d bytes behind the tenant, and the header says %.8q", len(body), e[32:40])
	}
	return tenant, expiry, body, nil
}

// splitHead reads the header: version 1, priority 1, order 14, expiry 16,
// size 8, key hash 22, tenant length 2 hex, tenant.
func splitHead(e []byte) (tenant string, expiry int64, body []byte, err error) {
	if len(e) < headerFixed || e[0] != '1' || e[1] < '0' || e[1] > '9' {
		return "", 0, nil, fmt.Errorf("envelope: not of a known version")
	}
	expiry, err1 := strconv.ParseInt(string(e[16:32]), 10, 64)
	length, err2 := strconv.ParseUint(string(e[62:64]), 16, 8)
	if err := errors.Join(err1, err2); err != nil {
		return "", 0, nil, fmt.Errorf("envelope: header: %w", err)
	}
	body = e[headerFixed:]
	if len(body) < int(length) {
		return "", 0, nil, fmt.Errorf("envelope: %d bytes behind the header, and the tenant has %d", len(body), length)
	}
	return string(body[:length]), expiry, body[length:], nil
}
