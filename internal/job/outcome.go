package job

// Outcome says how one attempt ended. The list is closed: it is the label of
// metrics and the word in every record.
type Outcome string

// Class groups outcomes by what follows from them.
type Class string

// The classes of outcomes.
const (
	Success   Class = "success"   // delivered
	Retry     Class = "retry"     // try again after a back-off
	Permanent Class = "permanent" // trying again cannot help
	Ambiguous Class = "ambiguous" // bytes left, no answer came: nobody knows
	Throttled Class = "throttled" // the destination said: later
	Released  Class = "released"  // no byte was written; uncounted
)

// The outcomes of an attempt.
const (
	OutcomeDelivered    Outcome = "delivered"       // 2xx
	OutcomeRedirect     Outcome = "redirect"        // 3xx: never followed
	OutcomeRejected     Outcome = "rejected"        // other 4xx
	OutcomeTimeoutReply Outcome = "request_timeout" // 408
	OutcomeTooEarly     Outcome = "too_early"       // 425
	OutcomeThrottled    Outcome = "throttled"       // 429, or 503 with Retry-After
	OutcomeServerError  Outcome = "server_error"    // 5xx
	OutcomeInvalidReply Outcome = "invalid_reply"   // not HTTP, 1xx as an end, or beyond a bound

	OutcomeRefused        Outcome = "connection_refused"
	OutcomeDNS            Outcome = "dns_failed"
	OutcomeTLS            Outcome = "tls_failed"
	OutcomeConnect        Outcome = "connect_failed"   // any other failure before a connection stood
	OutcomeConnectTimeout Outcome = "connect_timeout"  // no connection in time
	OutcomeBlocked        Outcome = "address_blocked"  // the address is not one we may dial
	OutcomeReset          Outcome = "connection_lost"  // bytes left, the connection ended without an answer
	OutcomeTimeout        Outcome = "timeout"          // bytes left, no answer in time
	OutcomeTruncated      Outcome = "answer_truncated" // the answer began and did not end
	OutcomeInterrupted    Outcome = "interrupted"      // cut by our own stop
	OutcomeNotSent        Outcome = "not_sent"         // the slot was over before the first byte
	OutcomeBadRequest     Outcome = "unsendable"       // the stored request cannot be built
	OutcomeVerified       Outcome = "verified"         // asked about a job in doubt, the destination has it
	OutcomeNotArrived     Outcome = "not_arrived"      // and this time it has not
	OutcomePostponed      Outcome = "postponed"        // smtp: 4xx, the server did not take this mail this time
	OutcomeUnready        Outcome = "server_unready"   // smtp: 4xx, the server takes no mail now, for a reason of its own
	OutcomeUnfinished     Outcome = "unfinished"       // ended before a mail was handed over, or a request of HTTP/2 taken up: nobody has it
	OutcomeAuth           Outcome = "auth_failed"      // the destination did not let us in, or there is no access token for it
)

// classes is the table of outcomes; a test checks that it is complete.
var classes = map[Outcome]Class{
	OutcomeDelivered:    Success,
	OutcomeRedirect:     Permanent,
	OutcomeRejected:     Permanent,
	OutcomeTimeoutReply: Retry,
	OutcomeTooEarly:     Retry,
	OutcomeThrottled:    Throttled,
	OutcomeServerError:  Retry,
	OutcomeInvalidReply: Ambiguous,

	OutcomeRefused:        Retry,
	OutcomeDNS:            Retry,
	OutcomeTLS:            Retry,
	OutcomeConnect:        Retry,
	OutcomeConnectTimeout: Retry,
	OutcomeBlocked:        Retry, // a wrong allow-list must not lose jobs
	OutcomeReset:          Ambiguous,
	OutcomeTimeout:        Ambiguous,
	OutcomeTruncated:      Ambiguous,
	OutcomeInterrupted:    Ambiguous,
	OutcomeNotSent:        Released,
	OutcomeBadRequest:     Permanent,
	OutcomeVerified:       Success,
	OutcomeNotArrived:     Retry,
	OutcomePostponed:      Retry,
	OutcomeUnready:        Retry,
	OutcomeUnfinished:     Retry,
	OutcomeAuth:           Retry, // a wrong password, or none at hand, must not lose jobs
}

// Outcomes lists every outcome.
func Outcomes() []Outcome {
	all := make([]Outcome, 0, len(classes))
	for o := range classes {
		all = append(all, o)
	}
	return all
}

// Class says what follows from the outcome.
func (o Outcome) Class() Class { return classes[o] }

// OutcomeOfStatus maps an HTTP status code, with or without a Retry-After, to
// the outcome of an attempt that got it. Codes outside 200 to 599 are invalid replies.
func OutcomeOfStatus(status int, retryAfter bool) Outcome {
	switch {
	case status >= 200 && status <= 299:
		return OutcomeDelivered
	case status >= 300 && status <= 399:
		return OutcomeRedirect
	case status == 401:
		return OutcomeAuth
	case status == 408:
		return OutcomeTimeoutReply
	case status == 425:
		return OutcomeTooEarly
	case status == 429, status == 503 && retryAfter:
		return OutcomeThrottled
	case status >= 400 && status <= 499:
		return OutcomeRejected
	case status >= 500 && status <= 599:
		return OutcomeServerError
	}
	return OutcomeInvalidReply
}
