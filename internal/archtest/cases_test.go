package archtest

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

var (
	caseNumber = regexp.MustCompile(`^\| (C\d{3}(?:, C\d{3})*)? ?\|`)
	testName   = regexp.MustCompile("`([\\w/]+)\\.(Test\\w+)`")
)

// Each test that docs/cases.md names exists, each case stands there once, and
// one without a test says why.
func TestCasesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	exists := map[string]bool{}
	for _, f := range goFiles(t) {
		pkg, ours := strings.CutPrefix(f.dir, "internal/")
		if !f.test || !ours {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				exists[pkg+"."+fn.Name.Name] = true
			}
		}
	}
	seen := map[string]bool{}
	for line := range strings.Lines(read(t, "docs/cases.md")) {
		number := caseNumber.FindStringSubmatch(line)
		if number == nil {
			continue
		}
		for c := range strings.SplitSeq(number[1], ", ") {
			if c != "" && seen[c] {
				t.Errorf("docs/cases.md has %s twice", c)
			}
			seen[c] = true
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		named := testName.FindAllStringSubmatch(line, -1)
		if len(cells) != 3 || len(named) == 0 && !strings.HasPrefix(strings.TrimSpace(cells[2]), "none: ") {
			t.Errorf("docs/cases.md: %q names no test, nor after \"none: \" why there is none", strings.TrimSpace(line))
		}
		for _, n := range named {
			if name := n[1] + "." + n[2]; !exists[name] {
				t.Errorf("docs/cases.md names %s, which does not exist", name)
			}
		}
	}
	if len(seen) < 50 {
		t.Errorf("%d cases were read from docs/cases.md", len(seen))
	}
}
