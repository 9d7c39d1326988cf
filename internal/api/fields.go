package api

import (
	"context"
	"encoding/json"
	"errors"

	"tundish/internal/job"
)

// smallBody bounds bodies that hold a few options.
const smallBody = 16 << 10

// fields are those of a small JSON object and how each is read.
type fields map[string]func(f *fieldErrors, at string, raw json.RawMessage)

// readFields reads a request's body, an object of these fields; no body at all
// is an empty one. The error holds every problem at once.
func readFields(ctx context.Context, table fields) error {
	data, _, err := readBody(ctx, smallBody, typeJSON)
	if err != nil || len(data) == 0 {
		return err
	}
	if err := checkJSON(data); err != nil {
		return err
	}
	var f fieldErrors
	f.object("", data, table)
	return invalid([]job.FieldError(f))
}

// problemsOf splits problems with fields, to which others may be added, from
// other errors.
func problemsOf(err error) (fieldErrors, error) {
	if e, ok := errors.AsType[*job.Error](err); ok && len(e.Fields) > 0 {
		return e.Fields, nil
	}
	return nil, err
}

// object reads the fields of an object that stands at a pointer.
func (f *fieldErrors) object(at string, raw json.RawMessage, table fields) {
	list, ok := members(raw)
	if !ok {
		f.bad(at, "give an object")
		return
	}
	f.once(at, list, func(m member) {
		if read, ok := table[m.name]; ok {
			read(f, at+token(m.name), m.value)
			return
		}
		if len(table) == 0 {
			f.bad(at+token(m.name), "unknown field; there is none here")
			return
		}
		f.bad(at+token(m.name), "unknown field; there is %s", known(table))
	})
}

// yes reads true or false.
func (f *fieldErrors) yes(at string, raw json.RawMessage, into *bool) {
	if json.Unmarshal(raw, into) != nil {
		f.bad(at, "give true or false")
	}
}

// short reads a string of at most n bytes.
func (f *fieldErrors) short(at string, raw json.RawMessage, n int, into *string) {
	s, ok := f.text(at, raw)
	if ok && (s == "" || len(s) > n) {
		f.bad(at, "give 1 to %d bytes", n)
	}
	*into = s
}
