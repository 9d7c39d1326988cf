package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"
)

// EmailType is the content type of a stored email: the JSON of Email.
const EmailType = "application/vnd.tundish.email+json"

// Bounds of an email. MaxRecipients is what every server must take (RFC 5321
// §4.5.3.1.8), MaxLine the longest line of a header (RFC 5322 §2.1.1).
const (
	MaxRecipients          = 100
	MaxAddressBytes        = 254
	MaxNameBytes           = 256
	MaxLine                = 998
	MaxAttachments         = 50
	MaxAttachmentNameBytes = 200
	MaxAttachmentTypeBytes = 127
)

// Email is what an smtp destination sends, as it is stored with the job. Every
// address stands as Address.String writes it.
type Email struct {
	To          []string     `json:"to,omitempty"`
	CC          []string     `json:"cc,omitempty"`
	BCC         []string     `json:"bcc,omitempty"`
	Subject     string       `json:"subject,omitempty"`
	Text        string       `json:"text,omitempty"`
	HTML        string       `json:"html,omitempty"`
	Headers     []Header     `json:"headers,omitempty"` // sorted by name, no name twice
	Attachments []Attachment `json:"attachments,omitempty"`
}

// Attachment is a file that goes with an email.
type Attachment struct {
	Name        string `json:"name"`
	ContentType string `json:"content_type"`
	Content     []byte `json:"content"`
}

// Encode writes the email for storing, equal emails equally.
func (e *Email) Encode() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("email: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// DecodeEmail reads the email of a stored request.
func DecodeEmail(r *Request) (*Email, error) {
	if r.ContentType != EmailType {
		return nil, errors.New("the job holds no email")
	}
	var e Email
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return nil, errors.New("the stored email cannot be read")
	}
	return &e, nil
}

// Address is one mailbox.
type Address struct {
	Name string // for people; may be empty
	Spec string // local@domain; the domain is ASCII and in small letters
}

// String is the address as a header holds it.
func (a Address) String() string { return (&mail.Address{Name: a.Name, Address: a.Spec}).String() }

// ASCII says whether a server can take the address that knows no SMTPUTF8.
func (a Address) ASCII() bool { return isASCII(a.Spec) }

// Domain is the part behind the @.
func (a Address) Domain() string { return a.Spec[strings.LastIndexByte(a.Spec, '@')+1:] }

// ParseAddress reads one mailbox, alone or with a name: a@b.example or
// "A" <a@b.example>. The error says what to give and repeats nothing.
func ParseAddress(s string) (Address, error) {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return Address{}, errors.New("control characters and line breaks are not allowed")
	}
	parsed, err := mail.ParseAddress(s)
	if err != nil {
		return Address{}, errors.New(`is not one address; give a@b.example or "Name" <a@b.example>`)
	}
	at := strings.LastIndexByte(parsed.Address, '@')
	local, domain := parsed.Address[:at], strings.ToLower(parsed.Address[at+1:])
	switch {
	case len(parsed.Address) > MaxAddressBytes || len(local) > 64:
		return Address{}, fmt.Errorf("the address is too long; at most 64 bytes before the @ and %d in all are allowed", MaxAddressBytes)
	case !isASCII(domain):
		return Address{}, errors.New("write the domain in ASCII (punycode: xn--…)")
	case !ValidHost(domain):
		return Address{}, errors.New("the domain is not a host name")
	case strings.ContainsFunc(parsed.Name, unicode.IsControl):
		return Address{}, errors.New("control characters and line breaks are not allowed")
	case len(parsed.Name) > MaxNameBytes:
		return Address{}, fmt.Errorf("the name has %d bytes, at most %d are allowed", len(parsed.Name), MaxNameBytes)
	}
	return Address{Name: OneLine(parsed.Name), Spec: local + "@" + domain}, nil
}

// ValidHost says whether s is a host name of letters, digits, hyphens and dots.
func ValidHost(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		odd := func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
		}
		if strings.ContainsFunc(label, odd) {
			return false
		}
	}
	return true
}

// ownHeaders are what an email's headers may not set, in small letters, and why.
var ownHeaders = map[string]string{
	"from":         "comes from the destination's contract",
	"sender":       "comes from the destination's contract",
	"return-path":  "comes from the destination's contract",
	"to":           "has a field of its own: to",
	"cc":           "has a field of its own: cc",
	"bcc":          "has a field of its own: bcc",
	"subject":      "has a field of its own: subject",
	"date":         ownHeader,
	"message-id":   ownHeader,
	"mime-version": ownHeader,
	"received":     ownHeader,
}

const ownHeader = "is set by Tundish or on the way"

// CheckEmailHeader checks a header that an email brings along. keyHeader is
// the one that carries the idempotency key. The error does not repeat the value.
func CheckEmailHeader(name, value, keyHeader string) error {
	lower := strings.ToLower(name)
	why, own := ownHeaders[lower]
	switch {
	case name == "" || len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }):
		return errors.New("is not the name of a header")
	case own:
		return errors.New(why)
	case strings.HasPrefix(lower, "content-"), strings.HasPrefix(lower, "tundish-"), strings.HasPrefix(lower, "resent-"), strings.EqualFold(name, keyHeader):
		return errors.New(ownHeader)
	case strings.ContainsFunc(value, unicode.IsControl):
		return errors.New("control characters and line breaks are not allowed")
	case len(name)+len(": ")+len(value) > MaxLine:
		return fmt.Errorf("name and value have %d bytes, at most %d are allowed", len(name)+len(value), MaxLine-len(": "))
	}
	if lower == "reply-to" {
		if _, err := ParseAddress(value); err != nil {
			return err
		}
	}
	return nil
}

// CheckAttachmentName checks the name that an attachment is shown with.
func CheckAttachmentName(s string) error {
	odd := func(r rune) bool { return unicode.IsControl(r) || strings.ContainsRune(`/\"`, r) }
	if s == "" || len(s) > MaxAttachmentNameBytes || strings.ContainsFunc(s, odd) {
		return fmt.Errorf("give 1 to %d bytes without control characters, slashes and quotes", MaxAttachmentNameBytes)
	}
	return nil
}

// CheckAttachmentType checks the media type of an attachment. Of a message or of
// several parts the content may not stand in base64 (RFC 2045 §6.4).
func CheckAttachmentType(s string) error {
	kind, params, err := mime.ParseMediaType(s)
	main, _, two := strings.Cut(kind, "/")
	_, named := params["name"]
	odd := func(r rune) bool { return r < ' ' || r > '~' }
	switch {
	case err != nil || !two || len(s) > MaxAttachmentTypeBytes || strings.ContainsFunc(s, odd):
		return fmt.Errorf("is not a media type, such as application/pdf, of at most %d bytes", MaxAttachmentTypeBytes)
	case main == "multipart" || main == "message":
		return fmt.Errorf("%s/… cannot be attached; give another type, such as application/octet-stream", main)
	case named:
		return errors.New("the name has a field of its own: name")
	}
	return nil
}

// OneLine makes one space of each run of spaces: a header is folded at spaces,
// and a line of nothing but spaces must not come of it.
func OneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' }), " ")
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}
