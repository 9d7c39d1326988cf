package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestEachPackageHasOneComment(t *testing.T) {
	t.Parallel()
	for dir, pkg := range packages(goFiles(t)) {
		var documented []string
		for _, f := range pkg {
			if f.ast.Doc == nil {
				continue
			}
			documented = append(documented, path.Base(f.path))
			name := f.ast.Name.Name
			if name != "main" && !strings.HasPrefix(f.ast.Doc.Text(), "Package "+name+" ") {
				t.Errorf("%s: the package comment begins with %q", f.path, "Package "+name)
			}
		}
		if len(documented) != 1 {
			t.Errorf("%s: %d package comments %v, want one that says what the package owns", dir, len(documented), documented)
		}
	}
}

// packages groups files by folder. Test files count only in a folder that has
// nothing else.
func packages(all []goFile) map[string][]goFile {
	grouped := map[string][]goFile{}
	for _, f := range all {
		if !f.test {
			grouped[f.dir] = append(grouped[f.dir], f)
		}
	}
	for _, f := range all {
		others := grouped[f.dir]
		if f.test && (len(others) == 0 || others[0].test) {
			grouped[f.dir] = append(others, f)
		}
	}
	return grouped
}

func TestFilesStaySmall(t *testing.T) {
	t.Parallel()
	limits := map[string]struct {
		lines int
		why   string
	}{
		".go":  {500, "a file is one concept"},
		".lua": {100, "a part of a script is read as a whole, and Redis allows 60 upvalues and 200 locals"},
		".sh":  {500, "a file is one concept"},
	}
	for _, name := range files(t) {
		limit, ok := limits[path.Ext(name)]
		if !ok || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if lines := strings.Count(read(t, name), "\n"); lines > limit.lines {
			t.Errorf("%s has %d lines, at most %d: %s", name, lines, limit.lines, limit.why)
		}
	}
}

func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if !f.test || !slices.Contains(f.imports(), "time") {
			continue
		}
		if sleeps(f.ast) {
			t.Errorf("%s: calls time.Sleep: wait for the event, or a slow machine fails the test", f.path)
		}
	}
}

// sleeps says whether a file names time.Sleep.
func sleeps(file *ast.File) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
			pkg, isName := sel.X.(*ast.Ident)
			found = found || isName && pkg.Name == "time"
		}
		return !found
	})
	return found
}

// forbidden are paths of a machine where somebody worked: they mean nothing to
// a reader. Written in two halves, so that this file does not hold them.
var forbidden = []string{"/wo" + "rk/main", "/wo" + "rk/shared", "/tmp/" + "bash_jobs"}

func TestNoMachinePaths(t *testing.T) {
	t.Parallel()
	for _, name := range files(t) {
		content := read(t, name)
		for _, word := range forbidden {
			if strings.Contains(content, word) {
				t.Errorf("%s holds %q, a path of somebody's machine", name, word)
			}
		}
	}
}
