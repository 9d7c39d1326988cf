package destination

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tundish/internal/job"
)

const (
	maxURLBytes         = 2048
	maxMethodBytes      = 32
	maxHeaderNameBytes  = 128
	maxHeaderValueBytes = 8 << 10

	defaultMethod    = "POST"
	defaultKeyHeader = "Idempotency-Key"
)

func target(o *object) (HTTPTarget, *SMTPTarget) {
	defer o.close()
	if smtp := smtpTarget(o); smtp != nil {
		o.get("http") // known, and refused beside smtp
		return HTTPTarget{}, smtp
	}
	return httpTarget(o.section("http")), nil
}

func httpTarget(o *object) HTTPTarget {
	defer o.close()
	return HTTPTarget{
		URL:     o.url("url"),
		Method:  method(o),
		Headers: headers(o),
		Timeout: quantity(o, durations, "timeout", 10*time.Second, 100*time.Millisecond, 10*time.Minute),
		Sign:    sign(o),
		Auth:    auth(o),
		TLS:     tlsOf(o),
		Keep:    keepResponse(o),
		HTTP2:   o.flag("http2"),
	}
}

// url reads a URL to which a worker sends, such as the one below which jobs go.
// No error repeats it: it may hold what should not be seen.
func (o *object) url(name string) string {
	const want = "an absolute http or https URL, such as https://api.example/v1"
	v := o.get(name)
	if v == nil {
		o.missing(name, want)
		return ""
	}
	if v.kind != text {
		o.p.bad(v, want)
		return ""
	}
	if reference(v.text) {
		o.p.invalid(v, "%s: references (${…}) are not allowed in it: it is shown and logged; give secrets in headers or auth", name)
		return ""
	}
	u, wrong := parseTarget(v.text)
	if len(wrong) > 0 {
		o.p.invalid(v, "%s: %s; give %s", name, strings.Join(wrong, ", and "), want)
		return ""
	}
	return u.String()
}

// parseTarget says everything that is wrong with a target's URL; nothing when it is good.
func parseTarget(s string) (u *url.URL, wrong []string) {
	if s == "" || len(s) > maxURLBytes {
		return nil, []string{"it must have 1 to " + strconv.Itoa(maxURLBytes) + " bytes"}
	}
	check := func(bad bool, what string) {
		if bad {
			wrong = append(wrong, what)
		}
	}
	check(strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\\\"<>^`{|}", r) }),
		"a character in it needs percent-encoding (or punycode, in the host)")
	u, err := url.Parse(s)
	if err != nil {
		check(len(wrong) == 0, "it cannot be parsed") // mostly for that very character
		return nil, wrong
	}
	named := u.Hostname() != "" && u.Opaque == ""
	check(u.Scheme != "http" && u.Scheme != "https", "its scheme is not http or https")
	check(u.User != nil, "a user or password is not allowed in it")
	check(!named, "it names no host")
	check(named && !validHost(u), "its host or port is not valid")
	check(strings.Contains(s, "?"), "a query is not allowed in it (a job's path may have one)")
	check(strings.Contains(s, "#"), "a fragment is not allowed in it")
	check(slices.ContainsFunc(strings.Split(u.Path, "/"), func(s string) bool { return s == "." || s == ".." }), "its path must not contain . or .. segments")
	return u, wrong
}

func validHost(u *url.URL) bool {
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return false
		}
	} else if strings.HasSuffix(u.Host, ":") {
		return false
	}
	return !strings.ContainsFunc(u.Hostname(), func(r rune) bool {
		return !asciiLetterOrDigit(r) && !strings.ContainsRune(".-_:", r)
	})
}

// method reads the method of jobs that name none. CONNECT would make a tunnel.
func method(o *object) string {
	m := o.text("method", defaultMethod, maxMethodBytes)
	odd := func(r rune) bool { return (r < 'A' || r > 'Z') && r != '-' }
	if strings.ContainsFunc(m, odd) || m == "CONNECT" {
		o.p.bad(o.get("method"), "a method in capitals, such as POST (not CONNECT)")
		return defaultMethod
	}
	return m
}

