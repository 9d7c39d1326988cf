package destination

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tundish/internal/job"
)

const (
	day = 24 * time.Hour

	kib int64 = 1 << 10
	mib int64 = 1 << 20
	gib int64 = 1 << 30
	tib int64 = 1 << 40
)

// Bounds of what the writer of a contract names.
const (
	maxLabels     = 64
	maxLabelBytes = 255
	maxWeights    = 1000
)

// extent says how much of a contract a tree holds.
type extent int

const (
	complete  extent = iota
	layer            // defaults or a class: no name, and fields may be missing
	classless        // a destination whose class is not known: fields may be missing
)

// decode turns a merged tree into a contract. Only in a complete one are
// missing fields reported, and fields that do not fit together.
func decode(v *value, p *problems, e extent) *Contract {
	o := p.open(v, e == layer)
	c := &Contract{}
	if e != layer {
		c.Name, c.Class = o.name("name", true), o.name("class", false)
	}
	o.part = o.part || e == classless
	c.Labels = labels(o)
	c.Target, c.SMTP = target(o.section("target"))
	var shortest *value
	c.Limits, shortest = limits(o)
	c.Guard = guard(o, c.Limits, shortest)
	c.MaxInFlight = int(o.whole("max_in_flight", defaultInFlight(c.Limits), 1, maxInFlight))
	c.Queue = queue(o.section("queue"))
	c.Tenants = tenants(o.section("tenants"))
	c.Delivery = Delivery(o.choice("delivery", string(AtLeastOnce), string(AtLeastOnce), string(AtMostOnce)))
	c.Durability = Durability(o.choice("durability", string(Memory), string(Memory), string(Replica), string(AOF)))
	c.Idempotency = idempotency(o.section("idempotency"))
	c.Retry = retry(o.section("retry"))
	c.Breaker = breaker(o.section("breaker"))
	c.Adaptive = adaptive(o.section("adaptive"), c)
	c.LearnLimits = o.flag("learn_limits")
	c.Verify = verify(o.section("verify"))
	c.Retention = retention(o.section("retention"))
	c.Paused = o.flag("paused")
	notBuilt(o)
	o.close()
	if e == complete {
		relations(c, v, p)
	}
	return c
}

// notBuilt names the parts of a contract that come later.
func notBuilt(o *object) {
	o.later("slots")
	o.later("callback")
	if v := o.get("secrets"); v != nil {
		o.p.invalid(v, "secrets: are given through the API, with PUT, and nowhere else; use ${env:NAME} or ${file:/absolute/path}")
	}
}

// name reads a field that holds a name.
func (o *object) name(field string, needed bool) string {
	v := o.get(field)
	switch {
	case v == nil && needed:
		o.missing(field, wantName)
		return ""
	case v == nil:
		return ""
	case v.kind != text || !validName(v.text):
		o.p.bad(v, wantName)
		return ""
	}
	return v.text
}

