package queue

import (
	"encoding/json"
	"time"

	"tundish/internal/job"
)

// Note is what is kept of a job beside its state: with each try its attempts
// so far, at its end all that is shown of it later. Field names are part of
// the stored format: add, never rename.
type Note struct {
	Redrives int           `json:"rd,omitempty"` // how often a person sent it again
	Reason   string        `json:"rs,omitempty"` // of the person who resolved it
	Attempts []job.Attempt `json:"a,omitempty"`
	Response *job.Response `json:"r,omitempty"`
	// Values of the response's headers that are not UTF-8; filled in by Encode.
	Bytes map[int][]byte `json:"rb,omitempty"`
	// How often the destination said "later" to the job, and in which slot last, µs.
	Throttled   int   `json:"n,omitempty"`
	ThrottledAt int64 `json:"na,omitempty"`

	Producer string            `json:"pr,omitempty"`
	Tenant   string            `json:"t,omitempty"`
	Priority int               `json:"p,omitempty"`
	Created  time.Time         `json:"c,omitzero"`
	Deliver  time.Time         `json:"d,omitzero"`
	Expires  time.Time         `json:"e,omitzero"`
	Metadata map[string]string `json:"m,omitempty"`
}

// Encode writes the note for storing. A note holds only what JSON can hold.
func (n *Note) Encode() []byte {
	stored := *n
	if n.Response != nil {
		stored.Bytes = notText(n.Response.Headers)
	}
	text, err := json.Marshal(&stored)
	if err != nil {
		return []byte("{}")
	}
	return text
}

// DecodeNote reads a stored note; what cannot be read is an empty one.
func DecodeNote(text []byte) Note {
	var n Note
	if len(text) > 0 && json.Unmarshal(text, &n) != nil {
		return Note{}
	}
	if n.Response != nil {
		restore(n.Response.Headers, n.Bytes)
	}
	n.Bytes = nil
	return n
}

// FinalNote is what is kept of a job that ends.
func FinalNote(j *job.Job, attempts []job.Attempt) *Note {
	return &Note{Attempts: attempts, Producer: j.Producer, Tenant: j.Tenant, Priority: j.Priority, Created: j.CreatedAt,
		Deliver: j.DeliverAt, Expires: j.ExpiresAt, Metadata: j.Metadata}
}

// carry takes over what is kept of a job through its ends.
func (n *Note) carry(from *Note) {
	n.Attempts, n.Response, n.Redrives, n.Reason = from.Attempts, from.Response, from.Redrives, from.Reason
}

// Add appends an attempt and lets the oldest go beyond what a job carries.
func (n *Note) Add(a job.Attempt) {
	n.Attempts = append(n.Attempts, a)
	if over := len(n.Attempts) - job.MaxAttemptsKept; over > 0 {
		n.Attempts = n.Attempts[over:]
	}
}
