package destination

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tundish/internal/job"
)

// fieldRows reads the table of docs/destinations.md: field, default, allowed.
func fieldRows(t *testing.T) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "destinations.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| `") && len(cells) == 6 {
			rows = append(rows, []string{strings.Trim(cells[1], " `"), strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])})
		}
	}
	return rows
}

// leastWith is the least contract with one more field; limits.x is that of the first limit.
func leastWith(field string, value any) []byte {
	target, limit := map[string]any{"url": "https://bank.example"}, map[string]any{"rate": 50, "per": "1s"}
	doc := map[string]any{"target": map[string]any{"http": target}, "limits": []any{limit}}
	at, path := doc, strings.Split(field, ".")
	if path[0] == "limits" {
		at, path = limit, path[1:]
		limit["algorithm"] = "token_bucket"
	}
	for ; len(path) > 1; path = path[1:] {
		next, ok := at[path[0]].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[path[0]] = next
		}
		at = next
	}
	if path[0] != "" {
		at[path[0]] = value
	}
	text, _ := json.Marshal(doc) // maps and texts
	return text
}

// leaves lists the single values of a filled contract by field.
func leaves(at string, v any, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			leaves(strings.TrimPrefix(at+"."+name, "."), field, into)
		}
	case []any:
		for _, item := range v {
			leaves(at, item, into)
		}
	default:
		into[at] = fmt.Sprint(v)
	}
}

// The page of fields tells the defaults and, in the words of the errors, what is allowed.
func TestThePageTellsTheFields(t *testing.T) {
	t.Parallel()
	c, _, err := ParseContract("bank", leastWith("limits.algorithm", "token_bucket"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(Effective(c))
	if err != nil {
		t.Fatal(err)
	}
	var filled any
	if err := json.Unmarshal(text, &filled); err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	leaves("", filled, defaults)
	given := map[string]bool{"name": true, "target.http.url": true, "limits.rate": true, "limits.per": true,
		"limits.algorithm": true, "limits.name": true} // by the contract of this test
	rows := fieldRows(t)
	if len(rows) < 40 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		field, value, allowed := row[0], row[1], row[2]
		if want := defaults[field]; !given[field] && value != want {
			t.Errorf("%s: the default on the page is %q, in force is %q", field, value, want)
		}
		delete(defaults, field)
		if allowed == "" || field == "name" {
			continue
		}
		value2 := any("?!")
		if allowed == "text" {
			value2 = 5
		}
		_, _, err := ParseContract("bank", leastWith(field, value2))
		if e, ok := errors.AsType[*job.Error](err); !ok || len(e.Fields) != 1 || !strings.Contains(e.Fields[0].Detail, allowed) {
			t.Errorf("%s: the page allows %q, the error says %v", field, allowed, err)
		}
	}
	for field := range defaults {
		t.Errorf("%s is not on the page", field)
	}
}
