package api

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tundish/internal/job"
)

// tableRows reads the cells of the table of docs/jobs.md whose first column has the heading.
func tableRows(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "jobs.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| "+heading+" |")
	table, _, ended := strings.Cut(table, "\n\n")
	if !found || !ended {
		t.Fatalf("docs/jobs.md has no table %q", heading)
	}
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| `") {
			cells := strings.Split(strings.Trim(line, "| \n"), " | ")
			rows = append(rows, cells)
		}
	}
	return rows
}

func TestThePageTellsEveryCode(t *testing.T) {
	t.Parallel()
	said := map[job.Code]bool{}
	for _, row := range tableRows(t, "code") {
		code := job.Code(strings.Trim(row[0], "`"))
		yes := map[bool]string{true: "yes", false: "no"}[code.Retryable()]
		if len(row) != 4 || code.Title() == "" || row[1] != strconv.Itoa(code.Status()) || row[2] != yes {
			t.Errorf("the page says %q, the code %d, retryable %s", row, code.Status(), yes)
		}
		said[code] = true
	}
	for _, code := range job.Codes() {
		if !said[code] {
			t.Errorf("%s is not on the page", code)
		}
	}
}

func TestThePageTellsEveryFieldOfAJob(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	for _, row := range tableRows(t, "field") {
		for name := range strings.SplitSeq(row[0], ", ") {
			name = strings.Trim(name, "`")
			said[name] = true
			if jobFields[name] == nil {
				t.Errorf("%s is no field of a job", name)
			}
		}
	}
	for name := range jobFields {
		if !said[name] {
			t.Errorf("%s is not on the page", name)
		}
	}
}
