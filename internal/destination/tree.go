package destination

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"tundish/internal/job"
)

// kind is the type of a value in the tree.
type kind int

const (
	null kind = iota
	boolean
	number
	text
	list
	dict
)

// value is a node of a document: what was written and where. Nulls are kept in
// lists only: a null member of a map is the same as none.
type value struct {
	kind   kind
	text   string            // of a scalar; a number's is a JSON number
	items  []*value          // of a list
	fields map[string]*value // of a map

	parent *value
	name   string // in the parent: the key, or the index in digits
	file   string
	line   int // 0: not known
}

// child makes an empty value below v, as a place for problems of what is missing.
func (v *value) child(name string, k kind) *value {
	return &value{kind: k, parent: v, name: name, file: v.file, line: v.line}
}

// pointer is the JSON pointer (RFC 6901) of the place where v was written.
func (v *value) pointer() string {
	if v.parent == nil {
		return ""
	}
	return job.PointerTo(v.parent.pointer(), v.name)
}

// label is what an error calls v: its field name, or its place in a list.
func (v *value) label() string {
	switch {
	case v.parent == nil:
		return "the document"
	case v.parent.kind == list:
		return v.parent.name + "[" + v.name + "]"
	}
	return quotedIfOdd(v.name)
}

// find follows a path of field names separated by dots; nil when it ends before.
func (v *value) find(path string) *value {
	for name := range strings.SplitSeq(path, ".") {
		if v == nil {
			return nil
		}
		v = v.fields[name]
	}
	return v
}

// names lists the fields in order, so that everything done with them is repeatable.
func (v *value) names() []string {
	names := make([]string, 0, len(v.fields))
	for name := range v.fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// show is v as an error may repeat it.
func (v *value) show() string {
	switch v.kind {
	case null:
		return "null"
	case boolean:
		return v.text
	case number:
		if len(v.text) > 40 {
			return v.text[:40] + "…"
		}
		return v.text
	case text:
		return quoted(v.text)
	case list:
		return "a list"
	default:
		return "a map"
	}
}

// merge lays over on base: maps merge field by field, everything else replaces.
// What it returns shares values with both and keeps their places.
func merge(base, over *value) *value {
	if base == nil {
		return over
	}
	if over == nil {
		return base
	}
	if base.kind != dict || over.kind != dict {
		return over
	}
	merged := *over
	merged.fields = make(map[string]*value, len(base.fields)+len(over.fields))
	for name, v := range base.fields {
		// Header names do not differ by case: the later layer's spelling replaces.
		if over.name == "headers" && over.hasFold(name) {
			continue
		}
		merged.fields[name] = v
	}
	for name, v := range over.fields {
		merged.fields[name] = merge(merged.fields[name], v)
	}
	return &merged
}

func (v *value) hasFold(name string) bool {
	for n := range v.fields {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// canonical writes the tree as JSON: sorted keys, no spaces, numbers in one form.
func (v *value) canonical() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v.plain()); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

func (v *value) plain() any {
	switch v.kind {
	case boolean:
		return v.text == "true"
	case number:
		return json.Number(v.text)
	case text:
		return v.text
	case list:
		all := make([]any, len(v.items))
		for i, item := range v.items {
			all[i] = item.plain()
		}
		return all
	case dict:
		all := make(map[string]any, len(v.fields))
		for name, field := range v.fields {
			all[name] = field.plain()
		}
		return all
	}
	return nil
}

// canonicalNumber gives the one form of a JSON number: a whole number as it
// stands, else the shortest form of its float64. Not ok: it is none, or no
// float64 can hold it.
func canonicalNumber(literal string) (string, bool) {
	if !jsonNumber(literal) {
		return "", false
	}
	if literal == "-0" {
		return "0", true
	}
	if !strings.ContainsAny(literal, ".eE") {
		return literal, true
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return "", false
	}
	if f == 0 {
		return "0", true
	}
	if f < 1<<53 && f > -1<<53 && f == math.Trunc(f) {
		return strconv.FormatInt(int64(f), 10), true
	}
	return strconv.FormatFloat(f, 'g', -1, 64), true
}

// jsonNumber says whether s is a number of RFC 8259 and of a sane length: no
// leading plus or zero, no hexadecimal, octal or underscore, no NaN.
func jsonNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	if s == "" || len(s) > 40 || !digits(s[:1], 1) || !digits(s[len(s)-1:], 1) {
		return false
	}
	return json.Valid([]byte(s))
}
