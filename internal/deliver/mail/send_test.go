package mail

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
)

func mustSend(t *testing.T, s *Sender, a deliver.Attempt) deliver.Result {
	t.Helper()
	r := s.Send(context.Background(), a)
	if r.Outcome != job.OutcomeDelivered || !r.Wrote || r.StartedAt.IsZero() || r.Duration <= 0 || r.Error != "" {
		t.Fatalf("%+v", r)
	}
	return r
}

func TestModesOfTLS(t *testing.T) {
	t.Parallel()
	for _, mode := range []destination.MailTLS{destination.StartTLS, destination.ImplicitTLS, destination.NoTLS} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, mode == destination.ImplicitTLS)
			s := newSender(t)
			for range 3 {
				mustSend(t, s, attemptOf(t, o.addr, mode, hello()))
			}
			mails := o.all()
			if len(mails) != 3 || mails[0].from != "shop@b.example" || !slices.Equal(mails[0].to, []string{"ann@a.example"}) || mails[0].utf8 {
				t.Fatalf("%+v", mails)
			}
			if mails[0].conn != mails[2].conn {
				t.Error("the connection was not used again")
			}
		})
	}
}

func TestTLSIsNeverLeftOut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mode   destination.MailTLS
		change func(*Config)
		office *office
		want   job.Outcome
		text   string
	}{
		"no STARTTLS":        {destination.StartTLS, nil, newOffice(t, false, plainly), job.OutcomeTLS, "the server offers no STARTTLS"},
		"unknown authority":  {destination.StartTLS, func(c *Config) { c.RootCAs = x509.NewCertPool() }, newOffice(t, false), job.OutcomeTLS, "unknown authority"},
		"the same, implicit": {destination.ImplicitTLS, func(c *Config) { c.RootCAs = x509.NewCertPool() }, newOffice(t, true), job.OutcomeTLS, "unknown authority"},
		"no TLS at all":      {destination.ImplicitTLS, nil, newOffice(t, false), job.OutcomeTLS, "does not speak TLS"},
		"clear text, not allowed": {destination.NoTLS, func(c *Config) { c.AllowPrivate = nil }, newOffice(t, false), job.OutcomeBlocked,
			"without TLS only private addresses"},
		"private, not allowed": {destination.StartTLS, func(c *Config) { c.AllowPrivate = nil }, newOffice(t, false), job.OutcomeBlocked, "not public"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSender(t, func(c *Config) {
				if tc.change != nil {
					tc.change(c)
				}
			})
			r := s.Send(context.Background(), attemptOf(t, tc.office.addr, tc.mode, hello()))
			if r.Outcome != tc.want || r.Wrote || !strings.Contains(r.Error, tc.text) {
				t.Errorf("%+v, want %s: %s", r, tc.want, tc.text)
			}
			if len(tc.office.all()) != 0 {
				t.Error("a mail was sent")
			}
		})
	}
}

func TestClearTextToAPublicAddressIsBlocked(t *testing.T) {
	t.Parallel()
	a := attemptOf(t, "192.0.2.1:25", destination.NoTLS, hello())
	a.Contract.SMTP.Host = "8.8.8.8"
	if r := newSender(t).Send(context.Background(), a); r.Outcome != job.OutcomeBlocked {
		t.Errorf("%+v", r)
	}
}

func TestLogIn(t *testing.T) {
	t.Parallel()
	secrets := values{"GOOD": password, "BAD": "B4D"}
	for _, tc := range []struct {
		name, password string
		mode           destination.MailTLS
		want           job.Outcome
		text           string
	}{
		{"right", "${env:GOOD}", destination.StartTLS, job.OutcomeDelivered, ""},
		{"right, implicit", "${env:GOOD}", destination.ImplicitTLS, job.OutcomeDelivered, ""},
		{"wrong", "${env:BAD}", destination.StartTLS, job.OutcomeAuth, "AUTH PLAIN: 535, the log-in was refused"},
		{"missing", "${env:NONE}", destination.StartTLS, job.OutcomeAuth, "password: ${env:NONE}: is not known"},
		{"sealed", "${secret:GOOD}", destination.StartTLS, job.OutcomeDelivered, ""},
		{"in clear text", "${env:GOOD}", destination.NoTLS, job.OutcomeAuth, "no log-in without TLS"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, tc.mode == destination.ImplicitTLS)
			s := newSender(t, func(c *Config) { c.Secrets = secrets })
			a := attemptOf(t, o.addr, tc.mode, hello())
			a.Contract.SMTP.Username, a.Contract.SMTP.Password = username, tc.password
			r := s.Send(context.Background(), a)
			if r.Outcome != tc.want || r.Error != tc.text {
				t.Errorf("%+v, want %s: %s", r, tc.want, tc.text)
			}
			if strings.Contains(r.Error, "B4D") {
				t.Error("the error holds the password")
			}
			if (len(o.all()) == 1) != (tc.want == job.OutcomeDelivered) {
				t.Errorf("%d mails", len(o.all()))
			}
		})
	}
}

