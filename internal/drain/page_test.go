package drain

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// The words of docs/delivery.md for what becomes of a job, and for what its lane hears.
var (
	kindWords = map[queue.Kind]string{queue.KindDelivered: "delivered", queue.KindDead: "dead", queue.KindUnknown: "unknown",
		queue.KindRetry: "retry", queue.KindThrottled: "later", queue.KindReturn: "back", queue.KindRelease: "back"}
	healthWords = map[queue.Health]string{queue.HealthOK: "well", queue.HealthBad: "failed", queue.HealthNone: "nothing"}
)

// rows reads the table whose first column has the heading, without its first line.
func rows(t *testing.T, heading string) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "delivery.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| "+heading+" |")
	if !found {
		t.Fatalf("docs/delivery.md has no table %q", heading)
	}
	for i, line := range strings.Split(table, "\n") {
		if i > 1 && !strings.HasPrefix(line, "| ") {
			return all
		}
		if i > 1 {
			cells := strings.Split(strings.Trim(line, "| "), " | ")
			for k := range cells {
				cells[k] = strings.Trim(cells[k], "` ")
			}
			all = append(all, cells)
		}
	}
	return all
}

// The table of outcomes says what the code does with a job that has attempts left.
func TestThePageTellsWhatFollows(t *testing.T) {
	t.Parallel()
	said := map[job.Outcome]bool{}
	for _, row := range rows(t, "outcome") {
		if len(row) != 6 {
			t.Errorf("%q has %d cells, want 6", row, len(row))
			continue
		}
		o := job.Outcome(row[0])
		if !slices.Contains(job.Outcomes(), o) || said[o] {
			t.Errorf("%s is no outcome, or stands there twice", o)
			continue
		}
		said[o] = true
		want := []string{string(o.Class())}
		for _, d := range []destination.Delivery{destination.AtLeastOnce, destination.AtMostOnce} {
			r := decide(&destination.Contract{Delivery: d, Retry: retries()}, &granted{Lease: queue.Lease{Slot: 5e9}}, &job.Job{},
				deliver.Result{Outcome: o, Wrote: true}, half)
			want = append(want, kindWords[r.Kind])
		}
		if want = append(want, healthWords[healthOf(o)]); !slices.Equal(row[2:], want) {
			t.Errorf("%s: the page says %q, the code %q", o, row[2:], want)
		}
	}
	for _, o := range job.Outcomes() {
		if !said[o] {
			t.Errorf("%s is not on the page", o)
		}
	}
}

var statusRow = regexp.MustCompile(`^(\d{3})(?:–(\d{3}))?( with Retry-After)?$`)

// The table of statuses is read from above: the first row that fits counts.
func TestThePageTellsTheOutcomeOfEachStatus(t *testing.T) {
	t.Parallel()
	table := rows(t, "HTTP status")
	for status := 100; status <= 599; status++ {
		for _, retryAfter := range []bool{false, true} {
			if got, want := onPage(t, table, status, retryAfter), job.OutcomeOfStatus(status, retryAfter); got != want {
				t.Errorf("%d, Retry-After %v: the page says %q, the code %q", status, retryAfter, got, want)
			}
		}
	}
}

func onPage(t *testing.T, table [][]string, status int, retryAfter bool) job.Outcome {
	t.Helper()
	for _, row := range table {
		m := statusRow.FindStringSubmatch(row[0])
		if m == nil || len(row) != 2 {
			t.Fatalf("not a row of statuses: %q", row)
		}
		from, _ := strconv.Atoi(m[1])
		to, err := strconv.Atoi(m[2])
		if err != nil {
			to = from
		}
		if status >= from && status <= to && (m[3] == "" || retryAfter) {
			return job.Outcome(row[1])
		}
	}
	return ""
}

// The fields at the top of the page stand there with their defaults.
func TestThePageTellsTheDefaults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "delivery.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```yaml\n")
	block, _, found := strings.Cut(block, "```")
	if !found || !strings.Contains(block, "retry:") {
		t.Fatal("docs/delivery.md has no block of fields")
	}
	const least = "destinations:\n- name: bank\n  target: {http: {url: \"https://bank.example\"}}\n  limits: [{rate: 50, per: 1s}]\n"
	filled := func(more string) string {
		f, err := destination.ParseFile([]byte(least+more), "page")
		if err != nil || len(f.Destinations) != 1 {
			t.Fatal(err)
		}
		text, err := json.Marshal(destination.Effective(f.Destinations[0].Contract))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if page, plain := filled("  "+strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n  ")+"\n"), filled(""); page != plain {
		t.Errorf("with the page's fields: %s\nwithout: %s", page, plain)
	}
}