// reserved holds the headers that a contract may not set: those of one
// connection (RFC 9110, section 7.6.1, and what frames a message), and those
// Tundish sets itself. All in lower case.
var reserved = map[string]string{
	"connection":          "belongs to one connection",
	"keep-alive":          "belongs to one connection",
	"proxy-authenticate":  "belongs to one connection",
	"proxy-authorization": "belongs to one connection",
	"proxy-connection":    "belongs to one connection",
	"te":                  "belongs to one connection",
	"trailer":             "belongs to one connection",
	"upgrade":             "belongs to one connection",
	"expect":              "would change how a request is sent",
	"transfer-encoding":   "is set for every request",
	"content-length":      "is set for every request",
	"host":                "comes from the URL",
	"idempotency-key":     "is set by Tundish",
	"traceparent":         "is set by Tundish",
}

func reservedHeader(name string) string {
	lower := strings.ToLower(name)
	if strings.HasPrefix(lower, "tundish-") {
		return "is set by Tundish"
	}
	return reserved[lower]
}

// keyHeader says whether name may carry the idempotency key.
func keyHeader(name string) bool {
	if !token(name) || strings.EqualFold(name, "content-type") || strings.EqualFold(name, "authorization") {
		return false
	}
	return strings.EqualFold(name, defaultKeyHeader) || reservedHeader(name) == ""
}

// token says whether s is a token of RFC 9110, as names of headers are.
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !asciiLetterOrDigit(r) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// headers reads the fixed headers, in order of their names. No error repeats a value.
func headers(o *object) []Header {
	v, names := o.entries("headers", job.MaxHeaders)
	var all []Header
	size := 0
	seen := map[string]bool{}
	for _, name := range names {
		field := v.fields[name]
		lower := strings.ToLower(name)
		switch why := reservedHeader(name); {
		case !token(name) || len(name) > maxHeaderNameBytes:
			o.p.invalid(field, "headers: %s is not the name of a header", quoted(name))
		case why != "":
			o.p.invalid(field, "headers: %s %s", name, why)
		case seen[lower]:
			o.p.invalid(field, "headers: %s is given twice (the case of letters does not count)", name)
		default:
			all = append(all, headerValues(o.p, field)...)
		}
		seen[lower] = true
	}
	for _, h := range all {
		size += len(h.Name) + len(h.Value)
	}
	if size > job.MaxHeaderBytes || len(all) > job.MaxHeaders {
		o.p.invalid(v, "headers: %d with %d bytes are too many; give at most %d with %d bytes", len(all), size, job.MaxHeaders, job.MaxHeaderBytes)
	}
	return all
}

// headerValues reads one text or a list of them.
func headerValues(p *problems, v *value) []Header {
	values := []*value{v}
	if v.kind == list {
		values = v.items
	}
	var all []Header
	for _, item := range values {
		_, wrong := references(item.text)
		switch {
		case item.kind != text:
			p.invalid(item, "%s: give text, in quotes where it looks like something else", item.label())
		case wrong != "":
			p.invalid(item, "%s: %s", item.label(), wrong)
		case !fieldValue(item.text):
			p.invalid(item, "%s: not a header's value; give at most %d visible ASCII characters and spaces, none at the ends", item.label(), maxHeaderValueBytes)
		default:
			all = append(all, Header{v.name, item.text})
		}
	}
	return all
}

func fieldValue(s string) bool {
	return len(s) <= maxHeaderValueBytes && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// idempotencyHeaderIsFree refuses a fixed header that would stand where the key goes.
func idempotencyHeaderIsFree(c *Contract, root *value, p *problems) {
	for _, h := range c.Target.Headers {
		if strings.EqualFold(h.Name, c.Idempotency.Header) {
			p.invalid(root.find("idempotency.header"), "idempotency.header (%s) must not be one of target.http.headers", c.Idempotency.Header)
			return
		}
	}
}
