package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "tundish"

// root is the top of the repository as seen from this package's folder.
const root = "../.."

// notOurs are folders that hold what was built or fetched.
var notOurs = map[string]bool{".git": true, ".tools": true, "bin": true, "node_modules": true}

// goFile is one parsed Go file. Its folder names the package.
type goFile struct {
	path string // from the root, with slashes
	dir  string
	test bool
	ast  *ast.File
}

// imports returns the import paths of the file.
func (f goFile) imports() []string {
	paths := make([]string, 0, len(f.ast.Imports))
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// files lists the files of the repository, from the root, with slashes. It
// walks instead of asking git: the test cache then sees a new file, and a
// downloaded archive passes as well.
func files(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && notOurs[d.Name()]:
			return filepath.SkipDir
		case notOurs[d.Name()]: // of a linked work tree .git is a file
		case d.Type().IsRegular():
			found = append(found, filepath.ToSlash(strings.TrimPrefix(p, root+string(filepath.Separator))))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("walk the repository: %v", err)
	}
	if len(found) == 0 {
		t.Fatal("found no files: the walk looks at the wrong folder")
	}
	return found
}

// read returns the content of a file named from the root.
func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// goFiles parses every Go file of the repository.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	fset := token.NewFileSet()
	var parsed []goFile
	for _, name := range files(t) {
		if path.Ext(name) != ".go" {
			continue
		}
		file, err := parser.ParseFile(fset, name, read(t, name), parser.ParseComments)
		if err != nil {
			t.Errorf("parse: %v", err)
			continue
		}
		parsed = append(parsed, goFile{
			path: name,
			dir:  path.Dir(name),
			test: strings.HasSuffix(name, "_test.go"),
			ast:  file,
		})
	}
	return parsed
}
