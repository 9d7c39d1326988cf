package deliver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"tundish/internal/deliver/kept"
	"tundish/internal/job"
)

var (
	errNoAnswer = errors.New("no answer in time")
	errLeft     = kept.ErrLeft
)

// dialError is a connection that did not come to be.
type dialError struct {
	cause     error
	connected bool // TCP stood; TLS failed
	within    time.Duration
}

func (e *dialError) Error() string { return e.cause.Error() }
func (e *dialError) Unwrap() error { return e.cause }

// connectResult is the outcome of an attempt that got no connection.
func connectResult(ctx context.Context, err error) Result {
	if errors.Is(err, errLeft) || errors.Is(err, context.Canceled) {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return Result{Outcome: job.OutcomeConnectTimeout, Error: "connect: no connection before the attempt's end"}
		}
		if ctx.Err() == nil {
			return Result{Outcome: job.OutcomeNotSent, Error: "the sender is closed"}
		}
		return notSent(context.Cause(ctx))
	}
	step, within := "connect", time.Duration(0)
	if d, ok := errors.AsType[*dialError](err); ok {
		within = d.within
		if d.connected {
			step = "TLS handshake"
		}
	}
	outcome, text := connectOutcome(err, step == "TLS handshake")
	if outcome == job.OutcomeConnectTimeout {
		text = fmt.Sprintf("not done within %v", within)
	}
	return Result{Outcome: outcome, Error: short(step + ": " + text)}
}

func connectOutcome(err error, handshake bool) (job.Outcome, string) {
	for _, blocked := range []error{errBlocked, errNotPrivate} {
		if errors.Is(err, blocked) {
			return job.OutcomeBlocked, blocked.Error()
		}
	}
	if d, ok := errors.AsType[*net.DNSError](err); ok {
		return job.OutcomeDNS, "lookup " + d.Name + ": " + d.Err
	}
	if n, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || (ok && n.Timeout()) {
		return job.OutcomeConnectTimeout, ""
	}
	switch {
	case handshake:
		return job.OutcomeTLS, tlsText(err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return job.OutcomeRefused, "connection refused"
	case errors.Is(err, errNoStreams):
		return job.OutcomeConnect, errNoStreams.Error()
	}
	return job.OutcomeConnect, lossText(err)
}

// tlsText keeps the words of the TLS packages, which speak of certificates and
// versions, and no others.
func tlsText(err error) string {
	if v, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return v.Err.Error()
	}
	if text := remoteAlert(err); text != "" {
		return text
	}
	if h, ok := errors.AsType[x509.HostnameError](err); ok {
		return h.Error()
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the other side does not speak TLS"
	}
	if s := err.Error(); strings.HasPrefix(s, "tls: ") {
		return s
	}
	return lossText(err)
}

// failed is the outcome of an exchange without a usable answer.
func failed(c *conn, g *pass, err error) (res Result, stale bool) {
	if c.shared != nil && err != nil && g.takeBack() {
		if text := cannotLeave(err); text != "" {
			return Result{Outcome: job.OutcomeBadRequest, Error: text}, false
		}
	}
	started, wrote := g.written()
	if !wrote {
		return unwritten(c.gate, g)
	}
	res = Result{Wrote: true, StartedAt: started, Duration: since(started)}
	res.Outcome, res.Error = lostOutcome(c, g, err)
	return res, false
}

// unwritten is the outcome of an attempt of which no byte left.
func unwritten(gate *gateConn, g *pass) (res Result, stale bool) {
	why, asked := g.refusal()
	switch {
	case g.ctx.Err() != nil:
		return notSent(context.Cause(g.ctx)), false
	case errors.Is(why, errRefused):
		return notSent(why), false
	}
	// The gate has spoken for this write; it is not asked for another.
	return staleResult(gate), gate.reused.Load() && !asked
}

// lostOutcome names what happened after the request was, or may have been, written.
func lostOutcome(c *conn, g *pass, err error) (job.Outcome, string) {
	if outcome, text, cut := cutOutcome(g); cut {
		return outcome, text
	}
	if text := remoteAlert(err); !c.gate.reused.Load() && !g.answered.Load() && strings.Contains(text, "certificate") {
		// Ours was refused: with TLS 1.3 that comes behind the request, which is not read.
		return job.OutcomeTLS, text
	}
	if c.shared != nil {
		return lostStream(g, err)
	}
	if !g.answered.Load() {
		return lostBefore(err)
	}
	if strings.Contains(err.Error(), "response headers exceeded") {
		return job.OutcomeInvalidReply, fmt.Sprintf("the answer's headers exceed %d bytes", maxHeaderBytes)
	}
	// A line that broke off reaches us as a malformed one.
	if connectionBroke(err) || c.gate.ended.Load() {
		return job.OutcomeTruncated, "the answer broke off: " + lossText(err)
	}
	// net/http quotes what it could not read, and that may quote our secrets.
	return job.OutcomeInvalidReply, "the answer is not HTTP/1.1"
}

// cutOutcome names who ended an attempt, if it was us.
func cutOutcome(g *pass) (outcome job.Outcome, text string, cut bool) {
	if g.ctx.Err() == nil {
		return "", "", false
	}
	switch cause := context.Cause(g.ctx); {
	case errors.Is(cause, errNoAnswer):
		return job.OutcomeTimeout, fmt.Sprintf("no answer within %v", g.timeout), true
	case errors.Is(cause, ErrStopped):
		return job.OutcomeInterrupted, "cut off: " + ErrStopped.Error(), true
	case errors.Is(cause, context.DeadlineExceeded):
		return job.OutcomeTimeout, "no answer before the attempt's end", true
	}
	return job.OutcomeInterrupted, "cut off before an answer", true
}

// lostBefore is the outcome of a connection that ended before an answer began.
func lostBefore(err error) (job.Outcome, string) {
	return job.OutcomeReset, "no answer: " + lossText(err)
}

func connectionBroke(err error) bool {
	_, isNet := errors.AsType[net.Error](err)
	return isNet || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// lossText says how a connection ended, in words that cannot carry anything
// else: the error itself may quote addresses, headers or bytes of an answer.
func lossText(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if text := remoteAlert(err); text != "" {
		return text
	}
	return "the other side closed the connection"
}

// remoteAlert is what the other side's TLS has to say; empty when it says nothing.
func remoteAlert(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return "the other side: " + op.Err.Error()
	}
	return ""
}

// staleResult is the outcome when the connection ended before the write: for a
// kept one a matter of chance, for a fresh one the destination's doing.
func staleResult(gate *gateConn) Result {
	if gate.reused.Load() {
		return notSent(errStale)
	}
	return Result{Outcome: job.OutcomeConnect, Error: errStale.Error()}
}

func notSent(why error) Result {
	text := errRefused.Error()
	switch {
	case errors.Is(why, ErrStopped):
		text = ErrStopped.Error()
	case errors.Is(why, errStale):
		text = errStale.Error()
	case errors.Is(why, errStalled):
		text = errStalled.Error()
	case why != nil && !errors.Is(why, errRefused):
		text = "given up before the first byte"
	}
	return Result{Outcome: job.OutcomeNotSent, Error: text}
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("HTTP %d %s", status, http.StatusText(status)))
}

const maxErrorBytes = 200

// short bounds a text and takes the control characters out of it.
func short(s string) string { return shorten(s, maxErrorBytes) }

func shorten(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
