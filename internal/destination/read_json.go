package destination

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// Bounds of a document, whatever it is written in.
const (
	maxFileBytes     = 8 << 20
	maxContractBytes = 256 << 10
	maxDepth         = 32
)

// errTooDeep stops a reader at nesting that no contract has.
var errTooDeep = fmt.Errorf("nested more than %d deep", maxDepth)

// readJSON turns one JSON document into a tree. Repeated names are reported as
// problems: JSON leaves open which of them counts.
func readJSON(doc []byte, p *problems) (*value, error) {
	if len(doc) > maxContractBytes {
		return nil, tooLarge("the contract", maxContractBytes)
	}
	if !utf8.Valid(doc) {
		return nil, malformed("", 0, "not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	r := jsonReader{dec: dec, p: p}
	root, err := r.read(nil, "", 0)
	if err == nil {
		if _, extra := dec.Token(); extra != io.EOF {
			err = errors.New("more follows after the end of the document")
		}
	}
	if err != nil {
		return nil, malformed("", 0, "not JSON: "+jsonDetail(err))
	}
	p.checkText(root)
	return root, nil
}

func jsonDetail(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return err.Error()
}

type jsonReader struct {
	dec *json.Decoder
	p   *problems
}

func (r jsonReader) read(parent *value, name string, depth int) (*value, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	v := &value{parent: parent, name: name}
	switch t := token.(type) {
	case nil:
	case bool:
		v.kind, v.text = boolean, strconv.FormatBool(t)
	case string:
		v.kind, v.text = text, t
	case json.Number:
		r.number(v, t.String())
	case json.Delim:
		if t == '[' {
			return v, r.list(v, depth)
		}
		return v, r.dict(v, depth)
	}
	return v, nil
}

func (r jsonReader) number(v *value, literal string) {
	v.kind, v.text = number, "0"
	n, ok := canonicalNumber(literal)
	if !ok {
		r.p.invalid(v, "%s: the number is out of range", v.label())
		return
	}
	v.text = n
}

func (r jsonReader) list(v *value, depth int) error {
	v.kind = list
	for r.dec.More() {
		item, err := r.read(v, strconv.Itoa(len(v.items)), depth+1)
		if err != nil {
			return err
		}
		v.items = append(v.items, item)
	}
	_, err := r.dec.Token()
	return err
}

func (r jsonReader) dict(v *value, depth int) error {
	v.kind, v.fields = dict, map[string]*value{}
	seen := map[string]bool{}
	for r.dec.More() {
		key, err := r.dec.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string) // the decoder lets nothing else through
		field, err := r.read(v, name, depth+1)
		if err != nil {
			return err
		}
		if seen[name] {
			r.p.invalid(field, "%s: is given twice", field.label())
		}
		seen[name] = true
		if field.kind != null {
			v.fields[name] = field
		}
	}
	_, err := r.dec.Token()
	return err
}