func labels(o *object) map[string]string {
	v, names := o.entries("labels", maxLabels)
	all := map[string]string{}
	for _, name := range names {
		field := v.fields[name]
		switch {
		case !validLabel(name):
			o.p.invalid(field, "labels: %s is not allowed as a name; give 1 to %d letters, digits, '.', '_', '-' and '/'", quoted(name), maxNameBytes)
		case field.kind != text:
			o.p.bad(field, "text, in quotes where it looks like something else")
		case len(field.text) > maxLabelBytes:
			o.p.invalid(field, "%s: %d bytes are not allowed; give at most %d", field.label(), len(field.text), maxLabelBytes)
		default:
			all[name] = field.text
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func validLabel(name string) bool {
	return name != "" && len(name) <= maxNameBytes && !strings.ContainsFunc(name, func(r rune) bool {
		return !asciiLetterOrDigit(r) && !strings.ContainsRune("._-/", r)
	})
}

func asciiLetterOrDigit(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

func queue(o *object) Queue {
	defer o.close()
	o.later("scheduled", "0")
	return Queue{
		Capacity:        o.whole("capacity", 10_000, 1, 10_000_000),
		MaxBytes:        quantity(o, sizes, "max_bytes", 256*mib, 64*kib, tib),
		MaxJobBytes:     quantity(o, sizes, "max_job_bytes", 256*kib, kib, 4*mib),
		MaxHistoryBytes: quantity(o, sizes, "max_history_bytes", gib, 64*kib, tib),
		Aging:           quantity(o, durations, "aging", 10*time.Second, 0, day),
		WhenPaused:      WhenPaused(o.choice("when_paused", string(Accept), string(Accept), string(Refuse))),
	}
}

func tenants(o *object) Tenants {
	defer o.close()
	// A share of all that is free would be no bound at all: s/(1-s) has no end.
	t := Tenants{Share: quantity(o, shares, "share", 0, 0, 0.99)}
	v, names := o.entries("weights", maxWeights)
	weights := map[string]float64{}
	for _, name := range names {
		field := v.fields[name]
		w, err := strconv.ParseFloat(field.text, 64)
		switch {
		case name == "" || len(name) > job.MaxTenantBytes:
			o.p.invalid(field, "weights: %s is not a tenant; give 1 to %d bytes", quoted(name), job.MaxTenantBytes)
		case field.kind != number || err != nil || w < 0.001 || w > 1000:
			o.p.bad(field, "a number from 0.001 to 1000")
		default:
			weights[name] = w
		}
	}
	if len(weights) > 0 {
		t.Weights = weights
	}
	return t
}

func idempotency(o *object) Idempotency {
	defer o.close()
	i := Idempotency{
		Header: o.text("header", defaultKeyHeader, maxHeaderNameBytes),
		Prefix: Prefix(o.choice("prefix", string(PrefixProducer), string(PrefixProducer), string(PrefixNone))),
	}
	if !keyHeader(i.Header) {
		o.p.bad(o.get("header"), "the name of a header that nothing else sets, such as "+defaultKeyHeader)
		i.Header = defaultKeyHeader
	}
	return i
}

func retry(o *object) Retry {
	defer o.close()
	return Retry{
		MaxAttempts:   int(o.whole("max_attempts", 8, 1, 1000)),
		MaxAge:        quantity(o, durations, "max_age", day, time.Second, 366*day),
		MinBackoff:    quantity(o, durations, "min_backoff", time.Second, 10*time.Millisecond, day),
		MaxBackoff:    quantity(o, durations, "max_backoff", 10*time.Minute, 10*time.Millisecond, 30*day),
		MaxRetryAfter: quantity(o, durations, "max_retry_after", time.Hour, time.Second, 30*day),
		MaxThrottled:  int(o.whole("max_throttled", 20, 1, 1000)),
	}
}

func breaker(o *object) Breaker {
	defer o.close()
	return Breaker{
		Failures:   int(o.whole("failures", 10, 0, 100_000)),
		OpenFor:    quantity(o, durations, "open_for", 10*time.Second, time.Second, day),
		MaxOpenFor: quantity(o, durations, "max_open_for", 5*time.Minute, time.Second, 30*day),
	}
}

// adaptive has a tenth of the limit that sets the pace for its floor unless one is given.
func adaptive(o *object, c *Contract) Adaptive {
	defer o.close()
	a := Adaptive{Enabled: o.flag("enabled")}
	if len(c.Limits) == 0 {
		o.known = append(o.known, "floor")
		return a
	}
	most := float64(c.Pace().Rate)
	a.Floor = max(most/10, 0.001)
	v := o.get("floor")
	if v == nil {
		return a
	}
	floor, err := strconv.ParseFloat(v.text, 64)
	if v.kind != number || err != nil || floor < 0.001 || floor > most {
		o.p.bad(v, fmt.Sprintf("a number from 0.001 to %v, the rate of the limit that sets the pace, in its own unit", most))
		return a
	}
	a.Floor = floor
	return a
}

// verify reads where the destination is asked about a job that is in doubt.
func verify(o *object) string {
	defer o.close()
	path := o.text("path", "", maxVerifyBytes)
	if path == "" {
		return ""
	}
	named := strings.Contains(path, VerifyKey) || strings.Contains(path, VerifyID)
	if !strings.HasPrefix(path, "/") || !named || strings.Contains(path, "..") || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' }) {
		o.p.bad(o.get("path"), "a path below the target's URL that names the job, such as /payouts/"+VerifyKey+" or /find?id="+VerifyID)
		return ""
	}
	return path
}

// What a verify path names the job by: the idempotency key that the destination got, or the job's id.
const (
	VerifyKey = "{key}"
	VerifyID  = "{id}"

	maxVerifyBytes = 1024
)

func retention(o *object) Retention {
	defer o.close()
	return Retention{
		Finished:    quantity(o, durations, "finished", time.Hour, 0, 366*day),
		Dead:        quantity(o, durations, "dead", 30*day, time.Minute, 366*day),
		DeadMax:     o.whole("dead_max", 10_000, 1, 10_000_000),
		Idempotency: quantity(o, durations, "idempotency", day, 0, 366*day),
	}
}
