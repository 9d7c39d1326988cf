package mail

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"mime/multipart"
	netmail "net/mail"
	"strconv"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"tundish/internal/deliver"
	"tundish/internal/job"
)

// letter is a mail that is ready to be handed over.
type letter struct {
	from string   // as MAIL FROM takes it, with its brackets
	to   []string // as RCPT TO takes them; each once
	utf8 bool     // an address needs SMTPUTF8
	data []byte   // without the final dot, and before dots are doubled
}

// compose makes the mail of an attempt. An error means that it can never be sent.
func compose(a *deliver.Attempt) (*letter, error) {
	if a.Contract == nil || a.Contract.SMTP == nil || a.Job == nil {
		return nil, errors.New("attempt without smtp target or job")
	}
	email, err := job.DecodeEmail(&a.Job.Request)
	if err != nil {
		return nil, err
	}
	from, err := job.ParseAddress(a.Contract.SMTP.From)
	if err != nil {
		return nil, fmt.Errorf("contract: from: %w", err)
	}
	l := &letter{from: job.Address{Spec: from.Spec}.String(), utf8: !from.ASCII()}
	m := newMsg(a, from)
	if err := l.address(m, email); err != nil {
		return nil, err
	}
	if err := fill(m, email, a); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if _, err := m.WriteTo(&out); err != nil {
		return nil, errors.New("the mail cannot be put together")
	}
	if l.data, err = fixBoundaries(out.Bytes(), string(a.Job.ID)); err != nil {
		return nil, err
	}
	return l, checkLines(l.data)
}

func newMsg(a *deliver.Attempt, from job.Address) *gomail.Msg {
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent(), gomail.WithCharset(gomail.CharsetUTF8), gomail.WithEncoding(gomail.EncodingQP))
	m.SetAddrHeaderFromMailAddress(gomail.HeaderFrom, address(from))
	m.SetMessageIDWithValue(string(a.Job.ID) + "@" + from.Domain())
	m.SetDateWithValue(a.Job.CreatedAt.UTC())
	if name := a.Contract.Idempotency.Header; name != "" {
		key := a.Key
		if key == "" {
			key = string(a.Job.ID)
		}
		m.SetGenHeader(gomail.Header(name), key)
	}
	return m
}

func address(a job.Address) *netmail.Address { return &netmail.Address{Name: a.Name, Address: a.Spec} }

// address fills in whom the mail is for. Those of bcc stand on the envelope alone.
func (l *letter) address(m *gomail.Msg, email *job.Email) error {
	seen := map[string]bool{}
	for _, list := range []struct {
		header gomail.AddrHeader
		texts  []string
	}{{gomail.HeaderTo, email.To}, {gomail.HeaderCc, email.CC}, {"", email.BCC}} {
		var shown []*netmail.Address
		for _, text := range list.texts {
			to, err := job.ParseAddress(text)
			if err != nil {
				return fmt.Errorf("a recipient: %w", err)
			}
			l.utf8 = l.utf8 || !to.ASCII()
			shown = append(shown, address(to))
			if spec := (job.Address{Spec: to.Spec}).String(); !seen[spec] {
				seen[spec] = true
				l.to = append(l.to, spec)
			}
		}
		if list.header != "" && len(shown) > 0 {
			m.SetAddrHeaderFromMailAddress(list.header, shown...)
		}
	}
	if len(l.to) == 0 {
		return errors.New("the mail has no recipient")
	}
	return nil
}

// fill puts in what is to be read.
func fill(m *gomail.Msg, email *job.Email, a *deliver.Attempt) error {
	if subject := job.OneLine(email.Subject); subject != "" {
		m.SetGenHeader(gomail.HeaderSubject, subject)
	}
	for _, h := range email.Headers {
		if err := job.CheckEmailHeader(h.Name, h.Value, a.Contract.Idempotency.Header); err != nil {
			return fmt.Errorf("header %s %w", h.Name, err)
		}
		if to, err := job.ParseAddress(h.Value); err == nil && strings.EqualFold(h.Name, "Reply-To") {
			m.SetAddrHeaderFromMailAddress(gomail.HeaderReplyTo, address(to))
			continue
		}
		m.SetGenHeader(gomail.Header(h.Name), job.OneLine(h.Value))
	}
	switch {
	case email.HTML == "":
		m.SetBodyString(gomail.TypeTextPlain, email.Text)
	case email.Text == "":
		m.SetBodyString(gomail.TypeTextHTML, email.HTML)
	default:
		m.SetBodyString(gomail.TypeTextPlain, email.Text)
		m.AddAlternativeString(gomail.TypeTextHTML, email.HTML)
	}
	for _, f := range email.Attachments {
		if err := errors.Join(job.CheckAttachmentName(f.Name), job.CheckAttachmentType(f.ContentType)); err != nil {
			return fmt.Errorf("an attachment: %w", err)
		}
		if err := m.AttachReader(f.Name, bytes.NewReader(f.Content), gomail.WithFileContentType(gomail.ContentType(f.ContentType)),
			gomail.WithFileEncoding(gomail.EncodingB64)); err != nil {
			return errors.New("an attachment cannot be read")
		}
	}
	return nil
}

// maxDepth is how many multiparts lie in each other: mixed around alternative.
const maxDepth = 2

// fixBoundaries puts boundaries made from the job's id in the place of random
// ones, so that every attempt sends the same bytes. They are found where a
// reader of the mail finds them, and no content can hold what was random.
func fixBoundaries(data []byte, id string) ([]byte, error) {
	m, err := netmail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return nil, errors.New("the mail cannot be read again")
	}
	contentType, body := m.Header.Get("Content-Type"), m.Body
	for depth := range maxDepth {
		_, params, err := mime.ParseMediaType(contentType)
		if err != nil {
			return nil, errors.New("the mail's content type cannot be read again")
		}
		boundary := params["boundary"]
		if boundary == "" {
			break
		}
		part, err := multipart.NewReader(body, boundary).NextRawPart()
		if err != nil {
			return nil, errors.New("the mail's parts cannot be read again")
		}
		contentType, body = part.Header.Get("Content-Type"), part
		sum := sha256.Sum256([]byte(id + " " + strconv.Itoa(depth)))
		data = bytes.ReplaceAll(data, []byte(boundary), []byte(hex.EncodeToString(sum[:])[:len(boundary)]))
	}
	return data, nil
}

// checkLines refuses what a server need not take (RFC 5321 §4.5.3.1.6).
func checkLines(data []byte) error {
	for line := range bytes.Lines(data) {
		if len(bytes.TrimRight(line, "\r\n")) > job.MaxLine {
			return fmt.Errorf("a line of the mail is longer than %d bytes", job.MaxLine)
		}
	}
	return nil
}
