package destination

import "fmt"

// relation is a bound between two fields of a contract.
type relation struct {
	field, other string // paths; field must not be above other
	compare      func(c *Contract) (holds bool, field, other string)
}

var bounds = []relation{
	{"retry.min_backoff", "retry.max_backoff", func(c *Contract) (bool, string, string) {
		return c.Retry.MinBackoff <= c.Retry.MaxBackoff, FormatDuration(c.Retry.MinBackoff), FormatDuration(c.Retry.MaxBackoff)
	}},
	{"retry.min_backoff", "retry.max_age", func(c *Contract) (bool, string, string) {
		return c.Retry.MinBackoff <= c.Retry.MaxAge, FormatDuration(c.Retry.MinBackoff), FormatDuration(c.Retry.MaxAge)
	}},
	{"target.http.timeout", "retry.max_age", func(c *Contract) (bool, string, string) {
		return c.Target.Timeout <= c.Retry.MaxAge, FormatDuration(c.Target.Timeout), FormatDuration(c.Retry.MaxAge)
	}},
	{"breaker.open_for", "breaker.max_open_for", func(c *Contract) (bool, string, string) {
		return c.Breaker.OpenFor <= c.Breaker.MaxOpenFor, FormatDuration(c.Breaker.OpenFor), FormatDuration(c.Breaker.MaxOpenFor)
	}},
	{"target.smtp.timeout", "retry.max_age", func(c *Contract) (bool, string, string) {
		return c.SMTP == nil || c.SMTP.Timeout <= c.Retry.MaxAge, FormatDuration(c.Timeout()), FormatDuration(c.Retry.MaxAge)
	}},
	{"queue.max_job_bytes", "queue.max_bytes", func(c *Contract) (bool, string, string) {
		return c.Queue.MaxJobBytes <= c.Queue.MaxBytes, FormatSize(c.Queue.MaxJobBytes), FormatSize(c.Queue.MaxBytes)
	}},
}

// relations reports fields that do not fit together. It leaves out fields that
// are wrong by themselves: what they were to be is not known.
func relations(c *Contract, root *value, p *problems) {
	for _, r := range bounds {
		field, other := root.find(r.field), root.find(r.other)
		if p.broken[field] || p.broken[other] {
			continue
		}
		holds, was, bound := r.compare(c)
		if holds {
			continue
		}
		at := field
		if at == nil {
			at = other // at least one is written: the defaults fit together
		}
		p.invalid(at, "%s (%s) must not be above %s (%s)", r.field, given(was, field), r.other, given(bound, other))
	}
	idempotencyHeaderIsFree(c, root, p)
	signatureIsFree(c, root, p)
	authorizationIsFree(c, root, p)
	tlsFits(c, root, p)
	onceNeedsDurability(c, root, p)
	mailKeyHeader(c, root, p)
	verifyHasAUse(c, root, p)
}

// verifyHasAUse: only what may not be sent twice is asked about, and only over HTTP.
func verifyHasAUse(c *Contract, root *value, p *problems) {
	if v := root.find("verify"); v != nil && c.Verify != "" && (c.Delivery != AtMostOnce || c.SMTP != nil) {
		p.invalid(v, "verify: is for http destinations with delivery: at_most_once; others send again")
	}
}

// onceNeedsDurability: a start that Redis may forget is no proof that nothing was sent.
func onceNeedsDurability(c *Contract, root *value, p *problems) {
	if v := root.find("delivery"); v != nil && c.Delivery == AtMostOnce && c.Durability == Memory {
		p.invalid(v, "delivery: at_most_once needs durability: replica or aof; with memory Redis may forget that a job was sent")
	}
}

func given(s string, v *value) string {
	if v == nil {
		return fmt.Sprintf("%s by default", s)
	}
	return s
}
