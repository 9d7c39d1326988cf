package deliver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"time"

	"tundish/internal/job"
)

const (
	// A body beyond these bounds is not read to its end and costs the connection.
	drainBytes = 64 << 10
	drainTime  = time.Second
)

// exchange writes one request on c and reads the answer. stale means that the
// connection had ended, nothing was written and another one may be tried. c is
// put back into p or closed in any case.
func exchange(ctx context.Context, p *pool, c *conn, out *outgoing, g *pass) (res Result, stale bool) {
	usable := false
	defer func() {
		if usable {
			p.Put(c)
		} else {
			c.Close()
		}
	}()
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	defer g.cancel(nil)
	defer g.end()
	switch err := begin(c, g); {
	case errors.Is(err, errStale):
		return staleResult(c.gate), c.gate.reused.Load()
	case errors.Is(err, errStalled):
		return notSent(err), true
	case err != nil:
		usable = true
		return notSent(err), false
	}

	resp, err := c.http.RoundTrip(out.request(traced(c, g), c.shared != nil))
	if _, wrote := g.written(); err != nil || !wrote {
		res, stale = failed(c, g, err)
		if c.shared != nil && res.Outcome == job.OutcomeTimeout {
			c.shared.retired.Store(true) // it may be dead, and would take others with it
		}
		return res, stale
	}
	res = answered(resp, g)
	res.Response = keep(out, resp)
	if usable = drain(g, c, resp, &bodyOf{res.Response, out.keep.Body, out.hide}); usable {
		c.gate.reused.Store(true)
	}
	return res, false
}

// begin says whether the request may be given to net/http. In HTTP/1.1 that
// waits for the slot in the Write; a connection that came too late for its slot
// is noticed here, where it can still be kept. A Write of HTTP/2 may be another
// request's: the slot is waited for, and the gate asked, right here.
func begin(c *conn, g *pass) error {
	if c.shared != nil {
		return c.shared.begin(g)
	}
	switch {
	case g.at.IsZero():
	case c.Ended():
		return errStale
	case time.Now().After(g.at):
		if err := ask(g.gate); err != nil {
			return err
		}
	}
	c.gate.pass.Store(g)
	return nil
}

// begin takes a stream before it asks the gate: behind that nothing may wait.
func (c *shared) begin(g *pass) error {
	g.framed = true
	if err := g.wait(c.gate); err != nil {
		return err
	}
	if err := c.reserve(g.ctx); err != nil {
		return err
	}
	if c.gate.stalled() {
		c.http.Release()
		return errStalled
	}
	if _, err := g.enter(c.gate); err != nil {
		c.http.Release()
		return err
	}
	c.watch(g)
	return nil
}

// traced is the context of a request that tells the pass how far it came.
func traced(c *conn, g *pass) context.Context {
	trace := &httptrace.ClientTrace{GotFirstResponseByte: func() {
		g.answered.Store(true)
		if g.unasked() {
			_ = c.gate.Close()
		}
		if c.shared != nil {
			c.gate.reused.Store(true) // for all that are on it
		}
	}}
	if c.shared != nil {
		// It is called by who has the right to write, right before the first write. That is
		// the last moment at which a request that was taken back can be stopped.
		trace.WroteHeaderField = func(string, []string) {
			if !g.left.Load() && !g.leave() {
				_ = c.gate.Close()
			}
		}
	}
	return httptrace.WithClientTrace(g.ctx, trace)
}

// answered makes the result of an answer whose headers are complete.
func answered(resp *http.Response, g *pass) Result {
	started, wrote := g.written()
	values := resp.Header.Values("Retry-After")
	r := Result{
		Outcome:    job.OutcomeOfStatus(resp.StatusCode, len(values) > 0),
		HTTPStatus: resp.StatusCode,
		Wrote:      wrote,
		StartedAt:  started,
		Duration:   since(started),
		Exhausted:  exhausted(resp.Header, time.Now()),
	}
	if r.Outcome != job.OutcomeDelivered {
		r.RetryAfter = retryAfter(values, resp.Header.Get("Date"), time.Now())
		r.Error = statusText(resp.StatusCode)
	}
	return r
}

// drain reads the rest of the answer so that the connection can be used again,
// and says whether it can. What is kept of the body goes into b.
func drain(g *pass, c *conn, resp *http.Response, b *bodyOf) bool {
	defer resp.Body.Close()
	if resp.ContentLength > drainBytes && !b.wanted() || resp.StatusCode == http.StatusSwitchingProtocols {
		return false
	}
	t := time.AfterFunc(drainTime, func() { g.cancel(nil) })
	n, err := b.read(resp.Body, drainBytes+1)
	return t.Stop() && err == nil && n <= drainBytes && !c.Ended()
}

func since(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return time.Since(t)
}
