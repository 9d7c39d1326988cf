package api

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"slices"
	"strings"
	"time"
	"unicode"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
)

// jobSchema describes a job to readers of the OpenAPI document. What is
// accepted is decided by jobFields; a test compares the two.
type jobSchema struct {
	_ struct{} `json:"-" additionalProperties:"false"`

	Method         string            `json:"method,omitempty" example:"POST" doc:"HTTP method; the destination's own when left out"`
	Path           string            `json:"path,omitempty" example:"/payouts?mode=fast" doc:"Below the target's URL, with query"`
	Headers        map[string]any    `json:"headers,omitempty" doc:"Name to string or list of strings, sent in this order"`
	Body           any               `json:"body,omitempty" doc:"Any JSON, sent byte for byte as received"`
	BodyText       string            `json:"body_text,omitempty" doc:"Instead of body: text"`
	BodyBase64     string            `json:"body_base64,omitempty" doc:"Instead of body: bytes"`
	ContentType    string            `json:"content_type,omitempty" doc:"Of the body; the default is application/json, text/plain or application/octet-stream"`
	Email          *emailSchema      `json:"email,omitempty" doc:"For smtp destinations, instead of method, path, headers and body"`
	IdempotencyKey string            `json:"idempotency_key,omitempty" maxLength:"255" doc:"Visible ASCII; the same as the Idempotency-Key header"`
	Tenant         string            `json:"tenant,omitempty" maxLength:"128" doc:"Fairness key"`
	Priority       int               `json:"priority,omitempty" minimum:"0" maximum:"9" default:"5" doc:"0 goes first"`
	DeliverAt      string            `json:"deliver_at,omitempty" format:"date-time" doc:"At most 60 s ahead"`
	Delay          string            `json:"delay,omitempty" example:"10s" doc:"Instead of deliver_at, at most 60s"`
	ExpiresAt      string            `json:"expires_at,omitempty" format:"date-time" doc:"Not sent at or after this time"`
	ExpiresIn      string            `json:"expires_in,omitempty" example:"1h" doc:"Instead of expires_at"`
	Timeout        string            `json:"timeout,omitempty" example:"5s" doc:"Of one attempt; may only lower the destination's"`
	MaxAttempts    int               `json:"max_attempts,omitempty" minimum:"1" doc:"May only lower the destination's"`
	Metadata       map[string]string `json:"metadata,omitempty" doc:"Up to 20 strings, given back with the job"`
}

// jobDraft is a job while it is being read.
type jobDraft struct {
	fieldErrors
	now      time.Time
	contract *destination.Contract
	job      *job.Job
	given    []string
	keyError error
}

// jobFields is every field of a job and how it is read.
var jobFields = map[string]func(d *jobDraft, at string, raw json.RawMessage){
	"method":          (*jobDraft).readMethod,
	"path":            (*jobDraft).readPath,
	"headers":         (*jobDraft).readHeaders,
	"body":            (*jobDraft).readBody,
	"body_text":       (*jobDraft).readBodyText,
	"body_base64":     (*jobDraft).readBodyBase64,
	"content_type":    (*jobDraft).readContentType,
	"email":           (*jobDraft).readEmail,
	"idempotency_key": (*jobDraft).readKey,
	"tenant":          (*jobDraft).readTenant,
	"priority":        (*jobDraft).readPriority,
	"deliver_at":      (*jobDraft).readDeliverAt,
	"delay":           (*jobDraft).readDelay,
	"expires_at":      (*jobDraft).readExpiresAt,
	"expires_in":      (*jobDraft).readExpiresIn,
	"timeout":         (*jobDraft).readTimeout,
	"max_attempts":    (*jobDraft).readMaxAttempts,
	"metadata":        (*jobDraft).readMetadata,
}

// notBuilt are the fields of a job whose part is not built yet.
var notBuilt = map[string]string{
	"callback_url": "callbacks are not built yet",
}

// parseJob reads one job from raw, which must be valid JSON. The error holds
// every problem at once.
func parseJob(raw []byte, producer string, c *destination.Contract, now time.Time) (*job.Job, error) {
	d := &jobDraft{now: now, contract: c, job: &job.Job{
		ID: job.NewID(), Destination: c.Name, Producer: producer, Priority: job.DefaultPriority, CreatedAt: now,
	}}
	list, ok := members(raw)
	if !ok {
		d.bad("", "a job is a JSON object")
		return nil, invalid(d.fieldErrors)
	}
	d.given = make([]string, 0, len(list))
	d.once("", list, d.read)
	d.checkBody()
	d.checkTimes()
	if d.keyError != nil {
		return nil, d.keyError
	}
	if err := invalid(d.fieldErrors); err != nil {
		return nil, err
	}
	if n := int64(len(d.job.Request.Body)); n > c.Queue.MaxJobBytes {
		return nil, tooLarge("the job's body has %d bytes, the destination takes %d", n, c.Queue.MaxJobBytes)
	}
	return d.job, nil
}

func (d *jobDraft) has(name string) bool { return slices.Contains(d.given, name) }

