package destination

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"tundish/internal/job"
)

const (
	maxDestinations = 50_000
	maxClasses      = 1000
	defaultSet      = "default"
	maxRevision     = 1<<53 - 1
)

// File is a destinations file, or a folder of them read as one.
type File struct {
	Set          string // who owns the names in it
	Revision     int64  // 0: none given
	Destinations []Entry
	Sum          [sha256.Size]byte // of the texts it was read from
}

// Entry is one destination of a file. Written is its contract as written
// (defaults, class and destination merged, without what is built in) in
// canonical JSON; ParseContract makes an equal contract of it.
type Entry struct {
	Contract *Contract
	Written  []byte
}

// source is the text of one file.
type source struct {
	name string
	data []byte
}

// ParseFile reads a destinations file in YAML (or JSON, which is YAML). file
// is what errors call it. The error is a *job.Error with every problem, its
// JSON pointer and its line.
func ParseFile(data []byte, file string) (*File, error) {
	return parseSources([]source{{file, data}})
}

// parseSources reads several files as if they were one: classes and defaults of
// one hold in all, and every name is given once.
func parseSources(sources []source) (*File, error) {
	p := newProblems()
	roots, err := readAll(sources, p)
	if err != nil {
		return nil, err
	}
	j := joined{p: p, classes: map[string]*value{}}
	for _, root := range roots {
		j.add(root)
	}
	f := j.file(sources[0].name)
	if err := p.err(); err != nil {
		return nil, err
	}
	f.Sum = sum(sources)
	return f, nil
}

// readAll reads every file, or reports all that cannot be read.
func readAll(sources []source, p *problems) ([]*value, error) {
	var roots []*value
	var unreadable []job.FieldError
	for _, s := range sources {
		if len(s.data) > maxFileBytes {
			return nil, tooLarge(s.name, maxFileBytes)
		}
		root, err := readYAML(s.data, s.name, p)
		if e, ok := errors.AsType[*job.Error](err); ok {
			unreadable = append(unreadable, e.Fields...)
			continue
		}
		if root != nil {
			roots = append(roots, root)
		}
	}
	if len(unreadable) > 0 {
		e := job.Errorf(job.CodeMalformed, "%s cannot be read", count(len(unreadable), "file"))
		e.Fields = unreadable
		return nil, e
	}
	return roots, nil
}

// joined is what several files say together.
type joined struct {
	p             *problems
	set, revision *value
	defaults      *value
	classes       map[string]*value
	items         []*value
	listed        bool // some file has a list of destinations, if an empty one
	result        File
}

// add reads the top of one file.
func (j *joined) add(root *value) {
	o := j.p.open(root, false)
	defer o.close()
	o.later("callbacks")
	if set := o.name("set", false); set != "" {
		j.once(&j.set, o.get("set"))
		j.result.Set = set
	}
	if v := o.get("revision"); v != nil {
		j.once(&j.revision, v)
		j.result.Revision = o.whole("revision", 0, 0, maxRevision)
	}
	if v := o.get("defaults"); v != nil {
		if j.defaults != nil {
			j.p.invalid(v, "defaults: are given twice, first %s", place(j.defaults))
		} else {
			j.defaults = v
		}
	}
	classes, names := o.entries("classes", maxClasses)
	for _, name := range names {
		j.class(name, classes.fields[name])
	}
	j.items = append(j.items, o.items("destinations", maxDestinations)...)
	j.listed = j.listed || o.get("destinations") != nil
}

// once keeps the first place of a value that all files must agree on.
func (j *joined) once(first **value, v *value) {
	if *first == nil {
		*first = v
	} else if (*first).text != v.text {
		j.p.invalid(v, "%s: %s differs from %s %s", v.label(), v.show(), (*first).show(), place(*first))
	}
}

func (j *joined) class(name string, v *value) {
	if !validName(name) {
		j.p.invalid(v, "classes: %s is not a name; give %s", quoted(name), wantName)
		return
	}
	if first := j.classes[name]; first != nil {
		j.p.invalid(v, "classes: %s is given twice, first %s", name, place(first))
		return
	}
	j.classes[name] = v
}

// file merges and decodes everything. first is the file that is blamed for what is in none.
func (j *joined) file(first string) *File {
	if !j.listed && len(j.p.list) == 0 {
		j.p.invalid(&value{file: first}, "destinations: is missing; an empty list ([]) says that none is meant")
	}
	if j.defaults != nil {
		decode(j.defaults, j.p, layer)
	}
	for _, name := range (&value{fields: j.classes}).names() {
		decode(merge(j.defaults, j.classes[name]), j.p, layer)
	}
	names := map[string]*value{}
	for _, item := range j.items {
		j.destination(item, names)
	}
	if j.result.Set == "" {
		j.result.Set = defaultSet
	}
	return &j.result
}

func (j *joined) destination(item *value, names map[string]*value) {
	class, found := j.classOf(item)
	merged := merge(merge(asDict(j.defaults), asDict(class)), item)
	if name := item.fields["name"]; name != nil && name.kind == text {
		if first := names[name.text]; first != nil {
			j.p.invalid(name, "name: %s is given twice, first %s", quoted(name.text), place(first))
		} else {
			names[name.text] = name
		}
	}
	e := complete
	if !found {
		e = classless
	}
	c := decode(merged, j.p, e)
	if len(j.p.list) > 0 {
		return // nothing of the file is used then
	}
	written, err := write(merged)
	if err != nil {
		j.p.invalid(item, "with defaults and class the contract is larger than %s", FormatSize(maxContractBytes))
		return
	}
	j.result.Destinations = append(j.result.Destinations, Entry{Contract: c, Written: written})
}

// classOf finds the class a destination names; not found when there is none of
// that name.
func (j *joined) classOf(item *value) (class *value, found bool) {
	v := item.fields["class"]
	if v == nil || v.kind != text {
		return nil, true
	}
	if class = j.classes[v.text]; class != nil {
		return class, true
	}
	known := (&value{fields: j.classes}).names()
	hint := ""
	if near := nearest(v.text, known); near != "" {
		hint = "; did you mean " + near + "?"
	}
	j.p.invalid(v, "class: %s is not among the classes%s", quoted(v.text), hint)
	return nil, false
}

// asDict leaves out a layer that is no map; that has been reported.
func asDict(v *value) *value {
	if v == nil || v.kind != dict {
		return nil
	}
	return v
}

// place says where v was written.
func place(v *value) string {
	where := "on line " + strconv.Itoa(v.line)
	if v.file != "" {
		where += fmt.Sprintf(" of %s", v.file)
	}
	return where
}
