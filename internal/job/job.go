package job

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// ID names a job: a UUIDv7 as 22 characters of base64url, so ids sort by the
// time they were made and fit a fixed field of the stored envelope.
type ID string

// IDLength is the length of every ID in bytes.
const IDLength = 22

var idEncoding = base64.RawURLEncoding

// NewID makes a fresh ID.
func NewID() ID {
	u := uuid.Must(uuid.NewV7())
	return ID(idEncoding.EncodeToString(u[:]))
}

// ParseID checks that s has the form of an ID.
func ParseID(s string) (ID, error) {
	if len(s) != IDLength {
		return "", fmt.Errorf("job id: %d characters, want %d", len(s), IDLength)
	}
	if _, err := idEncoding.DecodeString(s); err != nil {
		return "", fmt.Errorf("job id: not base64url")
	}
	return ID(s), nil
}

// Time is when the ID was made, to the millisecond; zero when it is not a UUIDv7.
func (id ID) Time() time.Time {
	b, err := idEncoding.DecodeString(string(id))
	if err != nil || len(b) != 16 || b[6]>>4 != 7 {
		return time.Time{}
	}
	ms := int64(b[0])<<40 | int64(b[1])<<32 | int64(b[2])<<24 | int64(b[3])<<16 | int64(b[4])<<8 | int64(b[5])
	return time.UnixMilli(ms).UTC()
}

// Bounds of what a producer may put on a job. They are part of the contract.
const (
	MaxTenantBytes   = 128
	MaxKeyBytes      = 255
	MaxHeaders       = 64
	MaxHeaderBytes   = 32 << 10
	MaxMetadata      = 20
	MaxMetadataBytes = 512
	MaxPathBytes     = 4096
	MaxPriority      = 9
	DefaultPriority  = 5
	// MaxDelay is how far ahead a job may be due: a longer wait needs the calendar.
	MaxDelay = time.Minute
)

// Header is one header field of a request. A list, not a map: order and
// repeated names reach the destination as they were given.
type Header struct {
	Name  string `json:"n"`
	Value string `json:"v"`
}

// Job is one thing to send, as a producer pushed it.
type Job struct {
	ID          ID
	Destination string
	Producer    string // name of the producer's key; empty when the door has no keys
	Tenant      string // fairness key; empty is one tenant of its own
	Priority    int    // 0 (first) to MaxPriority
	CreatedAt   time.Time

	DeliverAt   time.Time     // zero: at once
	Delay       time.Duration // alternative to DeliverAt, from the moment of the push
	ExpiresAt   time.Time     // zero: never
	ExpiresIn   time.Duration // alternative to ExpiresAt
	Timeout     time.Duration // zero: the destination's; may only lower it
	MaxAttempts int           // zero: the destination's; may only lower it

	IdempotencyKey string // as the producer gave it; empty: none
	DownstreamKey  string // what the destination gets on every attempt; fixed at push
	Metadata       map[string]string

	Request Request
}

// Request is what the destination receives.
type Request struct {
	Method      string // empty: the destination's
	Path        string // below the target's URL, with query; may be empty
	Headers     []Header
	ContentType string
	Body        []byte // byte for byte as the producer sent it
}

// Attempt is the record of one request on the wire.
type Attempt struct {
	Number     int       `json:"number"`
	StartedAt  time.Time `json:"started_at"`
	DurationMS int64     `json:"duration_ms"`
	Outcome    Outcome   `json:"outcome"`
	HTTPStatus int       `json:"http_status,omitempty"`
	Error      string    `json:"error,omitempty"`
}

// MaxAttemptsKept is how many attempt records a job carries; the oldest go first.
const MaxAttemptsKept = 20

// Response is what was kept of a destination's answer.
type Response struct {
	HTTPStatus int      `json:"http_status"`
	Headers    []Header `json:"headers,omitempty"`
	Body       []byte   `json:"body,omitempty"`
	Truncated  bool     `json:"truncated,omitempty"`
}
