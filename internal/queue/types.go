package queue

import (
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// Verdict says what became of one pushed job.
type Verdict string

// The verdicts of a push.
const (
	Accepted  Verdict = "accepted"
	Replayed  Verdict = "replayed" // the key was used for the same request: ID is the first job's
	Conflict  Verdict = "conflict" // the key was used for another request
	Full      Verdict = "full"
	BytesFull Verdict = "bytes_full"
	ShareFull Verdict = "share_full"
	Paused    Verdict = "paused" // and the contract refuses pushes while paused
)

// PushResult is the answer to one pushed job.
type PushResult struct {
	Verdict     Verdict
	ID          job.ID    // accepted: the job's own; replayed: the first job's
	State       job.State // accepted: ready or scheduled; replayed: the first job's state now
	Depth       int64     // live jobs of the destination after this job
	Capacity    int64
	Unconfirmed bool // accepted or replayed, and not known to be as durable as was asked
	// EstimatedSendAt is when a job pushed now would be written if nothing
	// overtakes it; zero when the destination is paused.
	EstimatedSendAt time.Time
	// RetryAfter, with Full, BytesFull and ShareFull: how long until the next
	// place is free. Spreading callers is the door's work.
	RetryAfter time.Duration
	// DrainPerSecond is the rate at which places become free, for that spreading.
	DrainPerSecond float64
}

// Status is a job as it stands in Redis now.
type Status struct {
	Job        *job.Job // nil when only the end is kept
	ID         job.ID
	State      job.State
	Outcome    string // of the last attempt, or why it ended ("expired", "worker_crashed")
	Producer   string
	Tenant     string
	Priority   int
	CreatedAt  time.Time
	DeliverAt  time.Time
	ExpiresAt  time.Time
	FinishedAt time.Time
	Attempts   []job.Attempt
	Response   *job.Response
	Redrives   int    // how often a person sent it again
	Reason     string // of the person who resolved it
	Metadata   map[string]string
	// Position counts the jobs of the same tenant that go before it; 0 is next.
	Position        int64
	EstimatedSendAt time.Time
	WaitingFor      string // what binds: "limit", "pause", "in_flight_cap", "its_time", "back_off", "faulty"; empty when ended

	// mark is what a script compares, to see that the job is as it was read: of
	// a live one the requests sent so far, of an ended one its end.
	mark string
	sent int
}

// Live is the state of a destination's lane now.
type Live struct {
	State         string   // running, paused, faulty
	StateReasons  []string // e.g. "paused by operator: reason"
	Depth         int64
	Ready         int64
	Waiting       int64 // back-off and short delays
	Leased        int64
	Scheduled     int64
	Dead          int64
	Unknown       int64
	SizeBytes     int64
	OldestAge     time.Duration
	Drain         time.Duration // until empty at the granted rate
	RatePerSecond float64       // as granted
}

// Source says who owns a destination's contract.
type Source struct {
	Kind     string // "api", "file" or "demo"
	Set      string // of a file
	Revision int64  // of a file
}

// Destination is a stored contract with its version and its live state.
type Destination struct {
	Name       string
	Source     Source
	Version    int64
	Generation int64
	Written    []byte                // the contract as written, JSON
	Contract   *destination.Contract // nil when Faulty
	Faulty     string                // why the stored contract cannot be used
	Live       Live
	// EffectiveIn is set by Apply: until the slots granted under the contract before have ended.
	EffectiveIn time.Duration
	// Warnings are set by Apply: what this Redis makes of the contract, and probably is not meant.
	Warnings []string
}