// Connections of one log-in are never used for another.
func TestLogInsDoNotShareConnections(t *testing.T) {
	t.Parallel()
	o := newOffice(t, false)
	s := newSender(t, func(c *Config) { c.Secrets = values{"A": password} })
	a := attemptOf(t, o.addr, destination.StartTLS, hello())
	mustSend(t, s, a)
	a.Contract.SMTP.Username, a.Contract.SMTP.Password = username, "${env:A}"
	mustSend(t, s, a)
	if n := o.all()[1].conn; n == o.all()[0].conn || len(o.auths) != 1 {
		t.Errorf("connection %d, log-ins %v", n, o.auths)
	}
}

// A password that was changed is that of the next mail: what was logged in with
// the one before is not used any more.
func TestChangedPasswordLogsInAgain(t *testing.T) {
	t.Parallel()
	o := newOffice(t, false)
	secrets := values{"A": password}
	s := newSender(t, func(c *Config) { c.Secrets = secrets })
	a := attemptOf(t, o.addr, destination.StartTLS, hello())
	a.Contract.SMTP.Username, a.Contract.SMTP.Password = username, "${env:A}"
	mustSend(t, s, a)
	secrets["A"] = "B4D"
	if r := s.Send(context.Background(), a); r.Outcome != job.OutcomeAuth {
		t.Errorf("%+v, want %s", r, job.OutcomeAuth)
	}
}

// What is sent reads as it was meant, whatever stands in it, and is the same in
// every attempt.
func TestWhatArrives(t *testing.T) {
	t.Parallel()
	o := newOffice(t, false)
	s := newSender(t)
	text := ".\r\n..\r\n.dot\n" + strings.Repeat("long ", 400) + "\nGrüße\x00\rend\n."
	html := "<p>" + strings.Repeat("x", 3000) + "</p>"
	e := &job.Email{To: []string{`"Ann, B" <ann@a.example>`, "=?utf-8?q?J=C3=BCrgen?= <j@a.example>"}, CC: []string{"<c@c.example>", "<ann@a.example>"},
		BCC: []string{"<hidden@d.example>"}, Subject: "Grüße " + strings.Repeat("a", 900), Text: text, HTML: html,
		Headers:     []job.Header{{Name: "Reply-To", Value: "Jürgen <help@b.example>"}, {Name: "X-Tag", Value: "a" + strings.Repeat(" ", 90) + strings.Repeat("b", 80) + " boundary=" + strings.Repeat("a", 60)}},
		Attachments: []job.Attachment{{Name: "Rechnung für Ann.pdf", ContentType: "application/pdf", Content: bytes.Repeat([]byte{0, 255, '\r', '\n', '.'}, 1000)}, {Name: "b.txt", ContentType: "text/plain", Content: []byte("b")}}}
	a := attemptOf(t, o.addr, destination.StartTLS, e)
	mustSend(t, s, a)
	mustSend(t, s, a)
	mails := o.all()
	if !bytes.Equal(mails[0].data, mails[1].data) {
		t.Error("the second attempt sent other bytes")
	}
	if want := []string{"ann@a.example", "j@a.example", "c@c.example", "hidden@d.example"}; !slices.Equal(mails[0].to, want) {
		t.Errorf("recipients %v, want %v", mails[0].to, want)
	}
	if bytes.Contains(mails[0].data, []byte("hidden")) {
		t.Error("bcc is shown")
	}
	m, err := netmail.ReadMessage(bytes.NewReader(mails[0].data))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"From": `"Shop" <shop@b.example>`, "Message-Id": "<" + string(a.Job.ID) + "@b.example>", "Date": "Mon, 30 Nov 2026 09:00:00 +0000",
		"Idempotency-Key": "shop:order-77", "Mime-Version": "1.0", "Subject": e.Subject, "Bcc": "", "User-Agent": "",
		"To": `"Ann, B" <ann@a.example>, "Jürgen" <j@a.example>`, "Cc": "<c@c.example>, <ann@a.example>", "Reply-To": `"Jürgen" <help@b.example>`,
		"X-Tag": "a " + strings.Repeat("b", 80) + " boundary=" + strings.Repeat("a", 60),
	} {
		if got := headerOf(t, m, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	parts := partsOf(t, m.Header.Get("Content-Type"), m.Body)
	want := []string{strings.NewReplacer("\r\n", "\r\n", "\n", "\r\n", "\r", "\r\n").Replace(text), html, string(e.Attachments[0].Content), "b"}
	if !slices.Equal(parts, want) {
		t.Errorf("parts %q\nwant %q", parts, want)
	}
	if !bytes.Contains(mails[0].data, []byte("Rechnung")) {
		t.Error("the attachment has no name")
	}
}

func headerOf(t *testing.T, m *netmail.Message, name string) string {
	t.Helper()
	if list, err := m.Header.AddressList(name); err == nil && name != "X-Tag" && name != "Message-Id" {
		var all []string
		for _, a := range list {
			text := "<" + a.Address + ">"
			if a.Name != "" {
				text = `"` + a.Name + `" ` + text
			}
			all = append(all, text)
		}
		return strings.Join(all, ", ")
	}
	got, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get(name))
	if err != nil {
		t.Error(err)
	}
	return got
}

