package archtest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// The direct dependencies are what our code imports and what go.mod calls
// direct; each has a line that says why, and each line has its dependency.
func TestDependenciesAreExplained(t *testing.T) {
	t.Parallel()
	required, direct := requirements(read(t, "go.mod"))
	explained := explanations(t, read(t, "docs/dependencies.md"))

	for _, f := range goFiles(t) {
		for _, imported := range f.imports() {
			if m := moduleOf(imported, required); m != "" {
				direct[m] = true
			}
		}
	}
	for _, m := range slices.Sorted(maps.Keys(direct)) {
		if !explained[m] {
			t.Errorf("docs/dependencies.md has no line for %s: what for, why this one, what it replaces, licence", m)
		}
	}
	for _, m := range slices.Sorted(maps.Keys(explained)) {
		if !slices.Contains(required, m) {
			t.Errorf("docs/dependencies.md explains %s, which go.mod does not require", m)
		}
	}
}

// requirements reads the modules of a go.mod, and which of them it calls direct.
func requirements(gomod string) (required []string, direct map[string]bool) {
	direct = map[string]bool{}
	block := false
	for line := range strings.Lines(gomod) {
		line = strings.TrimSpace(line)
		switch line {
		case "require (":
			block = true
			continue
		case ")":
			block = false
		}
		single, isSingle := strings.CutPrefix(line, "require ")
		fields := strings.Fields(single)
		if (!block && !isSingle) || len(fields) < 2 || strings.HasPrefix(line, "//") {
			continue
		}
		required = append(required, fields[0])
		if !strings.HasSuffix(line, "// indirect") {
			direct[fields[0]] = true
		}
	}
	return required, direct
}

// explanations reads the table of docs/dependencies.md:
// | `module` | what for | why this one, and what it replaces | licence |
func explanations(t *testing.T, doc string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for line := range strings.Lines(doc) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		name := strings.TrimSpace(cells[0])
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for i := range cells {
			if len(cells) != 4 || strings.TrimSpace(cells[i]) == "" {
				t.Errorf("docs/dependencies.md: the line of %s needs four filled cells", name)
				break
			}
		}
		name = strings.Trim(name, "`")
		if found[name] {
			t.Errorf("docs/dependencies.md explains %s twice", name)
		}
		found[name] = true
	}
	return found
}

// moduleOf finds the required module that holds a package, or "".
func moduleOf(imported string, required []string) string {
	longest := ""
	for _, m := range required {
		if within(imported, m) && len(m) > len(longest) {
			longest = m
		}
	}
	return longest
}

func TestRequirements(t *testing.T) {
	t.Parallel()
	required, direct := requirements("module x\n\nrequire example.com/one v1.0.0\n\nrequire (\n\t// a remark\n\texample.com/two v1.0.0 // indirect\n\texample.com/three/v2 v2.0.0\n)\n\nreplace example.com/four => ../four\n")
	if want := []string{"example.com/one", "example.com/two", "example.com/three/v2"}; !slices.Equal(required, want) {
		t.Errorf("required %v, want %v", required, want)
	}
	if want := map[string]bool{"example.com/one": true, "example.com/three/v2": true}; !maps.Equal(direct, want) {
		t.Errorf("direct %v, want %v", direct, want)
	}
}
