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
	if err := ready(c, g); err != nil {
		if errors.Is(err, errStale) {
			c.Close()
			return staleResult(c.gate), c.gate.reused.Load()
		}
		p.Put(c)
		return notSent(err), false
	}

	g.ctx, g.cancel = context.WithCancelCause(ctx)
	defer g.cancel(nil)
	defer g.end()
	c.gate.pass.Store(g)
	traced := httptrace.WithClientTrace(g.ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() {
			g.answered.Store(true)
			if g.unasked() {
				_ = c.gate.Close()
			}
		},
	})
	resp, err := c.http.RoundTrip(out.request(traced))
	if _, wrote := g.written(); err != nil || !wrote {
		c.Close()
		return failed(c, g, err)
	}
	res = answered(resp, g)
	res.Response = keep(out, resp)
	if drain(c, resp, &bodyOf{res.Response, out.keep.Body, out.hide}) {
		c.gate.reused.Store(true)
		p.Put(c)
	} else {
		c.Close()
	}
	return res, false
}

// ready says whether the request may be given to net/http, which waits for the
// slot in the Write. A connection that came too late for its slot is noticed
// here, where it can still be kept.
func ready(c *conn, g *pass) error {
	switch {
	case g.at.IsZero():
		return nil
	case c.Ended():
		return errStale
	case time.Now().After(g.at):
		return ask(g.gate)
	}
	return nil
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
func drain(c *conn, resp *http.Response, b *bodyOf) bool {
	defer resp.Body.Close()
	if resp.ContentLength > drainBytes && !b.wanted() || resp.StatusCode == http.StatusSwitchingProtocols {
		return false
	}
	t := time.AfterFunc(drainTime, c.Close)
	n, err := b.read(resp.Body, drainBytes+1)
	return t.Stop() && err == nil && n <= drainBytes && c.http.Available() > 0
}

func since(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return time.Since(t)
}