// partsOf reads what is in a mail, through multiparts in each other.
func partsOf(t *testing.T, contentType string, body io.Reader) []string {
	t.Helper()
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(kind, "multipart/") {
		b, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		return []string{string(b)}
	}
	var all []string
	for r := multipart.NewReader(body, params["boundary"]); ; {
		p, err := r.NextPart() // decodes quoted-printable
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		var content io.Reader = p
		if p.Header.Get("Content-Transfer-Encoding") == "base64" {
			content = base64.NewDecoder(base64.StdEncoding, p)
		}
		all = append(all, partsOf(t, p.Header.Get("Content-Type"), content)...)
	}
}

func TestOnePart(t *testing.T) {
	t.Parallel()
	o := newOffice(t, false)
	s := newSender(t)
	for _, e := range []*job.Email{{To: []string{"<a@b.example>"}, HTML: "<p>ü</p>"}, {To: []string{"<a@b.example>"}}, {BCC: []string{"<a@b.example>"}, Text: "t"}} {
		mustSend(t, s, attemptOf(t, o.addr, destination.StartTLS, e))
	}
	m, err := netmail.ReadMessage(bytes.NewReader(o.all()[0].data))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(quotedprintable.NewReader(m.Body))
	if kind := m.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/html") || strings.TrimSpace(string(body)) != "<p>ü</p>" {
		t.Errorf("%s: %s", kind, body)
	}
}

func TestAddressesThatAreNotASCII(t *testing.T) {
	t.Parallel()
	e := &job.Email{To: []string{"<jürgen@a.example>"}, Text: "t"}
	able, unable := newOffice(t, false), newOffice(t, false, func(o *office) { o.EnableSMTPUTF8 = false })
	s := newSender(t)
	mustSend(t, s, attemptOf(t, able.addr, destination.StartTLS, e))
	if m := able.all()[0]; !m.utf8 || m.to[0] != "jürgen@a.example" {
		t.Errorf("%+v", m)
	}
	r := s.Send(context.Background(), attemptOf(t, unable.addr, destination.StartTLS, e))
	if r.Outcome != job.OutcomeBadRequest || r.Wrote || !strings.Contains(r.Error, "SMTPUTF8") {
		t.Errorf("%+v", r)
	}
	mustSend(t, s, attemptOf(t, unable.addr, destination.StartTLS, hello())) // on the same connection
	if n := unable.connections(); n > 2 {                                    // STARTTLS begins a second session
		t.Errorf("%d sessions", n)
	}
}

func TestMailBeyondTheServersSize(t *testing.T) {
	t.Parallel()
	o := newOffice(t, false, func(o *office) { o.MaxMessageBytes = 1000 })
	e := hello()
	e.Text = strings.Repeat("x", 1000)
	r := newSender(t).Send(context.Background(), attemptOf(t, o.addr, destination.StartTLS, e))
	if r.Outcome != job.OutcomeBadRequest || r.Wrote || !strings.Contains(r.Error, "at most 1000") {
		t.Errorf("%+v", r)
	}
}

func TestWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	o := newOffice(t, false)
	s := newSender(t)
	good := attemptOf(t, o.addr, destination.StartTLS, hello())
	for name, change := range map[string]func(a *deliver.Attempt){
		"http": func(a *deliver.Attempt) { a.Contract = &destination.Contract{} },
		"no email": func(a *deliver.Attempt) {
			a.Job = &job.Job{Request: job.Request{ContentType: "application/json", Body: []byte("{}")}}
		},
		"no recipient":  func(a *deliver.Attempt) { a.Job = stored(t, &job.Email{Text: "t"}) },
		"odd recipient": func(a *deliver.Attempt) { a.Job = stored(t, &job.Email{To: []string{"a@b\r\nDATA"}, Text: "t"}) },
		"odd header": func(a *deliver.Attempt) {
			e := hello()
			e.Headers = []job.Header{{Name: "X", Value: "a\r\nb"}}
			a.Job = stored(t, e)
		},
		"header of ours": func(a *deliver.Attempt) {
			e := hello()
			e.Headers = []job.Header{{Name: "bcc", Value: "a@b"}}
			a.Job = stored(t, e)
		},
		"odd attachment": func(a *deliver.Attempt) {
			e := hello()
			e.Attachments = []job.Attachment{{Name: "a", ContentType: "text/plain\r\nX: y"}}
			a.Job = stored(t, e)
		},
		"long name": func(a *deliver.Attempt) {
			e := hello()
			e.Attachments = []job.Attachment{{Name: strings.Repeat("a", 600), ContentType: "text/plain", Content: []byte("a")}}
			a.Job = stored(t, e)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := good
			change(&a)
			if r := s.Send(context.Background(), a); r.Outcome != job.OutcomeBadRequest || r.Wrote || r.Error == "" {
				t.Errorf("%+v", r)
			}
		})
	}
}

func stored(t *testing.T, e *job.Email) *job.Job {
	t.Helper()
	body, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &job.Job{ID: job.NewID(), Request: job.Request{ContentType: job.EmailType, Body: body}}
}

func TestRecipientsThatAreRefused(t *testing.T) {
	t.Parallel()
	unknown := &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such\x07 mailbox"}
	busy := &smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 2, 1}, Message: "mailbox busy, too many messages"}
	answers := map[string]*smtp.SMTPError{"no@a.example": unknown, "busy@a.example": busy}
	for _, tc := range []struct {
		to    []string
		want  job.Outcome
		text  string
		mails int
	}{
		{[]string{"<ann@a.example>", "<no@a.example>", "<bob@a.example>"}, job.OutcomeDelivered, "1 of 3 recipients refused: <no@a.example>: 550 5.1.1 no such  mailbox", 1},
		{[]string{"<no@a.example>"}, job.OutcomeRejected, "1 of 1 recipients refused: <no@a.example>: 550 5.1.1 no such  mailbox", 0},
		{[]string{"<ann@a.example>", "<busy@a.example>"}, job.OutcomePostponed, "RCPT TO <busy@a.example>: 450 4.2.1 mailbox busy, too many messages", 0},
		{[]string{"<no@a.example>", "<busy@a.example>"}, job.OutcomePostponed, "RCPT TO <busy@a.example>: 450 4.2.1 mailbox busy, too many messages", 0},
	} {
		o := newOffice(t, false, func(o *office) {
			o.onRcpt = func(to string) error {
				if e := answers[to]; e != nil {
					return e
				}
				return nil
			}
		})
		s := newSender(t)
		r := s.Send(context.Background(), attemptOf(t, o.addr, destination.StartTLS, &job.Email{To: tc.to, Text: "t"}))
		if r.Outcome != tc.want || r.Error != tc.text || !r.Wrote {
			t.Errorf("%v: %+v, want %s: %s", tc.to, r, tc.want, tc.text)
		}
		if n := len(o.all()); n != tc.mails {
			t.Errorf("%v: %d mails, want %d", tc.to, n, tc.mails)
		}
		mustSend(t, s, attemptOf(t, o.addr, destination.StartTLS, hello()))
		if mails := o.all(); o.connections() > 2 || len(mails[len(mails)-1].to) != 1 {
			t.Errorf("%v: afterwards %d sessions, %+v", tc.to, o.connections(), mails)
		}
	}
}

