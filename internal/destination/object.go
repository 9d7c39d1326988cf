package destination

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// object reads the fields of one map. Every field that is asked for becomes
// known; close refuses the rest.
type object struct {
	p     *problems
	v     *value
	known []string
	// part: one layer of a contract, from which fields may be missing.
	part bool
}

// open makes an object of v, and reports a v that is not a map.
func (p *problems) open(v *value, part bool) *object {
	o := &object{p: p, v: v, part: part}
	if v.kind != dict {
		p.wrongKind(v, "a map of fields")
		o.v = v.child("", dict)
		o.part = true // one problem is enough
	}
	return o
}

// get returns a field; nil when it is not given.
func (o *object) get(name string) *value {
	o.known = append(o.known, name)
	return o.v.fields[name]
}

// section opens the map at name; an empty one when it is not given.
func (o *object) section(name string) *object {
	v := o.get(name)
	if v == nil {
		v = o.v.child(name, dict)
	}
	return o.p.open(v, o.part)
}

// close reports the fields that nobody asked for.
func (o *object) close() {
	for _, name := range o.v.names() {
		if slices.Contains(o.known, name) || own(name) {
			continue
		}
		hint := ""
		if near := nearest(name, o.known); near != "" {
			hint = "; did you mean " + near + "?"
		}
		o.p.invalid(o.v.fields[name], "%s: no such field%s", quotedIfOdd(name), hint)
	}
}

// missing reports a field that must be given.
func (o *object) missing(name, want string) {
	if !o.part {
		o.p.invalid(o.v.child(name, null), "%s: is missing; give %s", name, want)
	}
}

// later refuses a field whose part is not built yet, unless it says what
// happens anyway.
func (o *object) later(name string, builtIn ...string) {
	v := o.get(name)
	if v == nil {
		return
	}
	for _, b := range builtIn {
		if v.text == b && (v.kind == boolean) == (b == "false") {
			return
		}
	}
	hint := ""
	if len(builtIn) > 0 {
		hint = "; leave it out or give " + builtIn[0]
	}
	o.p.notSupported(v, "%s: is not supported yet%s", name, hint)
}

// text reads a text of at most most bytes.
func (o *object) text(name, otherwise string, most int) string {
	v := o.get(name)
	if v == nil {
		return otherwise
	}
	if v.kind != text {
		o.p.bad(v, "text, in quotes where it looks like something else")
		return otherwise
	}
	if len(v.text) > most || v.text == "" {
		o.p.invalid(v, "%s: %d bytes are not allowed; give 1 to %d", v.label(), len(v.text), most)
		return otherwise
	}
	return v.text
}

// choice reads one of a few words.
func (o *object) choice(name, otherwise string, words ...string) string {
	v := o.get(name)
	if v == nil {
		return otherwise
	}
	if v.kind != text || !slices.Contains(words, v.text) {
		o.p.bad(v, strings.Join(words, " or "))
		return otherwise
	}
	return v.text
}

// flag reads true or false.
func (o *object) flag(name string) bool {
	v := o.get(name)
	if v == nil {
		return false
	}
	if v.kind != boolean {
		o.p.bad(v, "true or false")
	}
	return v.text == "true"
}

// whole reads a whole number within bounds.
func (o *object) whole(name string, otherwise, least, most int64) int64 {
	v := o.get(name)
	if v == nil {
		return otherwise
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	if v.kind != number || err != nil || n < least || n > most {
		o.p.bad(v, fmt.Sprintf("a whole number from %d to %d", least, most))
		return otherwise
	}
	return n
}

// measure is a quantity that is written with its unit.
type measure[T cmp.Ordered] struct {
	noun   string
	parse  func(string) (T, error)
	format func(T) string
}

var (
	durations = measure[time.Duration]{"one whole number and a unit (ms, s, m, h, d)", ParseDuration, FormatDuration}
	sizes     = measure[int64]{"one whole number and a unit (B, KiB, MiB, GiB)", ParseSize, FormatSize}
	shares    = measure[float64]{"a percentage with at most four decimals", ParseShare, FormatShare}
)

// quantity reads a field with a unit, within bounds.
func quantity[T cmp.Ordered](o *object, m measure[T], name string, otherwise, least, most T) T {
	v := o.get(name)
	if v == nil {
		return otherwise
	}
	n, err := m.parse(v.text)
	if v.kind != text || err != nil || n < least || n > most {
		o.p.bad(v, fmt.Sprintf("%s from %s to %s", m.noun, m.format(least), m.format(most)))
		return otherwise
	}
	return n
}

// items lists the values of a list of at most most; none when it is not given.
func (o *object) items(name string, most int) []*value {
	v := o.get(name)
	if v == nil {
		return nil
	}
	if v.kind != list {
		o.p.wrongKind(v, "a list")
		return nil
	}
	if len(v.items) > most {
		o.p.invalid(v, "%s: %d are too many; give at most %d", v.label(), len(v.items), most)
		return v.items[:most]
	}
	return v.items
}

// entries opens a map whose names are the writer's own, of at most most entries.
func (o *object) entries(name string, most int) (*value, []string) {
	v := o.get(name)
	if v == nil {
		return nil, nil
	}
	if v.kind != dict {
		o.p.wrongKind(v, "a map")
		return nil, nil
	}
	names := v.names()
	if len(names) > most {
		o.p.invalid(v, "%s: %d are too many; give at most %d", v.label(), len(names), most)
		names = names[:most]
	}
	return v, names
}
