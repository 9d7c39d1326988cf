package deliver

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Line is a connection for attempts that are not HTTP requests. Their first
// bytes pass the same gate, and where it leads was looked at by the same guard.
type Line struct{ *gateConn }

// DialLine connects to host:port. A private line leads to addresses that are
// not public and explicitly allowed, and nowhere else. What an error means,
// ConnectResult says.
func DialLine(ctx context.Context, addr string, allow []netip.Prefix, private bool) (*Line, error) {
	check := guard(allow)
	if private {
		check = privateGuard(allow)
	}
	c, err := (&net.Dialer{ControlContext: check}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Line{newGateConn(c)}, nil
}

// Keep says that the line lies unused from now on: what comes in until the next
// attempt is an end.
func (l *Line) Keep() { l.reused.Store(true) }

// Dead says whether the other side has ended the line, or sent something nobody
// asked for.
func (l *Line) Dead() bool { return l.dead() }

// Leave is the leave of one attempt to use a line. Its first Write is the first
// of the attempt: it waits for the slot and asks the gate. End it in any case.
type Leave struct {
	line   *Line
	pass   *pass
	unhook func() bool
}

// Begin takes the leave of an attempt that is about to be written. With an
// error nothing was written and there is no leave: Unbegun says what became of
// the attempt and of the line.
func (l *Line) Begin(ctx context.Context, a *Attempt) (*Leave, error) {
	if l.dead() {
		return nil, errStale
	}
	if !a.At.IsZero() && time.Now().After(a.At) {
		// It came too late for its slot, and is worth being kept for the next.
		if err := ask(a.Gate); err != nil {
			return nil, err
		}
	}
	p := &pass{at: a.At, gate: a.Gate, writing: a.Writing, timeout: timeoutOf(a)}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	l.pass.Store(p)
	// Nothing below knows the context: its end is the end of the line.
	unhook := context.AfterFunc(p.ctx, func() { _ = l.Close() })
	return &Leave{line: l, pass: p, unhook: unhook}, nil
}

// Unbegun is the outcome of an attempt that Begin refused. stale means that
// another line may be tried; the line can be kept unless broken.
func (l *Line) Unbegun(err error) (res Result, stale, broken bool) {
	if err == errStale { //nolint:errorlint // as Begin made it
		return staleResult(l.gateConn), l.reused.Load(), true
	}
	return notSent(err), false, false
}

// Answered is the result of an attempt that has come this far, without an outcome.
func (v *Leave) Answered() Result {
	started, wrote := v.pass.written()
	return Result{Wrote: wrote, StartedAt: started, Duration: since(started)}
}

// Failed is the outcome of an attempt that ended without a whole answer. stale
// means that nothing was written and another line may be tried.
func (v *Leave) Failed(err error) (res Result, stale bool) {
	res = v.Answered()
	if !res.Wrote {
		return unwritten(v.line.gateConn, v.pass)
	}
	var cut bool
	if res.Outcome, res.Error, cut = cutOutcome(v.pass); !cut {
		res.Outcome, res.Error = lostBefore(err)
	}
	return res, false
}

// End ends the leave and says whether the line still stands.
func (v *Leave) End() bool {
	stands := v.unhook()
	v.pass.end()
	v.pass.cancel(nil)
	v.line.pass.Store(nil)
	return stands
}

// ConnectResult is the outcome of an attempt that got no connection. An error
// of the dialer is told apart by itself, others are ErrNoConnection and what
// DialError makes.
func ConnectResult(ctx context.Context, err error) Result { return connectResult(ctx, err) }

// ErrNoConnection is the error of an attempt that ended while it waited for a connection.
var ErrNoConnection = errLeft

// DialError is the error of a connection that did not come to be within a time.
// handshake: it stood, and TLS failed.
func DialError(cause error, handshake bool, within time.Duration) error {
	return &dialError{cause: cause, connected: handshake, within: within}
}

// ShortText takes the control characters out of a text and bounds it.
func ShortText(s string, most int) string { return shorten(s, most) }
