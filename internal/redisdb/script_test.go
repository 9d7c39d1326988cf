package redisdb

import (
	"strings"
	"testing"
)

func TestCheckHeader(t *testing.T) {
	t.Parallel()
	good := "-- turn: does it.\n-- KEYS: the lane's.\n-- ARGV[1] lane\n-- ARGV[2] wake     channel\n--          of workers\n-- Reply: {'ok'}.\nreturn 1\n"
	tests := []struct {
		name   string
		source string
		argv   []string
		want   []string
	}{
		{"matches", good, []string{"lane", "wake"}, nil},
		{"order", good, []string{"wake", "lane"}, []string{`ARGV[1] is "lane"`, `ARGV[2] is "wake"`}},
		{"one more in the call", good, []string{"lane", "wake", "n"}, []string{"2 arguments, the call 3"}},
		{"one more in the header", good, []string{"lane"}, []string{"2 arguments, the call 1"}},
		{"a gap", strings.Replace(good, "ARGV[2]", "ARGV[3]", 1), []string{"lane", "wake"}, []string{"ARGV[3] wake"}},
		{"no keys or reply", "-- ARGV[1] lane\nreturn 1", []string{"lane"}, []string{"KEYS", "reply"}},
		{"not in the header", "-- KEYS\n-- Reply\nlocal x = ARGV[1] -- ARGV[1] lane", []string{"lane"}, []string{"0 arguments"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := CheckHeader(NewScript("turn", Prelude(), Part{Name: "main", Source: tt.source}), tt.argv)
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("error is %v", err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %v does not say %s", err, w)
				}
			}
		})
	}
}

func TestNewScriptJoinsInOrder(t *testing.T) {
	t.Parallel()
	s := NewScript("x", Part{"a", "local a = 1\nlocal b = 2"}, Part{"b", "return a\n\n"})
	if want := "local a = 1\nlocal b = 2\nreturn a\n"; s.Source() != want {
		t.Errorf("source is %q", s.Source())
	}
	if s.Name() != "x" || len(s.SHA()) != 40 {
		t.Errorf("name %s, sha %s", s.Name(), s.SHA())
	}
	if other := NewScript("x", Part{"b", "return a"}); other.SHA() == s.SHA() {
		t.Error("another text has the same sha")
	}
	for line, want := range map[int]struct {
		part string
		line int
	}{1: {"a", 1}, 2: {"a", 2}, 3: {"b", 1}} {
		if p, n := s.Locate(line); p != want.part || n != want.line {
			t.Errorf("line %d is %s:%d", line, p, n)
		}
	}
}
