package mail

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"tundish/internal/deliver"
	"tundish/internal/job"
)

// transaction hands over one letter on one connection.
type transaction struct {
	conn   *conn
	letter *letter
	leave  *deliver.Leave
	handed bool // the final dot left, or may have
	usable bool // the connection can carry another mail
}

// run makes the attempt. stale means that the connection had ended, nothing was
// written and another one may be tried.
func (t *transaction) run(ctx context.Context, a *deliver.Attempt) (res deliver.Result, stale bool) {
	if why := t.cannot(); why != "" {
		t.usable = true
		return deliver.Result{Outcome: job.OutcomeBadRequest, Error: why}, false
	}
	t.conn.replies.left = maxReplyBytes
	t.conn.client.SkipSMTPUTF8(!t.letter.utf8)
	var err error
	if t.leave, err = t.conn.line.Begin(ctx, a); err != nil {
		var broken bool
		res, stale, broken = t.conn.line.Unbegun(err)
		t.usable = !broken
		return res, stale
	}
	res, stale = t.exchange()
	t.usable = t.leave.End() && t.usable
	return res, stale
}

// cannot says why this server can never take the letter; empty when it may.
func (t *transaction) cannot() string {
	if known, _ := t.conn.client.Extension("SMTPUTF8"); t.letter.utf8 && !known {
		return "an address is not ASCII, and the server takes no others (it offers no SMTPUTF8)"
	}
	_, text := t.conn.client.Extension("SIZE")
	if most, err := strconv.Atoi(text); err == nil && most > 0 && len(t.letter.data) > most {
		return fmt.Sprintf("the mail has %d bytes, and the server takes at most %d", len(t.letter.data), most)
	}
	return ""
}

func (t *transaction) exchange() (deliver.Result, bool) {
	if err := t.conn.client.Mail(t.letter.from); err != nil {
		return t.failed("MAIL FROM", err)
	}
	refused, step, err := t.recipients()
	if err != nil {
		return t.failed(step, err)
	}
	if len(refused) == len(t.letter.to) {
		res := t.ended(job.OutcomeRejected, refusals(refused, len(refused)))
		t.usable = t.conn.client.Reset() == nil
		return res, false
	}
	w, err := t.conn.client.Data()
	if err != nil {
		return t.failed("DATA", err)
	}
	// After an error the writer is left open: closing it would send the final
	// dot, and the server would take what it has for the whole mail.
	if _, err := w.Write(t.letter.data); err != nil {
		return t.failed("DATA", err)
	}
	t.handed = true
	if err := w.Close(); err != nil && !taken(err) {
		return t.failed("the mail", err)
	}
	t.usable = true
	text := ""
	if len(refused) > 0 {
		text = refusals(refused, len(t.letter.to))
	}
	return t.ended(job.OutcomeDelivered, text), false
}

// taken says whether an error is a positive answer all the same.
func taken(err error) bool {
	reply := replyOf(err)
	return reply != nil && kind(reply) == 2
}

// recipients names the recipients, and returns those that are refused for good.
// Any other error ends the transaction, so that nobody gets the mail twice.
func (t *transaction) recipients() (refused []string, step string, err error) {
	for _, to := range t.letter.to {
		err := t.conn.client.Rcpt(to)
		reply := replyOf(err)
		switch {
		case err == nil:
		case reply != nil && replyOutcome(reply, true) == job.OutcomeRejected:
			refused = append(refused, replyText(to, reply))
		default:
			return nil, rcptTo + to, err
		}
	}
	return refused, "", nil
}

// rcptTo begins the step of one recipient.
const rcptTo = "RCPT TO "

// maxRefusals bounds the text that names the refused recipients.
const maxRefusals = 1000

func refusals(refused []string, of int) string {
	return deliver.ShortText(fmt.Sprintf("%d of %d recipients refused: %s", len(refused), of, strings.Join(refused, "; ")), maxRefusals)
}

// failed is the end of a transaction by a reply that is no yes, or without one.
func (t *transaction) failed(step string, err error) (res deliver.Result, stale bool) {
	if reply := replyOf(err); reply != nil {
		outcome := replyOutcome(reply, strings.HasPrefix(step, rcptTo))
		if !t.handed && (outcome == job.OutcomeInvalidReply || outcome == job.OutcomeDelivered) {
			outcome = job.OutcomeUnfinished // a yes to another question
		}
		res = t.ended(outcome, replyText(step, reply))
		// The final reply ends the mail; before it the server has to be told.
		t.usable = reply.Code != closing && (t.handed || t.conn.client.Reset() == nil)
		return res, false
	}
	res, stale = t.leave.Failed(err)
	if !res.Wrote {
		return res, stale
	}
	if text := oddity(err); text != "" && res.Outcome == job.OutcomeReset {
		res.Outcome, res.Error = job.OutcomeInvalidReply, text
	}
	if !t.handed && res.Outcome != job.OutcomeInterrupted {
		res.Outcome = job.OutcomeUnfinished
	}
	res.Error = step + ": " + res.Error
	return res, false
}

// closing is the reply of a server that ends the connection after it.
const closing = 421

// ended is the end of a transaction by the server's word.
func (t *transaction) ended(outcome job.Outcome, text string) deliver.Result {
	res := t.leave.Answered()
	res.Outcome, res.Error = outcome, text
	return res
}

// panicked is the result of a Send that panicked: the job must not come back
// for ever, nor be sent again if somebody may have it.
func (t *transaction) panicked() deliver.Result {
	res := deliver.Result{}
	if t.conn != nil {
		t.conn.Close()
	}
	if t.leave != nil {
		res = t.leave.Answered()
		t.leave.End()
	}
	res.Outcome, res.Error = job.OutcomeBadRequest, "internal error while sending"
	if t.handed {
		res.Outcome = job.OutcomeReset
	}
	return res
}
