package deliver

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"tundish/internal/job"
)

// streamError is what net/http's own error of a stream of HTTP/2 can be read as
// by errors.As: one with the same fields, of its own package or, as here, not.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return fmt.Sprintf("the stream ended with code %d", e.Code) }

const (
	// refusedStream says that nothing was done about a request (RFC 9113, section 8.7).
	refusedStream = 7
	// The words of errors that net/http does not export.
	wordsFromPeer   = "received from peer"
	wordsGoAway     = "http2: Transport received" // … GOAWAY, of a stream that it says was not taken up (section 6.8)
	wordsNoPing     = "client connection lost"
	wordsMalformed  = "connection error: "
	wordsTooMuch    = "response header list larger"
	wordsCannot     = "request header list larger"
	wordsInvalid    = "http2: invalid " // header or path
	notTakenUp      = "the other side did not take the request up: "
	maxCodes        = 14
	unknownCodeText = "an unknown code"
)

// codes are the names of errors of HTTP/2, by number (RFC 9113, section 7).
var codes = [maxCodes]string{"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
	"REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED"}

func codeText(code uint32) string {
	if code < maxCodes {
		return codes[code]
	}
	return unknownCodeText
}

// lostStream names what happened to a request of HTTP/2 that was, or may have
// been, written. The words of an error are compared where there is nothing
// else: one that is not known leaves the request in doubt.
func lostStream(g *pass, err error) (job.Outcome, string) {
	var stream streamError
	text := err.Error()
	switch {
	case errors.As(err, &stream) && stream.Cause != nil && stream.Cause.Error() == wordsFromPeer:
		return resetStream(g, stream.Code)
	case strings.HasPrefix(text, wordsGoAway) && strings.Contains(text, "GOAWAY") && !g.answered.Load():
		return job.OutcomeUnfinished, notTakenUp + "GOAWAY"
	case strings.Contains(text, wordsTooMuch):
		return job.OutcomeInvalidReply, fmt.Sprintf("the answer's headers exceed %d bytes", maxHeaderBytes)
	case stream.Cause != nil, strings.HasPrefix(text, wordsMalformed):
		return job.OutcomeInvalidReply, "the answer is not HTTP/2"
	case strings.Contains(text, wordsNoPing):
		return job.OutcomeReset, "no answer: the other side fell silent"
	}
	outcome, text := lostBefore(err)
	if g.answered.Load() {
		outcome, text = job.OutcomeTruncated, "the answer broke off: "+lossText(err)
	}
	return outcome, text
}

// resetStream names a stream that the other side ended.
func resetStream(g *pass, code uint32) (job.Outcome, string) {
	switch {
	case g.answered.Load():
		return job.OutcomeTruncated, "the answer broke off: the other side reset the stream, " + codeText(code)
	case code == refusedStream:
		return job.OutcomeUnfinished, notTakenUp + codeText(code)
	}
	return job.OutcomeReset, "no answer: the other side reset the stream, " + codeText(code)
}

// watch looks after a request whose gate has opened until its headers leave.
func (c *shared) watch(p *pass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watcher = time.AfterFunc(stallAfter, func() { c.look(p) })
}

// look takes the request back when it waits behind what others write, or for a
// stream that the other side has taken back meanwhile: later it would leave outside
// of its slot, and together with others that waited. That it is slow for want of a
// processor is no reason.
func (c *shared) look(p *pass) {
	if (c.gate.stalled() || c.ended() || p.waits(2*stallAfter) && c.gate.writes.Load() != 0) && p.takeBack() {
		p.cancel(errStalled)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watcher != nil && p.wrote && !p.left.Load() {
		p.watcher.Reset(stallAfter)
	}
}

// waits says whether a request has not left for so long.
func (p *pass) waits(long time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wrote && !p.left.Load() && time.Since(p.started) > long
}

// leave says that the headers are given to the connection now, unless the request
// was taken back.
func (p *pass) leave() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wrote && !p.left.Swap(true) {
		p.writes()
		p.started = time.Now()
	}
	return p.wrote
}

// takeBack takes back what open said, unless the headers were given to the
// connection, and says whether it did: they will not be given to it any more.
func (p *pass) takeBack() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left.Load() {
		return false
	}
	p.nothingLeft()
	return true
}

// cannotLeave says why a request that net/http has not written can never be; empty
// when it may.
func cannotLeave(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, wordsCannot):
		return "the other side takes no headers of this size"
	case strings.HasPrefix(text, wordsInvalid):
		return "a header or the path is not allowed in HTTP/2"
	}
	return ""
}
