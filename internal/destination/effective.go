package destination

// Filled is a contract with everything filled in, in the form it is written
// in: parsing its JSON again gives an equal contract.
type Filled struct {
	Name        string            `json:"name"`
	Class       string            `json:"class,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Target      FilledTarget      `json:"target"`
	Limits      []FilledLimit     `json:"limits"`
	Guard       string            `json:"guard"`
	MaxInFlight int               `json:"max_in_flight"`
	Queue       FilledQueue       `json:"queue"`
	Tenants     FilledTenants     `json:"tenants"`
	Delivery    string            `json:"delivery"`
	Durability  string            `json:"durability"`
	Idempotency FilledIdempotency `json:"idempotency"`
	Retry       FilledRetry       `json:"retry"`
	Breaker     FilledBreaker     `json:"breaker"`
	Adaptive    FilledAdaptive    `json:"adaptive"`
	Verify      *FilledVerify     `json:"verify,omitempty"`
	LearnLimits bool              `json:"learn_limits"`
	Retention   FilledRetention   `json:"retention"`
	Paused      bool              `json:"paused"`
}

// FilledTarget is the target of a Filled contract: one of the two.
type FilledTarget struct {
	HTTP *FilledHTTP `json:"http,omitempty"`
	SMTP *FilledSMTP `json:"smtp,omitempty"`
}

// FilledLimit is one limit, its rate a whole number.
type FilledLimit struct {
	Name        string `json:"name"`
	Algorithm   string `json:"algorithm"`
	Rate        int64  `json:"rate"`
	Per         string `json:"per"`
	Burst       int64  `json:"burst,omitempty"` // token_bucket only
	Mode        string `json:"mode"`
	OnStateLoss string `json:"on_state_loss"`
}

// FilledQueue is the bounds of the queue.
type FilledQueue struct {
	Capacity        int64  `json:"capacity"`
	MaxBytes        string `json:"max_bytes"`
	MaxJobBytes     string `json:"max_job_bytes"`
	MaxHistoryBytes string `json:"max_history_bytes"`
	Aging           string `json:"aging"`
	WhenPaused      string `json:"when_paused"`
}

// FilledTenants is the fairness between tenants.
type FilledTenants struct {
	Share   string             `json:"share"`
	Weights map[string]float64 `json:"weights,omitempty"`
}

// FilledIdempotency is the key the destination gets.
type FilledIdempotency struct {
	Header string `json:"header"`
	Prefix string `json:"prefix"`
}

// FilledRetry bounds the attempts of a job.
type FilledRetry struct {
	MaxAttempts   int    `json:"max_attempts"`
	MaxAge        string `json:"max_age"`
	MinBackoff    string `json:"min_backoff"`
	MaxBackoff    string `json:"max_backoff"`
	MaxRetryAfter string `json:"max_retry_after"`
	MaxThrottled  int    `json:"max_throttled"`
}

// FilledBreaker is when sending stops to a destination that fails.
type FilledBreaker struct {
	Failures   int    `json:"failures"`
	OpenFor    string `json:"open_for"`
	MaxOpenFor string `json:"max_open_for"`
}

// FilledVerify is where the destination is asked about a job in doubt.
type FilledVerify struct {
	Path string `json:"path"`
}

// FilledAdaptive is whether the rate follows the destination, and its floor.
type FilledAdaptive struct {
	Enabled bool    `json:"enabled"`
	Floor   float64 `json:"floor"`
}

// FilledRetention says how long what has ended is kept.
type FilledRetention struct {
	Finished    string `json:"finished"`
	Dead        string `json:"dead"`
	DeadMax     int64  `json:"dead_max"`
	Idempotency string `json:"idempotency"`
}

// Effective is c in the written form, with everything filled in.
func Effective(c *Contract) Filled {
	return Filled{
		Name:        c.Name,
		Class:       c.Class,
		Labels:      c.Labels,
		Target:      filledTarget(c),
		Limits:      filledLimits(c.Limits),
		Guard:       FormatShare(c.Guard),
		MaxInFlight: c.MaxInFlight,
		Queue: FilledQueue{
			Capacity:        c.Queue.Capacity,
			MaxBytes:        FormatSize(c.Queue.MaxBytes),
			MaxJobBytes:     FormatSize(c.Queue.MaxJobBytes),
			MaxHistoryBytes: FormatSize(c.Queue.MaxHistoryBytes),
			Aging:           FormatDuration(c.Queue.Aging),
			WhenPaused:      string(c.Queue.WhenPaused),
		},
		Tenants:     FilledTenants{Share: FormatShare(c.Tenants.Share), Weights: c.Tenants.Weights},
		Delivery:    string(c.Delivery),
		Durability:  string(c.Durability),
		Idempotency: FilledIdempotency{Header: c.Idempotency.Header, Prefix: string(c.Idempotency.Prefix)},
		Retry: FilledRetry{
			MaxAttempts:   c.Retry.MaxAttempts,
			MaxAge:        FormatDuration(c.Retry.MaxAge),
			MinBackoff:    FormatDuration(c.Retry.MinBackoff),
			MaxBackoff:    FormatDuration(c.Retry.MaxBackoff),
			MaxRetryAfter: FormatDuration(c.Retry.MaxRetryAfter),
			MaxThrottled:  c.Retry.MaxThrottled,
		},
		Breaker: FilledBreaker{
			Failures:   c.Breaker.Failures,
			OpenFor:    FormatDuration(c.Breaker.OpenFor),
			MaxOpenFor: FormatDuration(c.Breaker.MaxOpenFor),
		},
		Adaptive:    FilledAdaptive(c.Adaptive),
		Verify:      filledVerify(c.Verify),
		LearnLimits: c.LearnLimits,
		Retention: FilledRetention{
			Finished:    FormatDuration(c.Retention.Finished),
			Dead:        FormatDuration(c.Retention.Dead),
			DeadMax:     c.Retention.DeadMax,
			Idempotency: FormatDuration(c.Retention.Idempotency),
		},
		Paused: c.Paused,
	}
}

func filledVerify(path string) *FilledVerify {
	if path == "" {
		return nil
	}
	return &FilledVerify{path}
}

func filledLimits(limits []Limit) []FilledLimit {
	all := make([]FilledLimit, len(limits))
	for i, l := range limits {
		all[i] = FilledLimit{
			Name: l.Name, Algorithm: string(l.Algorithm),
			Rate: l.Rate, Per: FormatDuration(l.Per),
			Mode: "enforce", OnStateLoss: "assume_used",
		}
		if l.Algorithm == TokenBucket {
			all[i].Burst = l.Burst
		}
	}
	return all
}
