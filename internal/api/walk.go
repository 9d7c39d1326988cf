package api

import (
	"bytes"
	"encoding/json"
)

// walker goes through valid JSON and cuts parts out of it without a copy: a
// decoder copies what it reads several times over, and bodies are large. It
// ends early, and never fails, on what is not valid.
type walker struct {
	raw []byte
	at  int
}

// members lists an object's members in order, the values parts of raw; false
// when raw, which must be valid JSON, is no object. A struct would hide the
// order, repeated names and the case of names.
func members(raw []byte) ([]member, bool) {
	w := walker{raw: raw}
	if !w.open('{') {
		return nil, false
	}
	list := make([]member, 0, 4) // as many as most have
	for w.more('}') {
		s, ok := name(w.value())
		if !ok {
			return nil, false
		}
		m := member{name: s}
		w.space()
		w.at++ // the colon
		m.value = w.value()
		list = append(list, m)
	}
	return list, true
}

// name reads the name of a member.
func name(raw []byte) (s string, ok bool) {
	if s, ok = plain(raw); ok {
		return s, true
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// elements lists an array's elements; false when raw is no array.
func elements(raw []byte) ([]json.RawMessage, bool) {
	w := walker{raw: raw}
	if !w.open('[') {
		return nil, false
	}
	var list []json.RawMessage
	for w.more(']') {
		list = append(list, w.value())
	}
	return list, true
}

// open enters an object or an array.
func (w *walker) open(c byte) bool {
	w.space()
	ok := w.next() == c
	w.at++
	return ok
}

// more says whether another part follows before the closing c.
func (w *walker) more(c byte) bool {
	w.space()
	if w.next() == ',' {
		w.at++
		w.space()
	}
	return w.at < len(w.raw) && w.next() != c
}

// value is the next whole value, without the space around it.
func (w *walker) value() json.RawMessage {
	w.space()
	begin := min(w.at, len(w.raw))
	switch w.next() {
	case '"':
		w.text()
	case '{', '[':
		w.nested()
	default:
		w.at = begin + end(w.raw[begin:])
		if w.at == begin { // nothing valid: it ends here
			w.at = len(w.raw)
		}
	}
	w.at = min(w.at, len(w.raw))
	return w.raw[begin:w.at:w.at] // no append may reach what follows
}

// end is where a number or a word ends.
func end(raw []byte) int {
	if n := bytes.IndexAny(raw, ",:]} \t\r\n"); n >= 0 {
		return n
	}
	return len(raw)
}

// text passes a string.
func (w *walker) text() {
	for w.at++; w.at < len(w.raw); w.at++ {
		switch w.raw[w.at] {
		case '\\':
			w.at++
		case '"':
			w.at++
			return
		}
	}
}

// nested passes an object or an array.
func (w *walker) nested() {
	for depth := 0; w.at < len(w.raw); w.at++ {
		switch w.raw[w.at] {
		case '"':
			w.text()
			w.at-- // to its closing quote
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				w.at++
				return
			}
		}
	}
}

func (w *walker) space() {
	for w.at < len(w.raw) {
		switch w.raw[w.at] {
		case ' ', '\t', '\r', '\n':
			w.at++
		default:
			return
		}
	}
}

// next is the byte that comes; 0 at the end.
func (w *walker) next() byte {
	if w.at >= len(w.raw) {
		return 0
	}
	return w.raw[w.at]
}
