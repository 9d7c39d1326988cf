package redisdb

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Part is a piece of Lua beside the package that owns the keys it touches.
type Part struct {
	Name   string // for error texts
	Source string
}

// Script is a list of parts, joined in order.
type Script struct {
	name   string
	source string
	sha    string
	starts []partStart
}

type partStart struct {
	name string
	line int // first line of the part in the source, from 1
}

// NewScript joins parts. The name is the label of metrics and error texts.
func NewScript(name string, parts ...Part) *Script {
	s := &Script{name: name}
	var b strings.Builder
	line := 1
	for _, p := range parts {
		s.starts = append(s.starts, partStart{p.Name, line})
		text := strings.TrimRight(p.Source, "\n") + "\n"
		b.WriteString(text)
		line += strings.Count(text, "\n")
	}
	s.source = b.String()
	// Redis names scripts by SHA-1; nothing here rests on its strength.
	sum := sha1.Sum([]byte(s.source))
	s.sha = hex.EncodeToString(sum[:])
	return s
}

// Name is the name given to NewScript.
func (s *Script) Name() string { return s.name }

// Source is the whole Lua text.
func (s *Script) Source() string { return s.source }

// SHA is the name by which Redis knows the script.
func (s *Script) SHA() string { return s.sha }

// Locate turns a line of the joined source into a part and the line in it.
func (s *Script) Locate(line int) (part string, partLine int) {
	for _, p := range s.starts {
		if p.line > line {
			break
		}
		part, partLine = p.name, line-p.line+1
	}
	return part, partLine
}

var (
	headerARGV  = regexp.MustCompile(`(?m)^-- ARGV\[(\d+)\] (\S+)`)
	headerKEYS  = regexp.MustCompile(`(?m)^-- KEYS\b`)
	headerReply = regexp.MustCompile(`(?m)^-- Repl(y|ies)\b`)
	scriptLine  = regexp.MustCompile(`@?user_script: ?(\d+)`)
)

// CheckHeader compares the header of a script with the call in Go: its lines
// "-- ARGV[1] name …" must be exactly argv, in order, and it must say what
// KEYS and replies are. All that differs is said at once.
func CheckHeader(s *Script, argv []string) error {
	var errs []error
	found := headerARGV.FindAllStringSubmatch(s.source, -1)
	for i, m := range found {
		if m[1] != strconv.Itoa(i+1) {
			errs = append(errs, fmt.Errorf("line %d of the arguments is ARGV[%s] %s", i+1, m[1], m[2]))
		}
		if i < len(argv) && m[2] != argv[i] {
			errs = append(errs, fmt.Errorf("ARGV[%d] is %q in the header and %q in the call", i+1, m[2], argv[i]))
		}
	}
	if len(found) != len(argv) {
		errs = append(errs, fmt.Errorf("the header has %d arguments, the call %d", len(found), len(argv)))
	}
	if !headerKEYS.MatchString(s.source) {
		errs = append(errs, errors.New("the header does not say what KEYS are"))
	}
	if !headerReply.MatchString(s.source) {
		errs = append(errs, errors.New("the header does not say what the reply is"))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("script %s: %w", s.name, errors.Join(errs...))
}

// wrap adds to an error the script's name and, when Redis names a line of the
// joined source, the part and the line in it.
func (s *Script) wrap(err error) error {
	if m := scriptLine.FindStringSubmatch(err.Error()); m != nil {
		line, _ := strconv.Atoi(m[1]) // digits only
		part, n := s.Locate(line)
		return fmt.Errorf("script %s, %s line %d: %w", s.name, part, n, err)
	}
	return fmt.Errorf("script %s: %w", s.name, err)
}
