package job

// texts says of each outcome, for people, what happened; a test checks that it is complete.
var texts = map[Outcome]string{
	OutcomeDelivered:    "the destination took it",
	OutcomeRedirect:     "the destination points elsewhere, which is not followed",
	OutcomeRejected:     "the destination refused it for good",
	OutcomeTimeoutReply: "the destination did not get the whole request in time",
	OutcomeTooEarly:     "the destination does not want it yet",
	OutcomeThrottled:    "the destination asked for less",
	OutcomeServerError:  "the destination failed",
	OutcomeInvalidReply: "the answer could not be understood",

	OutcomeRefused:        "nobody listens at the destination",
	OutcomeDNS:            "the destination's name has no address",
	OutcomeTLS:            "no encrypted connection could be made",
	OutcomeConnect:        "no connection could be made",
	OutcomeConnectTimeout: "no connection was made in time",
	OutcomeBlocked:        "the destination's address is not one that may be dialled",
	OutcomeReset:          "the connection ended before an answer; the request may have arrived",
	OutcomeTimeout:        "no answer came in time; the request may have arrived",
	OutcomeTruncated:      "the answer broke off; the request has arrived",
	OutcomeInterrupted:    "the worker stopped before an answer; the request may have arrived",
	OutcomeNotSent:        "its slot was over before anything was sent",
	OutcomeBadRequest:     "the stored job cannot be made a request",
	OutcomeVerified:       "asked about it, the destination says that it has arrived",
	OutcomeNotArrived:     "asked about it, the destination says that it has not arrived",
	OutcomePostponed:      "the mail server did not take it this time",
	OutcomeUnready:        "the mail server could not take any mail",
	OutcomeUnfinished:     "it ended before the mail was handed over, or the request taken up",
	OutcomeAuth:           "the destination did not accept our credentials, or there were none",
}

// Text says for people what happened.
func (o Outcome) Text() string { return texts[o] }