func tooLarge(format string, args ...any) error {
	return job.Errorf(job.CodeTooLarge, format, args...)
}

func (d *jobDraft) read(m member) {
	if why := misplaced(m.name, d.contract.SMTP != nil); why != "" {
		d.bad(token(m.name), "%s", why)
		return
	}
	if read, ok := jobFields[m.name]; ok {
		d.given = append(d.given, m.name)
		read(d, "/"+m.name, m.value) // a name of ours needs no escape
		return
	}
	at := token(m.name)
	if why, ok := notBuilt[m.name]; ok {
		d.unsupported(at, "%s", why)
		return
	}
	d.bad(at, "unknown field; a job has %s", known(jobFields))
}

const maxMethod = 20

func (d *jobDraft) readMethod(at string, raw json.RawMessage) {
	s, ok := d.text(at, raw)
	if !ok {
		return
	}
	if s == "" || len(s) > maxMethod || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" || s == "CONNECT" || s == "TRACE" {
		d.bad(at, "give a method in capitals, such as POST; CONNECT and TRACE are not allowed")
		return
	}
	d.job.Request.Method = s
}

func (d *jobDraft) readPath(at string, raw json.RawMessage) {
	s, ok := d.text(at, raw)
	if !ok {
		return
	}
	if len(s) > job.MaxPathBytes {
		d.bad(at, "%d bytes, at most %d are allowed", len(s), job.MaxPathBytes)
		return
	}
	if err := deliver.ValidatePath(d.contract.Target.URL, s); err != nil {
		d.bad(at, "%s", detailOf(err))
		return
	}
	d.job.Request.Path = s
}

func (d *jobDraft) readBody(_ string, raw json.RawMessage) { d.job.Request.Body = raw }

func (d *jobDraft) readBodyText(at string, raw json.RawMessage) {
	if s, ok := d.text(at, raw); ok {
		d.job.Request.Body = []byte(s)
	}
}

func (d *jobDraft) readBodyBase64(at string, raw json.RawMessage) {
	s, ok := d.text(at, raw)
	if !ok {
		return
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		d.bad(at, "is not base64 of the standard alphabet with padding")
		return
	}
	d.job.Request.Body = b
}

const maxContentType = 255

func (d *jobDraft) readContentType(at string, raw json.RawMessage) {
	if s, ok := d.text(at, raw); ok {
		d.setContentType(at, s)
	}
}

func (d *jobDraft) setContentType(at, s string) {
	_, _, err := mime.ParseMediaType(s)
	if err != nil || len(s) > maxContentType || !strings.Contains(s, "/") || deliver.ValidateHeader("Content-Type", s) != nil {
		d.bad(at, "is not a media type, such as application/json")
		return
	}
	if d.job.Request.ContentType != "" {
		d.bad(at, "the content type is given twice")
		return
	}
	d.job.Request.ContentType = s
}

func (d *jobDraft) readKey(at string, raw json.RawMessage) {
	s, ok := d.text(at, raw)
	if !ok {
		return
	}
	if err := checkKey(s); err != nil {
		d.keyError = err
		return
	}
	d.job.IdempotencyKey = s
}

func (d *jobDraft) readTenant(at string, raw json.RawMessage) {
	s, ok := d.text(at, raw)
	if !ok {
		return
	}
	if len(s) > job.MaxTenantBytes || strings.ContainsFunc(s, unicode.IsControl) {
		d.bad(at, "give at most %d bytes without control characters", job.MaxTenantBytes)
		return
	}
	d.job.Tenant = s
}

func (d *jobDraft) readPriority(at string, raw json.RawMessage) {
	if n, ok := d.whole(at, raw, 0, job.MaxPriority); ok {
		d.job.Priority = n
	}
}

const minTimeout = 100 * time.Millisecond

func (d *jobDraft) readTimeout(at string, raw json.RawMessage) {
	if t, ok := d.duration(at, raw, minTimeout, d.contract.Timeout()); ok {
		d.job.Timeout = t
	}
}

func (d *jobDraft) readMaxAttempts(at string, raw json.RawMessage) {
	if n, ok := d.whole(at, raw, 1, d.contract.Retry.MaxAttempts); ok {
		d.job.MaxAttempts = n
	}
}

func (d *jobDraft) readMetadata(at string, raw json.RawMessage) {
	list, ok := members(raw)
	if !ok {
		d.bad(at, "give an object of strings")
		return
	}
	if len(list) > job.MaxMetadata {
		d.bad(at, "%d strings, at most %d are allowed", len(list), job.MaxMetadata)
		return
	}
	d.job.Metadata = make(map[string]string, len(list))
	d.once(at, list, func(m member) {
		s, ok := d.text(at+token(m.name), m.value)
		if ok && len(m.name)+len(s) > job.MaxMetadataBytes {
			d.bad(at+token(m.name), "name and value have %d bytes, at most %d are allowed", len(m.name)+len(s), job.MaxMetadataBytes)
		}
		d.job.Metadata[m.name] = s
	})
}
