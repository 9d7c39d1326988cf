package destination

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxAliased bounds the values that come from aliases, so that a few lines
// cannot stand for billions of values.
const maxAliased = 100_000

// readYAML turns one YAML document into a tree; nil for an empty one.
func readYAML(doc []byte, file string, p *problems) (*value, error) {
	node, err := parseYAML(doc)
	if err != nil {
		line, detail := yamlDetail(err)
		return nil, malformed(file, line, "not YAML: "+detail)
	}
	if node == nil || len(node.Content) == 0 {
		return nil, nil
	}
	r := &yamlReader{p: p, file: file}
	root, err := r.read(node.Content[0], nil, "", 0)
	if err != nil {
		return nil, malformed(file, r.line, err.Error())
	}
	p.checkText(root)
	return root, nil
}

// parseYAML reads exactly one document. The parser panics on states it believes
// impossible; a broken file must change nothing, so that is an error like another.
func parseYAML(doc []byte) (node *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			node, err = nil, fmt.Errorf("the parser gave up: %v", r)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(doc))
	node = &yaml.Node{}
	if err := dec.Decode(node); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	second := &yaml.Node{}
	if err := dec.Decode(second); err == nil {
		return nil, fmt.Errorf("line %d: a second document; give one", second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return node, nil
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// yamlDetail takes the line out of the parser's message.
func yamlDetail(err error) (line int, detail string) {
	detail = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(detail); m != nil {
		line, _ = strconv.Atoi(m[1])
		detail = detail[len(m[0]):]
	}
	if strings.HasPrefix(detail, "unknown anchor") {
		// The name may be the beginning of a password, so it is not repeated.
		detail = "an alias without its anchor; text that begins with * needs quotes"
	}
	return line, detail
}

type yamlReader struct {
	p       *problems
	file    string
	line    int // of the value that stopped the reading
	inAlias int // aliases above the present value
	aliased int // values read below aliases so far
}

func (r *yamlReader) read(n *yaml.Node, parent *value, name string, depth int) (*value, error) {
	r.line = n.Line
	if depth > maxDepth {
		return nil, errTooDeep
	}
	if r.inAlias > 0 {
		if r.aliased++; r.aliased > maxAliased {
			return nil, fmt.Errorf("aliases stand for more than %d values", maxAliased)
		}
	}
	v := &value{parent: parent, name: name, file: r.file, line: n.Line}
	switch n.Kind {
	case yaml.AliasNode:
		r.inAlias++
		defer func() { r.inAlias-- }()
		return r.read(n.Alias, parent, name, depth+1)
	case yaml.SequenceNode:
		return v, r.list(n, v, depth)
	case yaml.MappingNode:
		return v, r.dict(n, v, depth)
	default:
		r.scalar(n, v)
		return v, nil
	}
}

func (r *yamlReader) scalar(n *yaml.Node, v *value) {
	switch n.ShortTag() {
	case "!!null":
	case "!!bool":
		v.kind, v.text = boolean, strings.ToLower(n.Value)
		if v.text != "true" && v.text != "false" {
			r.p.invalid(v, "%s: give true or false", v.label())
		}
	case "!!int", "!!float":
		v.kind, v.text = number, "0"
		literal, ok := canonicalNumber(n.Value)
		if !ok {
			r.p.invalid(v, "%s: %s is not a plain decimal number; text needs quotes", v.label(), quoted(n.Value))
			return
		}
		v.text = literal
	case "!!str", "!!timestamp", "!!merge":
		v.kind, v.text = text, n.Value
	default:
		v.kind = text
		r.p.invalid(v, "%s: the tag %s is not known", v.label(), quoted(n.Tag))
	}
}

func (r *yamlReader) list(n *yaml.Node, v *value, depth int) error {
	v.kind = list
	r.checkTag(n, v, "!!seq")
	for i, item := range n.Content {
		read, err := r.read(item, v, strconv.Itoa(i), depth+1)
		if err != nil {
			return err
		}
		v.items = append(v.items, read)
	}
	return nil
}

func (r *yamlReader) dict(n *yaml.Node, v *value, depth int) error {
	v.kind, v.fields = dict, map[string]*value{}
	r.checkTag(n, v, "!!map")
	lines := map[string]int{}
	var merged []*value
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		name, ok := r.key(key, v)
		if !ok {
			continue
		}
		field, err := r.read(n.Content[i+1], v, name, depth+1)
		if err != nil {
			return err
		}
		if n.Content[i+1].Kind != yaml.AliasNode && field.line != key.Line && field.kind > text {
			field.line = key.Line // a block's problems are looked for at its head
		}
		if first, twice := lines[name]; twice {
			field.line = key.Line
			r.p.invalid(field, "%s: is given twice, first on line %d", field.label(), first)
			continue
		}
		lines[name] = key.Line
		if key.Tag == "!!merge" {
			merged = append(merged, field)
		} else if field.kind != null {
			v.fields[name] = field
		}
	}
	r.mergeKeys(v, merged)
	return nil
}

func (r *yamlReader) checkTag(n *yaml.Node, v *value, want string) {
	if n.ShortTag() != want {
		r.p.invalid(v, "%s: the tag %s is not known", v.label(), quoted(n.Tag))
	}
}

func (r *yamlReader) key(n *yaml.Node, parent *value) (string, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if tag := n.ShortTag(); n.Kind != yaml.ScalarNode || tag != "!!str" && tag != "!!merge" {
		v := parent.child("", text)
		v.line = n.Line
		r.p.invalid(v, "a field's name must be text; put it in quotes")
		return "", false
	}
	return n.Value, true
}

// mergeKeys fills v from the maps of its merge key ("<<"): what v itself gives
// counts, then the first of the maps.
func (r *yamlReader) mergeKeys(v *value, merged []*value) {
	for i := 0; i < len(merged); i++ {
		m := merged[i]
		switch m.kind {
		case list:
			merged = append(merged, m.items...)
		case dict:
			for name, field := range m.fields {
				if _, given := v.fields[name]; !given {
					v.fields[name] = field
				}
			}
		case null:
		default:
			r.p.invalid(m, "<<: give a map or a list of maps")
		}
	}
}
