package api

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"tundish/internal/job"
)

// emailSchema describes an email to readers of the OpenAPI document. What is
// accepted is decided by emailFields; a test compares the two.
type emailSchema struct {
	_ struct{} `json:"-" additionalProperties:"false"`

	To          []string           `json:"to,omitempty" maxItems:"100" example:"[\"Ann <ann@example.com>\"]" doc:"Addresses, alone or with a name; one may stand without a list"`
	CC          []string           `json:"cc,omitempty" doc:"As to; to, cc and bcc hold at most 100 together"`
	BCC         []string           `json:"bcc,omitempty" doc:"As to; shown to nobody"`
	Subject     string             `json:"subject,omitempty" maxLength:"998"`
	Text        string             `json:"text,omitempty" doc:"At least one of text and html"`
	HTML        string             `json:"html,omitempty"`
	Headers     map[string]string  `json:"headers,omitempty" doc:"Further headers; not those that have a field or that Tundish sets"`
	Attachments []attachmentSchema `json:"attachments,omitempty" maxItems:"50"`
}

type attachmentSchema struct {
	_ struct{} `json:"-" additionalProperties:"false"`

	Name          string `json:"name" maxLength:"200"`
	ContentType   string `json:"content_type,omitempty" doc:"The default is application/octet-stream"`
	ContentBase64 string `json:"content_base64"`
}

// emailFields is every field of an email and how it is read.
var emailFields = map[string]func(e *emailDraft, at string, raw json.RawMessage){
	"to":          func(e *emailDraft, at string, raw json.RawMessage) { e.addresses(at, raw, &e.email.To) },
	"cc":          func(e *emailDraft, at string, raw json.RawMessage) { e.addresses(at, raw, &e.email.CC) },
	"bcc":         func(e *emailDraft, at string, raw json.RawMessage) { e.addresses(at, raw, &e.email.BCC) },
	"subject":     (*emailDraft).readSubject,
	"text":        (*emailDraft).readText,
	"html":        (*emailDraft).readHTML,
	"headers":     (*emailDraft).readHeaders,
	"attachments": (*emailDraft).readAttachments,
}

// emailDraft is an email while it is being read.
type emailDraft struct {
	d          *jobDraft
	email      job.Email
	recipients int
	readable   bool // text or html is given
}

func (d *jobDraft) readEmail(at string, raw json.RawMessage) {
	list, ok := members(raw)
	if !ok {
		d.bad(at, "give an object with %s", known(emailFields))
		return
	}
	e := &emailDraft{d: d}
	d.once(at, list, func(m member) {
		here := at + token(m.name)
		if read, ok := emailFields[m.name]; ok {
			read(e, here, m.value)
			return
		}
		d.bad(here, "unknown field; an email has %s", known(emailFields))
	})
	e.check(at)
	body, err := e.email.Encode()
	if err != nil {
		d.bad(at, "cannot be stored as JSON")
		return
	}
	d.job.Request.Body, d.job.Request.ContentType = body, job.EmailType
}

// check looks at the email as a whole.
func (e *emailDraft) check(at string) {
	switch {
	case e.recipients == 0:
		e.d.bad(at, "there is nobody to send it to; give to, cc or bcc")
	case e.recipients > job.MaxRecipients:
		e.d.bad(at, "to, cc and bcc hold %d addresses, at most %d are allowed", e.recipients, job.MaxRecipients)
	}
	if !e.readable {
		e.d.bad(at, "there is nothing to read in it; give text, html or both")
	}
}

func (e *emailDraft) readText(at string, raw json.RawMessage) {
	e.email.Text, _ = e.d.text(at, raw)
	e.readable = true
}

func (e *emailDraft) readHTML(at string, raw json.RawMessage) {
	e.email.HTML, _ = e.d.text(at, raw)
	e.readable = true
}

// addresses reads a list of mailboxes, or one alone.
func (e *emailDraft) addresses(at string, raw json.RawMessage, into *[]string) {
	list, ok := elements(raw)
	if !ok {
		e.address(at, raw, into)
		return
	}
	if len(list) > job.MaxRecipients {
		e.recipients += len(list) // check tells it
		return
	}
	for i, one := range list {
		e.address(at+"/"+strconv.Itoa(i), one, into)
	}
}

