package destination

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"tundish/internal/job"
)

// SMTPTarget is the server that mails go to.
type SMTPTarget struct {
	Host     string // name or address
	Port     int
	Username string // as written: it may be a reference; empty: no log-in
	Password string // always a reference
	From     string // of every mail, as job.Address writes it
	TLS      MailTLS
	Timeout  time.Duration // of one attempt: from MAIL FROM until the mail is taken
}

// MailTLS says how a connection to a mail server is encrypted.
type MailTLS string

// The modes. There is none that falls back to clear text.
const (
	StartTLS    MailTLS = "starttls" // in clear text until the server is asked, which must be able to
	ImplicitTLS MailTLS = "implicit" // from the first byte
	NoTLS       MailTLS = "none"     // for private addresses that the worker allows, without log-in
)

var mailPorts = map[MailTLS]int64{StartTLS: 587, ImplicitTLS: 465, NoTLS: 25}

// maxMailTimeout leaves room for servers that look through a mail before they answer.
const maxMailTimeout = 10 * time.Minute

// smtpTarget reads target.smtp; nil when there is none.
func smtpTarget(o *object) *SMTPTarget {
	v := o.get("smtp")
	if v == nil {
		return nil
	}
	if o.v.fields["http"] != nil {
		o.p.invalid(v, "smtp: a target is either http or smtp; give only one, with defaults and class counted")
	}
	s := o.p.open(v, o.part)
	defer s.close()
	mode := MailTLS(s.choice("tls", string(StartTLS), string(StartTLS), string(ImplicitTLS), string(NoTLS)))
	t := &SMTPTarget{
		Host:    mailHost(s),
		Port:    int(s.whole("port", mailPorts[mode], 1, 65535)),
		From:    mailFrom(s),
		TLS:     mode,
		Timeout: quantity(s, durations, "timeout", time.Minute, time.Second, maxMailTimeout),
	}
	t.Username, t.Password = logIn(s, mode)
	return t
}

func mailHost(o *object) string {
	const want = "a host name or an address, such as smtp.example.com"
	v := o.get("host")
	if v == nil {
		o.missing("host", want)
		return ""
	}
	_, err := netip.ParseAddr(v.text)
	if v.kind != text || err != nil && !job.ValidHost(v.text) {
		o.p.invalid(v, "host: is not allowed; give %s (the port has a field of its own)", want)
		return ""
	}
	return v.text
}

func mailFrom(o *object) string {
	const want = `the address that every mail comes from, such as Shop <shop@example.com>`
	v := o.get("from")
	if v == nil {
		o.missing("from", want)
		return ""
	}
	a, err := job.ParseAddress(v.text)
	if v.kind != text || err != nil {
		why := "text is needed"
		if v.kind == text {
			why = err.Error()
		}
		o.p.invalid(v, "from: %s", why)
		return ""
	}
	return a.String()
}

// wholeReference is a value that is one reference and nothing else.
var wholeReference = regexp.MustCompile(`^\$\{(env|file|secret):[^${}]+\}$`)

const maxLogInBytes = 255

// logIn reads username and password. No error repeats the password: contracts
// are stored and shown, so one that stands in the clear is refused.
func logIn(o *object, mode MailTLS) (username, password string) {
	username = o.text("username", "", maxLogInBytes)
	user, secret := o.get("username"), o.get("password")
	switch {
	case secret != nil && (secret.kind != text || len(secret.text) > maxURLBytes || !wholeReference.MatchString(secret.text)):
		o.p.invalid(secret, "password: must not stand in the contract, which is stored and shown; give a reference: "+wantReference)
	case secret != nil:
		if _, wrong := references(secret.text); wrong != "" {
			o.p.invalid(secret, "password: %s", wrong)
		}
		password = secret.text
	}
	if _, wrong := references(username); user != nil && (wrong != "" || reference(username) && !wholeReference.MatchString(username)) {
		o.p.invalid(user, "username: give text, or one reference: "+wantReference)
	}
	if o.part {
		return username, password
	}
	switch {
	case mode == NoTLS && user != nil:
		o.p.invalid(user, "username: a log-in is not allowed with tls: none, where everybody on the way could read it")
	case mode == NoTLS && secret != nil:
		o.p.invalid(secret, "password: a log-in is not allowed with tls: none, where everybody on the way could read it")
	case user != nil && secret == nil:
		o.missing("password", "a reference: "+wantReference+"; or leave username out")
	case user == nil && secret != nil:
		o.missing("username", "it, or leave password out")
	}
	return username, password
}

// mailKeyHeader refuses an idempotency header that a mail has otherwise.
func mailKeyHeader(c *Contract, root *value, p *problems) {
	if c.SMTP == nil {
		return
	}
	if err := job.CheckEmailHeader(c.Idempotency.Header, "", ""); err != nil && !strings.EqualFold(c.Idempotency.Header, defaultKeyHeader) ||
		strings.EqualFold(c.Idempotency.Header, "Reply-To") {
		p.invalid(root.find("idempotency.header"), "idempotency.header: %s has a meaning of its own in a mail; give another name", c.Idempotency.Header)
	}
}

// FilledSMTP is an smtp target with everything filled in.
type FilledSMTP struct {
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty" doc:"Always a reference"`
	From     string `json:"from"`
	TLS      string `json:"tls"`
	Timeout  string `json:"timeout"`
}

func filledTarget(c *Contract) FilledTarget {
	if t := c.SMTP; t != nil {
		return FilledTarget{SMTP: &FilledSMTP{Host: t.Host, Port: t.Port, Username: t.Username, Password: t.Password, From: t.From,
			TLS: string(t.TLS), Timeout: FormatDuration(t.Timeout)}}
	}
	http := filledHTTP(c.Target)
	return FilledTarget{HTTP: &http}
}

// String is the server as people read it.
func (t *SMTPTarget) String() string { return fmt.Sprintf("%s:%d", t.Host, t.Port) }
