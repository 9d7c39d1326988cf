package mail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"regexp"
	"strings"

	"tundish/internal/deliver"
	"tundish/internal/job"
)

// maxReplyText bounds what is kept of a server's words.
const maxReplyText = 150

// replyOf is the server's answer in err; nil when there was none.
func replyOf(err error) *textproto.Error {
	reply, _ := errors.AsType[*textproto.Error](err)
	return reply
}

// kind is the first digit of a reply, by which it is understood (RFC 5321 §4.2.1).
func kind(reply *textproto.Error) int { return reply.Code / 100 }

// replyText is a reply as people read it.
func replyText(step string, reply *textproto.Error) string {
	text := fmt.Sprintf("%s: %d %s", step, reply.Code, strings.ToValidUTF8(reply.Msg, "?"))
	return deliver.ShortText(strings.TrimSpace(text), maxReplyText)
}

var (
	// rateWords are how servers say that too much came at once.
	rateWords = regexp.MustCompile(`(?i)\brate\b|rate.?limit|throttl|too (many|much|fast|quickly|frequent)|slow down|limit exceeded|exceeded.*limit`)
	// itsOwn is too much of one mail or one connection: to send others later is no cure.
	itsOwn   = regexp.MustCompile(`(?i)too many (recipients|messages (in|on|per|for) (this|one|a) (connection|session))`)
	enhanced = regexp.MustCompile(`^4\.(\d{1,3})\.\d{1,3}\b`)
)

// throttling says whether a reply asks to send less: of the 4xx with those
// words, the ones that speak of the server and its policies, and, where it ends
// the connection, of the network. Of what they say of one mailbox (4.2) or one
// mail (4.5) only that mail is put off, as of what is greylisted.
func throttling(reply *textproto.Error) bool {
	if kind(reply) != 4 || !rateWords.MatchString(reply.Msg) || itsOwn.MatchString(reply.Msg) || greylists.MatchString(reply.Msg) {
		return false
	}
	m := enhanced.FindStringSubmatch(reply.Msg)
	return m == nil || m[1] == "7" || m[1] == "3" || m[1] == "4" && reply.Code == closing
}

// greylists is how servers say that they want to see a mail again later.
var greylists = regexp.MustCompile(`(?i)gr[ae]y.?list`)

// ofTheMail says whether a 4xx is about this mail, its sender or a recipient, as
// of a mailbox that is full and of greylisting: others may go meanwhile. What it
// is about is said by the code of RFC 3463, of which 4.3 is the server itself and 4.4 the
// way to it or, of one recipient, the way from there; or else by the reply of RFC 5321 and
// whether it is the answer to a recipient.
func ofTheMail(reply *textproto.Error, recipient bool) bool {
	if itsOwn.MatchString(reply.Msg) || greylists.MatchString(reply.Msg) {
		return true
	}
	subject := ""
	if m := enhanced.FindStringSubmatch(reply.Msg); m != nil {
		subject = m[1]
	}
	switch subject {
	case "1", "2", "5", "6", "7":
		return true
	case "3":
		return false
	case "4":
		return recipient && reply.Code != closing
	}
	return reply.Code == 450 || recipient && reply.Code != closing
}

// notLetIn are the replies to any command that ask for a log-in (RFC 4954 §6).
var notLetIn = map[int]bool{530: true, 534: true, 535: true, 538: true}

// replyOutcome is the outcome of a mail that got this reply, to a recipient or
// to another command.
func replyOutcome(reply *textproto.Error, recipient bool) job.Outcome {
	switch {
	case kind(reply) == 2:
		return job.OutcomeDelivered
	case throttling(reply):
		return job.OutcomeThrottled
	case kind(reply) == 4 && ofTheMail(reply, recipient):
		return job.OutcomePostponed
	case kind(reply) == 4:
		return job.OutcomeUnready
	case notLetIn[reply.Code]:
		return job.OutcomeAuth
	case kind(reply) == 5:
		return job.OutcomeRejected
	}
	return job.OutcomeInvalidReply
}

// oddity says what is wrong with an answer that is no reply; empty when none came.
func oddity(err error) string {
	if _, garbled := errors.AsType[textproto.ProtocolError](err); garbled {
		return "the answer is not SMTP"
	}
	if errors.Is(err, errTooMuch) {
		return errTooMuch.Error()
	}
	return ""
}

// broke says whether a connection ended, by itself or by us.
func broke(err error) bool {
	_, isNet := errors.AsType[net.Error](err)
	return isNet || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// loginError is a server that did not let us in, or could not be asked to.
type loginError struct {
	text      string
	throttled bool // it was asked too often
}

func (e *loginError) Error() string { return e.text }

// stepError is a connection that stood and was of no use: the server said no
// before any mail.
type stepError struct {
	step  string
	cause error
}

func (e *stepError) Error() string { return e.step + ": " + e.cause.Error() }
func (e *stepError) Unwrap() error { return e.cause }

// tlsError is a server that would have had us go on in clear text.
type tlsError struct{ text string }

func (e *tlsError) Error() string { return e.text }

// connectResult is the outcome of an attempt that got no connection. What a
// server says there is about us, not about the mail: it is always tried again.
func connectResult(ctx context.Context, err error) deliver.Result {
	if e, ok := errors.AsType[*loginError](err); ok {
		if e.throttled {
			return deliver.Result{Outcome: job.OutcomeThrottled, Error: e.text}
		}
		return deliver.Result{Outcome: job.OutcomeAuth, Error: e.text}
	}
	if e, ok := errors.AsType[*tlsError](err); ok {
		return deliver.Result{Outcome: job.OutcomeTLS, Error: e.text}
	}
	if e, ok := errors.AsType[*stepError](err); ok {
		if reply := replyOf(err); reply != nil {
			outcome := job.OutcomeConnect
			if throttling(reply) {
				outcome = job.OutcomeThrottled
			}
			return deliver.Result{Outcome: outcome, Error: replyText(e.step, reply)}
		}
		if text := oddity(err); text != "" {
			return deliver.Result{Outcome: job.OutcomeConnect, Error: e.step + ": " + text}
		}
		res := deliver.ConnectResult(ctx, e.cause)
		res.Error = e.step + ": " + strings.TrimPrefix(res.Error, "connect: ")
		return res
	}
	return deliver.ConnectResult(ctx, err)
}