func TestTextOfRefusalsIsBounded(t *testing.T) {
	t.Parallel()
	o := newOffice(t, false, func(o *office) {
		o.onRcpt = func(to string) error {
			if to == "ann@a.example" {
				return nil
			}
			return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: strings.Repeat("no ", 100)}
		}
	})
	e := hello()
	for i := range 99 {
		e.CC = append(e.CC, "<"+strings.Repeat("x", i%60+1)+string(rune('a'+i%26))+"@"+strings.Repeat("b", i/26+1)+".example>")
	}
	r := newSender(t).Send(context.Background(), attemptOf(t, o.addr, destination.StartTLS, e))
	if r.Outcome != job.OutcomeDelivered || len(r.Error) > maxRefusals+3 || !strings.Contains(r.Error, "of 100 recipients refused") {
		t.Errorf("%d bytes: %+v", len(r.Error), r)
	}
}

// The gate stands before MAIL FROM, on a connection that is ready.
func TestGate(t *testing.T) {
	t.Parallel()
	o := newOffice(t, false)
	s := newSender(t)
	a := attemptOf(t, o.addr, destination.StartTLS, hello())
	mustSend(t, s, a) // a connection is there
	a.At = time.Now().Add(200 * time.Millisecond)
	asked, written := 0, 0
	a.Gate = func() error {
		if time.Now().Before(a.At) {
			t.Error("asked too early")
		}
		asked++
		return nil
	}
	a.Writing = func() { written++ }
	r := mustSend(t, s, a)
	// On a busy machine the attempt may come to its connection after the slot,
	// and the gate is asked before, too.
	if lag := r.StartedAt.Sub(a.At); lag < 0 || asked < 1 || asked > 2 || written != 1 {
		t.Errorf("%s after the slot, asked %d times, written %d times", lag, asked, written)
	}
	if came := o.all()[1].mail; came.Before(a.At) {
		t.Errorf("MAIL FROM came %s before the slot", a.At.Sub(came))
	}

	a.At, a.Gate = time.Now().Add(20*time.Millisecond), func() error { return errors.New("no") }
	if r = s.Send(context.Background(), a); r.Outcome != job.OutcomeNotSent || r.Wrote {
		t.Errorf("%+v", r)
	}
	a.At = time.Now().Add(-time.Second) // too late: the connection is kept
	before := o.connections()
	for range 3 {
		if r = s.Send(context.Background(), a); r.Outcome != job.OutcomeNotSent {
			t.Errorf("%+v", r)
		}
	}
	if n := o.connections() - before; n > 2 || len(o.all()) != 2 {
		t.Errorf("%d more sessions, %d mails", n, len(o.all()))
	}
}

func TestConnectionsDoNotLiveForEver(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]int{time.Hour: 2, time.Nanosecond: 6} {
		o := newOffice(t, false)
		s := newSender(t, func(c *Config) { c.MaxAge = age })
		for range 3 {
			mustSend(t, s, attemptOf(t, o.addr, destination.StartTLS, hello()))
		}
		if n := o.connections(); n != want { // STARTTLS begins a second session
			t.Errorf("at most %v old: %d sessions for 3 mails, want %d", age, n, want)
		}
	}
}

func TestStopWhileWaitingForTheSlot(t *testing.T) {
	t.Parallel()
	o := newOffice(t, false)
	a := attemptOf(t, o.addr, destination.StartTLS, hello())
	a.At = time.Now().Add(time.Hour)
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(50*time.Millisecond, func() { cancel(deliver.ErrStopped) })
	if r := newSender(t).Send(ctx, a); r.Outcome != job.OutcomeNotSent || r.Error != deliver.ErrStopped.Error() || r.Wrote {
		t.Errorf("%+v", r)
	}
}

func TestUnusedConnectionsEnd(t *testing.T) {
	t.Parallel()
	o := newOffice(t, false)
	s := newSender(t, func(c *Config) { c.IdleTimeout = 20 * time.Millisecond })
	a := attemptOf(t, o.addr, destination.StartTLS, hello())
	mustSend(t, s, a)
	waitFor(t, "the connection to be dropped", func() bool { return len(s.pools.Unused()) == 0 })
}

func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(10 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestSendAfterClose(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	s.Close()
	if r := s.Send(context.Background(), attemptOf(t, "127.0.0.1:1", destination.StartTLS, hello())); r.Outcome != job.OutcomeNotSent {
		t.Errorf("%+v", r)
	}
}