func (e *emailDraft) address(at string, raw json.RawMessage, into *[]string) {
	e.recipients++
	s, ok := e.d.text(at, raw)
	if !ok {
		return
	}
	a, err := job.ParseAddress(s)
	if err != nil {
		e.d.bad(at, "%s", err)
		return
	}
	*into = append(*into, a.String())
}

func (e *emailDraft) readSubject(at string, raw json.RawMessage) {
	s, ok := e.d.text(at, raw)
	if !ok {
		return
	}
	most := job.MaxLine - len("Subject: ")
	switch {
	case strings.ContainsFunc(s, unicode.IsControl):
		e.d.bad(at, "control characters and line breaks are not allowed")
	case len(s) > most:
		e.d.bad(at, "%d bytes, at most %d are allowed", len(s), most)
	}
	e.email.Subject = job.OneLine(s)
}

func (e *emailDraft) readHeaders(at string, raw json.RawMessage) {
	list, ok := members(raw)
	if !ok {
		e.d.bad(at, "give an object of strings")
		return
	}
	size := 0
	seen := map[string]bool{}
	e.d.once(at, list, func(m member) {
		here := at + token(m.name)
		value, ok := e.d.text(here, m.value)
		if !ok {
			return
		}
		lower := strings.ToLower(m.name)
		if seen[lower] {
			e.d.bad(here, "the name appears twice; the case of letters does not count")
			return
		}
		seen[lower] = true
		size += len(m.name) + len(value)
		if err := job.CheckEmailHeader(m.name, value, e.d.contract.Idempotency.Header); err != nil {
			e.d.bad(here, "%s", err)
			return
		}
		e.email.Headers = append(e.email.Headers, job.Header{Name: m.name, Value: job.OneLine(value)})
	})
	if len(list) > job.MaxHeaders || size > job.MaxHeaderBytes {
		e.d.bad(at, "%d headers of %d bytes; at most %d of %d bytes are allowed", len(list), size, job.MaxHeaders, job.MaxHeaderBytes)
	}
	slices.SortFunc(e.email.Headers, func(a, b job.Header) int { return cmp.Compare(a.Name, b.Name) })
}

func (e *emailDraft) readAttachments(at string, raw json.RawMessage) {
	list, ok := elements(raw)
	if !ok {
		e.d.bad(at, "give a list of objects with name, content_type and content_base64")
		return
	}
	if len(list) > job.MaxAttachments {
		e.d.bad(at, "%d attachments, at most %d are allowed", len(list), job.MaxAttachments)
		return
	}
	for i, one := range list {
		e.attachment(at+"/"+strconv.Itoa(i), one)
	}
}

func (e *emailDraft) attachment(at string, raw json.RawMessage) {
	list, ok := members(raw)
	if !ok {
		e.d.bad(at, "give an object with name, content_type and content_base64")
		return
	}
	a := job.Attachment{ContentType: "application/octet-stream"}
	given := map[string]bool{}
	e.d.once(at, list, func(m member) {
		here := at + token(m.name)
		s, ok := e.d.text(here, m.value)
		if !ok {
			return
		}
		given[m.name] = true
		switch m.name {
		case "name":
			a.Name = e.checked(here, s, job.CheckAttachmentName)
		case "content_type":
			a.ContentType = e.checked(here, s, job.CheckAttachmentType)
		case "content_base64":
			a.Content = e.content(here, s)
		default:
			e.d.bad(here, "unknown field; an attachment has name, content_type and content_base64")
		}
	})
	for _, name := range []string{"name", "content_base64"} {
		if !given[name] {
			e.d.bad(at+"/"+name, "is missing")
		}
	}
	e.email.Attachments = append(e.email.Attachments, a)
}

// checked is s, after what is wrong with it has been told.
func (e *emailDraft) checked(at, s string, check func(string) error) string {
	if err := check(s); err != nil {
		e.d.bad(at, "%s", err)
	}
	return s
}

func (e *emailDraft) content(at, s string) []byte {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		e.d.bad(at, "is not base64 of the standard alphabet with padding")
	}
	return b
}
