package destination

import (
	"errors"
	"path"
	"strings"
)

// Reference stands in a contract for a secret, which only a worker reads: what
// is stored, shown and logged is the reference.
type Reference struct {
	Kind ReferenceKind
	Name string
}

// ReferenceKind says where a secret is kept.
type ReferenceKind string

// The kinds of references.
const (
	FromEnv  ReferenceKind = "env"    // ${env:NAME}: a variable of the worker's environment
	FromFile ReferenceKind = "file"   // ${file:/absolute/path}: a file of the worker's machine, read again when it changes
	Sealed   ReferenceKind = "secret" // ${secret:NAME}: given through the API, stored sealed
)

func (r Reference) String() string { return "${" + string(r.Kind) + ":" + r.Name + "}" }

const (
	wantReference = "${env:NAME}, ${file:/absolute/path} or ${secret:NAME}"

	maxReferenceBytes = 1024
	// ownEnv is where our own settings stand, the password of Redis among them:
	// who writes a contract must not have them sent to where it likes.
	ownEnv = "TUNDISH_"
)

// Expand puts what value gives in the place of each reference in s. The first
// error of value ends it, and so does a reference that is none.
func Expand(s string, value func(Reference) (string, error)) (string, error) {
	if !reference(s) {
		return s, nil
	}
	var out strings.Builder
	for {
		before, r, rest, ok, wrong := nextReference(s)
		if wrong != "" {
			return "", errors.New(wrong)
		}
		out.WriteString(before)
		if !ok {
			return out.String(), nil
		}
		v, err := value(r)
		if err != nil {
			return "", err
		}
		out.WriteString(v)
		s = rest
	}
}

// reference says whether a value holds a reference to a secret.
func reference(s string) bool { return strings.Contains(s, "${") }

// references lists the references in s, and says what is wrong with the first
// one that is none. What it says repeats nothing: it may be a secret in the wrong place.
func references(s string) (all []Reference, wrong string) {
	for {
		_, r, rest, ok, wrong := nextReference(s)
		if !ok {
			return all, wrong
		}
		all = append(all, r)
		s = rest
	}
}

// nextReference cuts s around its first reference. Without one before is all
// of s, and wrong says why when there was to be one.
func nextReference(s string) (before string, r Reference, rest string, ok bool, wrong string) {
	before, tail, found := strings.Cut(s, "${")
	if !found {
		return s, r, "", false, ""
	}
	inner, rest, closed := strings.Cut(tail, "}")
	if !closed {
		return s, r, "", false, "a reference does not end; give " + wantReference
	}
	kind, name, _ := strings.Cut(inner, ":")
	r = Reference{ReferenceKind(kind), name}
	if wrong := r.wrong(); wrong != "" {
		return s, r, "", false, wrong
	}
	return before, r, rest, true, ""
}

// wrong says why a reference cannot be one; empty when it can.
func (r Reference) wrong() string {
	switch r.Kind {
	case FromEnv:
		if !envName(r.Name) {
			return "env: names a variable, of letters, digits and _, the first no digit"
		}
		if strings.HasPrefix(r.Name, ownEnv) {
			return "env: variables that begin with " + ownEnv + " are Tundish's own and cannot be sent"
		}
	case FromFile:
		if !path.IsAbs(r.Name) || path.Clean(r.Name) != r.Name || len(r.Name) > maxReferenceBytes {
			return "file: names a file by its absolute path, without . and .. segments"
		}
	case Sealed:
		if !ValidSecretName(r.Name) {
			return "secret: names a secret, of 1 to 63 letters, digits, '.', '_' and '-'"
		}
	default:
		return "a reference is one of " + wantReference
	}
	return ""
}

func envName(s string) bool {
	return s != "" && len(s) <= maxReferenceBytes && (s[0] < '0' || s[0] > '9') &&
		!strings.ContainsFunc(s, func(r rune) bool { return !asciiLetterOrDigit(r) && r != '_' })
}

// ValidSecretName says whether s can name a secret, or a key that seals them.
func ValidSecretName(s string) bool {
	return s != "" && len(s) <= maxNameBytes &&
		!strings.ContainsFunc(s, func(r rune) bool { return !asciiLetterOrDigit(r) && !strings.ContainsRune("._-", r) })
}

// secretText reads a text that must hold a reference: in the clear it would be
// stored and shown. No error repeats it. v may be nil.
func secretText(p *problems, v *value) string {
	switch {
	case v == nil:
		return ""
	case v.kind != text || v.text == "" || len(v.text) > maxHeaderValueBytes:
		p.invalid(v, "%s: give text of 1 to %d bytes", v.label(), maxHeaderValueBytes)
		return ""
	}
	all, wrong := references(v.text)
	switch {
	case wrong != "":
		p.invalid(v, "%s: %s", v.label(), wrong)
	case len(all) == 0:
		p.invalid(v, "%s: a secret in the clear would be stored and shown; give a reference: %s", v.label(), wantReference)
	}
	return v.text
}

// References lists what a worker must be able to read before it sends, each once.
func (c *Contract) References() []Reference {
	var all []Reference
	seen := map[Reference]bool{}
	texts := c.Target.texts()
	if c.SMTP != nil {
		texts = append(texts, c.SMTP.Username, c.SMTP.Password)
	}
	for _, s := range texts {
		found, _ := references(s)
		for _, r := range found {
			if !seen[r] {
				seen[r] = true
				all = append(all, r)
			}
		}
	}
	return all
}

// texts are the values in which references may stand.
func (t *HTTPTarget) texts() []string {
	var all []string
	for _, h := range t.Headers {
		all = append(all, h.Value)
	}
	return append(append(all, t.Sign.Secrets...), t.Auth.texts()...)
}
