package deliver

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"
)

// reserved lists the header names a job may not carry, in canonical form, and why.
var reserved = map[string]string{
	"Connection":        hopByHop,
	"Keep-Alive":        hopByHop,
	"Te":                hopByHop,
	"Trailer":           hopByHop,
	"Transfer-Encoding": hopByHop,
	"Upgrade":           hopByHop,
	"Http2-Settings":    hopByHop,
	"Expect":            hopByHop,
	"Host":              ours,
	"Content-Length":    ours,
	"Idempotency-Key":   ours,
	"Traceparent":       ours,
}

const (
	hopByHop = "belongs to one connection"
	ours     = "is set by Tundish"
)

// ValidateHeader checks one header of a job: its form, and that it is not one
// that belongs to a connection or that Tundish sets itself. The error does not
// quote the value.
func ValidateHeader(name, value string) error {
	if err := validField(name, value); err != nil {
		return err
	}
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	why, taken := reserved[canonical]
	switch {
	case taken:
	case strings.HasPrefix(canonical, "Proxy-"):
		why = hopByHop
	case strings.HasPrefix(canonical, "Tundish-"):
		why = ours
	default:
		return nil
	}
	return fmt.Errorf("header %s %s", canonical, why)
}

// validField checks the form of a header (RFC 9110 §5.1, §5.5).
func validField(name, value string) error {
	if !isToken(name) {
		return errors.New("header name has characters that are not allowed, or is empty")
	}
	for i := range len(value) {
		if c := value[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return fmt.Errorf("value of header %s has a control character", textproto.CanonicalMIMEHeaderKey(name))
		}
	}
	return nil
}

// ValidateMethod checks the method of a job or contract.
func ValidateMethod(method string) error {
	switch {
	case !isToken(method):
		return errors.New("method has characters that are not allowed, or is empty")
	case strings.EqualFold(method, "CONNECT"), strings.EqualFold(method, "TRACE"):
		return errors.New("methods CONNECT and TRACE cannot be sent")
	}
	return nil
}

func isToken(s string) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func isTokenByte(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
