package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// fieldErrors gathers every problem with a request, to be told at once.
type fieldErrors []job.FieldError

// maxFieldErrors bounds what one answer tells.
const maxFieldErrors = 100

func (f *fieldErrors) add(e job.FieldError) {
	if len(*f) < maxFieldErrors {
		*f = append(*f, e)
	}
}

func (f *fieldErrors) bad(pointer, format string, args ...any) {
	f.add(job.FieldError{Pointer: pointer, Detail: fmt.Sprintf(format, args...), Code: job.CodeInvalid})
}

func (f *fieldErrors) unsupported(pointer, format string, args ...any) {
	f.add(job.FieldError{Pointer: pointer, Detail: fmt.Sprintf(format, args...), Code: job.CodeNotSupported})
}

// member is one name and value of a JSON object, the value byte for byte.
type member struct {
	name  string
	value json.RawMessage
}

// checkJSON says why data is not one JSON value in UTF-8.
func checkJSON(data []byte) error {
	if !utf8.Valid(data) {
		return job.Errorf(job.CodeMalformed, "the body is not UTF-8; send other bytes as body_base64")
	}
	if json.Valid(data) {
		return nil
	}
	var v json.RawMessage
	err := json.Unmarshal(data, &v) // once more, for what is wrong
	if len(bytes.TrimSpace(data)) == 0 {
		return job.Errorf(job.CodeMalformed, "the body is empty")
	}
	detail := "the body is not JSON: " + err.Error()
	if syntax, ok := err.(*json.SyntaxError); ok { //nolint:errorlint // Unmarshal does not wrap
		detail += " (at byte " + strconv.FormatInt(syntax.Offset, 10) + ")"
	}
	return job.Errorf(job.CodeMalformed, "%s", detail)
}

func startsWith(raw []byte, c byte) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == c
}

// plain reads a JSON string, part of a document that is valid, in which
// nothing is escaped: most are, and need no decoder.
func plain(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		return "", false
	}
	return string(raw[1 : len(raw)-1]), true
}

func isNull(raw []byte) bool { return string(raw) == "null" }

// token escapes a name for a JSON pointer and bounds what is repeated of it.
func token(name string) string {
	return job.PointerTo("", clip(name, 100))
}

// once visits the members that are not null and refuses repeated names.
func (f *fieldErrors) once(at string, list []member, visit func(member)) {
	seen := repeats(list)
	for i, m := range list {
		if seen(i) {
			f.bad(at+token(m.name), "the name appears twice")
			continue
		}
		if !isNull(m.value) {
			visit(m)
		}
	}
}

// fewMembers are looked along faster than in a map.
const fewMembers = 16

// repeats tells, asked in order, whether a member has the name of one before it.
func repeats(list []member) func(i int) bool {
	if len(list) <= fewMembers {
		return func(i int) bool {
			return slices.ContainsFunc(list[:i], func(m member) bool { return m.name == list[i].name })
		}
	}
	seen := make(map[string]bool, len(list))
	return func(i int) bool {
		before := seen[list[i].name]
		seen[list[i].name] = true
		return before
	}
}

// text reads a JSON string.
func (f *fieldErrors) text(at string, raw []byte) (string, bool) {
	if s, ok := plain(raw); ok {
		return s, true
	}
	var s string
	if !startsWith(raw, '"') || json.Unmarshal(raw, &s) != nil {
		f.bad(at, "give a string")
		return "", false
	}
	if strings.ContainsRune(s, utf8.RuneError) && !bytes.Contains(bytes.ToLower(raw), []byte(`\ufffd`)) && !bytes.ContainsRune(raw, utf8.RuneError) {
		f.bad(at, "holds half of a surrogate pair, which no text can carry")
		return "", false
	}
	return s, true
}

// whole reads an integer within bounds.
func (f *fieldErrors) whole(at string, raw []byte, low, high int) (int, bool) {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < low || n > high {
		f.bad(at, "%s is not allowed; give a whole number from %d to %d", clip(string(raw), 40), low, high)
		return 0, false
	}
	return n, true
}

// duration reads a whole number with a unit, within bounds.
func (f *fieldErrors) duration(at string, raw []byte, low, high time.Duration) (time.Duration, bool) {
	if !startsWith(raw, '"') {
		f.bad(at, `give a duration with its unit as a string, such as "10s"`)
		return 0, false
	}
	s, ok := f.text(at, raw)
	if !ok {
		return 0, false
	}
	d, err := destination.ParseDuration(s)
	if err != nil || d < low || d > high {
		f.bad(at, `%s is not allowed; give one whole number and one unit (ms, s, m, h, d), from %s to %s`,
			clip(strconv.Quote(s), 40), destination.FormatDuration(low), destination.FormatDuration(high))
		return 0, false
	}
	return d, true
}

// moment reads an RFC 3339 time with a zone.
func (f *fieldErrors) moment(at string, raw []byte) (time.Time, bool) {
	s, ok := f.text(at, raw)
	if !ok {
		return time.Time{}, false
	}
	var t time.Time
	// RFC 3339 lets t and z be small; Go does not.
	if err := t.UnmarshalText([]byte(strings.ToUpper(s))); err != nil {
		f.bad(at, "%s is not allowed; give an RFC 3339 time with a zone, such as 2026-12-01T09:00:00Z", clip(strconv.Quote(s), 60))
		return time.Time{}, false
	}
	return t, true
}

// known names the fields of a table, for the answer to a misspelt one.
func known[V any](table map[string]V) string {
	names := make([]string, 0, len(table))
	for n := range table {
		names = append(names, n)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
