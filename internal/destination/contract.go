package destination

import "time"

// Contract is what Tundish keeps to for one destination: every field filled
// in, checked and in Go's own units. It is made by ParseContract and ParseFile,
// and by nothing else.
type Contract struct {
	Name   string
	Class  string // name of the class it was made from; empty: none
	Labels map[string]string

	Target HTTPTarget  // where SMTP is nil
	SMTP   *SMTPTarget // instead of Target
	Limits []Limit

	// Guard is the share of the window by which slots are spread further, so
	// that the rate holds in any sliding window (0.005 is 0.5 %). It is as
	// granted: parsing raises it where a short window needs more.
	Guard       float64
	MaxInFlight int // leased jobs of all workers, prefetched ones included

	Queue       Queue
	Tenants     Tenants
	Delivery    Delivery
	Durability  Durability
	Idempotency Idempotency
	Retry       Retry
	Breaker     Breaker
	Adaptive    Adaptive
	Verify      string // path that tells whether a job arrived; empty: nobody can be asked
	LearnLimits bool   // rest when the destination says that its quota is used up
	Retention   Retention
	Paused      bool // the contract's own flag; the operator's pause is another

	// Sealed are the secrets that were given through the API, by name, sealed as
	// they are stored. They are no part of what is written: who reads a stored
	// contract for sending puts them here.
	Sealed map[string]string
}

// HTTPTarget is where requests go.
type HTTPTarget struct {
	URL     string // absolute, http or https, no query, no fragment, no user
	Method  string // of jobs that name none
	Headers []Header
	Timeout time.Duration // of one attempt
	Sign    Sign
	Auth    Auth
	TLS     TLS
	Keep    KeepResponse
	HTTP2   bool // if the destination speaks it
}

// Header is one fixed header of a target. References in its value are not resolved.
type Header struct{ Name, Value string }

// Algorithm names how a limit counts.
type Algorithm string

// The algorithms that are built.
const (
	LeakyBucket Algorithm = "leaky_bucket" // one request every Per/Rate
	TokenBucket Algorithm = "token_bucket" // average rate with bursts
)

// Limit allows Rate requests per Per. Rate is a whole number: 0.5 per second
// is normalised to 1 per 2 s.
type Limit struct {
	Name      string
	Algorithm Algorithm
	Rate      int64
	Per       time.Duration
	Burst     int64 // token_bucket only; 1 otherwise
}

// WhenPaused says what a push meets while the destination is paused.
type WhenPaused string

// What a paused destination does with pushes.
const (
	Accept WhenPaused = "accept"
	Refuse WhenPaused = "refuse"
)

// Queue bounds what waits.
type Queue struct {
	Capacity        int64 // jobs
	MaxBytes        int64
	MaxJobBytes     int64
	MaxHistoryBytes int64         // finished jobs and idempotency keys together
	Aging           time.Duration // what one step of priority is worth
	WhenPaused      WhenPaused
}

// Tenants holds the fairness between tenants.
type Tenants struct {
	Share   float64 // of what is free, 0: off; 0.5 is 50 %
	Weights map[string]float64
}

// Idempotency says which key the destination gets.
type Idempotency struct {
	Header string
	Prefix Prefix
}

// Prefix says what stands before the producer's key downstream.
type Prefix string

// The prefixes.
const (
	PrefixProducer Prefix = "producer"
	PrefixNone     Prefix = "none"
)

// Delivery says what becomes of a job of which nobody knows whether it arrived.
type Delivery string

// The ways of delivery.
const (
	AtLeastOnce Delivery = "at_least_once" // it is sent again
	AtMostOnce  Delivery = "at_most_once"  // it becomes unknown, for a person to resolve
)

// Durability says what Redis must have done before an answer counts on it.
type Durability string

// What Redis can be asked for.
const (
	Memory  Durability = "memory"  // it has answered
	Replica Durability = "replica" // a replica has it
	AOF     Durability = "aof"     // its append-only file is on the disk
)

// Retry bounds the attempts of one job.
type Retry struct {
	MaxAttempts   int
	MaxAge        time.Duration // from the first attempt
	MinBackoff    time.Duration
	MaxBackoff    time.Duration
	MaxRetryAfter time.Duration // that a destination may ask for
	MaxThrottled  int           // answers "later" to one job
}

// Breaker stops sending to a destination that fails.
type Breaker struct {
	Failures   int           // in a row that open it; 0: never
	OpenFor    time.Duration // the first time; doubled each time a probe fails
	MaxOpenFor time.Duration
}

// Adaptive lets the rate follow what the destination can take, below its limits.
type Adaptive struct {
	Enabled bool
	Floor   float64 // in the unit of the limit that sets the pace; the rate is never cut below
}

// Pace is the limit that sets the pace: the tightest of those that space requests
// out; where all bound an average only, the tightest of all.
func (c *Contract) Pace() Limit {
	pace := c.Limits[0]
	for _, l := range c.Limits {
		if paces(l, pace) {
			pace = l
		}
	}
	return pace
}

func paces(l, other Limit) bool {
	if spaces, spaced := l.Algorithm == LeakyBucket, other.Algorithm == LeakyBucket; spaces != spaced {
		return spaces
	}
	return float64(l.Rate)/l.Per.Seconds() < float64(other.Rate)/other.Per.Seconds()
}

// Retention says how long what has ended is kept.
type Retention struct {
	Finished    time.Duration
	Dead        time.Duration
	DeadMax     int64
	Idempotency time.Duration
}

// Timeout bounds one attempt.
func (c *Contract) Timeout() time.Duration {
	if c.SMTP != nil {
		return c.SMTP.Timeout
	}
	return c.Target.Timeout
}

// LongestWindow is the longest window of the limits.
func (c *Contract) LongestWindow() time.Duration {
	var w time.Duration
	for _, l := range c.Limits {
		w = max(w, l.Per)
	}
	return w
}

// ShortestWindow is the shortest window of the limits.
func (c *Contract) ShortestWindow() time.Duration {
	w := c.LongestWindow()
	for _, l := range c.Limits {
		w = min(w, l.Per)
	}
	return w
}
