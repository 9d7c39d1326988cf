package destination

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"tundish/internal/job"
)

// maxProblems bounds what one error carries; who has more sees the first ones.
const maxProblems = 500

// problems collects everything that is wrong with a document. A value that
// several destinations inherit is reported once, where it was written.
type problems struct {
	list   []job.FieldError
	seen   map[job.FieldError]bool
	broken map[*value]bool // values that have a problem; relations leave them alone
	added  int             // with those reported before
}

func newProblems() *problems {
	return &problems{seen: map[job.FieldError]bool{}, broken: map[*value]bool{}}
}

// invalid reports a problem with v.
func (p *problems) invalid(v *value, format string, args ...any) {
	p.add(v, job.CodeInvalid, fmt.Sprintf(format, args...))
}

// notSupported reports that the part which v is for is not built.
func (p *problems) notSupported(v *value, format string, args ...any) {
	p.add(v, job.CodeNotSupported, fmt.Sprintf(format, args...))
}

// bad reports a value that is not what is wanted.
func (p *problems) bad(v *value, want string) {
	p.invalid(v, "%s: %s is not allowed; give %s", v.label(), v.show(), want)
}

// wrongKind reports a value where a map or a list must stand. A text is not
// repeated: it may be a URL with a password in it.
func (p *problems) wrongKind(v *value, want string) {
	shown := v.show()
	if v.kind == text {
		shown = "text"
	}
	p.invalid(v, "%s: %s is not allowed; give %s", v.label(), shown, want)
}

func (p *problems) add(v *value, code job.Code, detail string) {
	p.added++
	if p.broken[v] {
		return // one problem of a value at a time: the next follows from the first
	}
	p.broken[v] = true
	f := job.FieldError{Pointer: v.pointer(), File: v.file, Line: v.line, Detail: detail, Code: code}
	if p.seen[f] {
		return
	}
	p.seen[f] = true
	p.list = append(p.list, f)
}

// err is nil when there are no problems.
func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	slices.SortStableFunc(p.list, func(a, b job.FieldError) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Pointer, b.Pointer))
	})
	code := job.CodeNotSupported
	for _, f := range p.list {
		if f.Code != job.CodeNotSupported {
			code = job.CodeInvalid
		}
	}
	e := job.Errorf(code, "%s", count(len(p.list), "problem"))
	e.Fields = p.list[:min(len(p.list), maxProblems)]
	return e
}

// malformed is the error of a document that cannot be read at all.
func malformed(file string, line int, detail string) error {
	e := job.Errorf(job.CodeMalformed, "the document cannot be read")
	e.Fields = []job.FieldError{{File: file, Line: line, Detail: detail, Code: job.CodeInvalid}}
	return e
}

// tooLarge is the error of a document beyond the bound.
func tooLarge(what string, most int64) error {
	return job.Errorf(job.CodeTooLarge, "%s is larger than %s", what, FormatSize(most))
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// checkText reports control characters anywhere in the tree: none has a use in
// a name, a URL or a header, and some would end a line of a request. What is
// below an x-… field is the writer's own.
func (p *problems) checkText(v *value) {
	if v.kind == text && strings.ContainsFunc(v.text, unicode.IsControl) {
		p.invalid(v, "%s: control characters and line breaks are not allowed", v.label())
	}
	for _, item := range v.items {
		p.checkText(item)
	}
	entries := v.name == "headers" || v.name == "secrets" || v.name == "labels" || v.name == "weights" // their names are no fields
	for _, name := range v.names() {
		if own(name) && !entries {
			continue
		}
		field := v.fields[name]
		if strings.ContainsFunc(name, unicode.IsControl) {
			p.invalid(field, "control characters in a field's name are not allowed")
		}
		p.checkText(field)
	}
}

// own says whether a field belongs to the writer of the document and is left alone.
func own(name string) bool { return strings.HasPrefix(name, "x-") }
