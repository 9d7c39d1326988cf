package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"text/tabwriter"

	"go.yaml.in/yaml/v3"
)

// output is what a command found, in every form it can be shown in.
type output struct {
	json  []byte // of the API untouched, or our own
	names []string
	table func(t *table)
}

// show writes o to stdout in the form that was asked for.
func (s *session) show(o output) error {
	var text []byte
	switch s.flags.Output {
	case formJSON:
		text = append(bytes.TrimRight(o.json, "\n"), '\n')
	case formYAML:
		var err error
		if text, err = toYAML(o.json); err != nil {
			return err
		}
	case formName:
		for _, name := range o.names {
			text = append(text, plain(name)+"\n"...)
		}
	default:
		t := newTable()
		o.table(t)
		text = t.bytes()
	}
	return s.write(text)
}

func (s *session) write(text []byte) error {
	if _, err := s.stdout.Write(text); err != nil {
		return &outputError{err}
	}
	return nil
}

// outputError is stdout that takes nothing more.
type outputError struct{ cause error }

func (e *outputError) Error() string { return "write the output: " + e.cause.Error() }
func (e *outputError) Unwrap() error { return e.cause }

// nobodyReads says whether the reader of stdout has had enough, such as head:
// that is no news to anybody.
func nobodyReads(err error) bool {
	e, ok := errors.AsType[*outputError](err)
	return ok && errors.Is(e, syscall.EPIPE)
}

// encode is JSON of our own, for people and programs alike.
func encode(v any) []byte {
	var b bytes.Buffer
	_ = json.Indent(&b, compact(v), "", "  ") // valid, since we made it
	return b.Bytes()
}

// compact is JSON in one line, with <, > and & as they are.
func compact(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // our own types, which can be written
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// table lines up columns.
type table struct {
	b bytes.Buffer
	w *tabwriter.Writer
}

func newTable() *table {
	t := &table{}
	t.w = tabwriter.NewWriter(&t.b, 0, 8, 2, ' ', 0)
	return t
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = plain(c)
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// field is a row of a name and what is known of it; nothing when that is empty.
func (t *table) field(name, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); text != "" {
		t.row(name, text)
	}
}

func (t *table) line(format string, args ...any) { t.row(fmt.Sprintf(format, args...)) }

func (t *table) bytes() []byte {
	_ = t.w.Flush() // into memory
	var out []byte
	for line := range bytes.Lines(t.b.Bytes()) {
		out = append(append(out, bytes.TrimRight(line, " \n")...), '\n')
	}
	return out
}

// toYAML writes JSON as YAML with its fields in their order. It walks the JSON
// itself: not all of it is YAML (escaped surrogate pairs are not).
func toYAML(data []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	node, err := yamlNode(d)
	if err != nil {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(node); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return b.Bytes(), e.Close()
}

func yamlNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		return yamlNodes(d, v)
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}, nil
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(v.String(), ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: v.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

// yamlNodes reads what stands between a pair of brackets; a map is names and
// values in turn.
func yamlNodes(d *json.Decoder, open json.Delim) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if open == '{' {
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	}
	for d.More() {
		child, err := yamlNode(d)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, child)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle // [] and {}
	}
	_, err := d.Token()
	return n, err
}

// printf writes to stdout what has one form only.
func (s *session) printf(format string, args ...any) error {
	return s.write(fmt.Appendf(nil, format, args...))
}
