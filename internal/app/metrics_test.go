package app

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"tundish/internal/queue"
	"tundish/internal/redistest"
)

// exposed is a metric as it is scraped.
type exposed struct {
	kind, labels, program, help string
}

var (
	helpLine   = regexp.MustCompile(`^# HELP (tundish_\w+) (.*)$`)
	typeLine   = regexp.MustCompile(`^# TYPE (tundish_\w+) (\w+)$`)
	sampleLine = regexp.MustCompile(`^(tundish_\w+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? \S+$`)
	labelName  = regexp.MustCompile(`(\w+)="`)
	row        = regexp.MustCompile("^\\| `(tundish_\\w+)` \\| (\\w+) \\| ([^|]*) ?\\| (\\w+) \\| .{10,} \\|$")
)

// scrape reads what a program exposes. Labels are sorted, but for those that
// every histogram has.
func scrape(t *testing.T, program, url string) map[string]exposed {
	t.Helper()
	_, body := get(t, url)
	all := map[string]exposed{}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if m := helpLine.FindStringSubmatch(line); m != nil {
			all[m[1]] = exposed{help: m[2], program: program, labels: "not seen"}
		} else if m := typeLine.FindStringSubmatch(line); m != nil {
			e := all[m[1]]
			e.kind = m[2]
			all[m[1]] = e
		} else if m := sampleLine.FindStringSubmatch(line); m != nil {
			var names []string
			for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
				if l[1] != "le" {
					names = append(names, l[1])
				}
			}
			slices.Sort(names)
			e, ok := all[m[1]]
			if !ok {
				t.Fatalf("a sample without a type: %s", line)
			}
			if text := strings.Join(names, " "); e.labels != "not seen" && e.labels != text {
				t.Errorf("%s has labels %q and %q", m[1], e.labels, text)
			} else {
				e.labels = text
			}
			all[m[1]] = e
		}
	}
	return all
}

// documented reads the tables of the page.
func documented(t *testing.T) (all map[string]exposed, fleet map[string]bool) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	all, fleet = map[string]exposed{}, map[string]bool{}
	section := ""
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "## "); ok {
			section = name
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not a row of the table: %s", line)
			continue
		}
		labels := strings.Fields(strings.NewReplacer("`", "", ",", "").Replace(m[3]))
		slices.Sort(labels)
		all[m[1]] = exposed{kind: m[2], labels: strings.Join(labels, " "), program: m[4]}
		fleet[m[1]] = section == "Fleet"
	}
	return all, fleet
}

// The page and the programs name the same metrics, with types, labels and programs.
func TestThePageTellsWhatTheProgramsExpose(t *testing.T) {
	t.Parallel()
	shared := common(t, redistest.Shared(t).URL())
	c := enqueuerConfig(shared)
	c.Destinations = bankAt50(t)
	e := startEnqueuer(t, c)
	w := startWorker(t, workerConfig(shared))
	client := redistest.Shared(t).Client(t)
	eventually(t, "the worker tells how many senders it has", func() bool {
		return client.HGet(t.Context(), "tundish:{"+shared.Namespace+"}:meta", "senders").Val() == "100"
	})
	if code, _ := get(t, "http://"+e.Addr()+"/v1/destinations/bank"); code != http.StatusOK {
		t.Fatalf("GET of the destination: %d", code)
	}
	got := scrape(t, "enqueuer", "http://"+e.AdminAddr()+"/metrics")
	for name, m := range scrape(t, "worker", "http://"+w.AdminAddr()+"/metrics") {
		if other, ok := got[name]; ok {
			m.program = "both"
			if m.kind != other.kind || m.labels != other.labels || m.help != other.help {
				t.Errorf("%s differs between the programs: %+v, %+v", name, m, other)
			}
		}
		got[name] = m
	}
	want, fleet := documented(t)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[name]
		if !ok {
			t.Errorf("%s is on the page, and no program exposes it", name)
			continue
		}
		if same := strings.Contains(g.help, "The same on every enqueuer"); same != fleet[name] {
			t.Errorf("%s: a gauge of the fleet by its help: %v, by the page: %v", name, same, fleet[name])
		}
		g.help = ""
		if g != want[name] {
			t.Errorf("%s is %+v, on the page %+v", name, g, want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is not on the page", name)
		}
	}
}

// Recording rules and alerts name only what there is.
func TestRulesNameMetricsOfThePage(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", "tundish.rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	known, fleet := documented(t)
	named := map[string]bool{}
	for _, name := range regexp.MustCompile(`tundish_\w+`).FindAllString(string(rules), -1) {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if _, ok := known[base]; !ok {
			t.Errorf("the rules name %s, which is not on the page", name)
		}
		named[base] = true
	}
	for name, is := range fleet {
		if is && !named[name] {
			t.Errorf("no rule takes the max of %s", name)
		}
	}
}

func TestShortestRoundTrip(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	var tr trip
	for i, step := range []struct {
		after time.Duration
		took  time.Duration
		want  time.Duration
	}{
		{0, 5 * time.Millisecond, 5 * time.Millisecond},
		{time.Second, 9 * time.Millisecond, 5 * time.Millisecond},
		{time.Second, 2 * time.Millisecond, 2 * time.Millisecond},
		{tripSpan, 30 * time.Millisecond, 2 * time.Millisecond},                // of the span before
		{tripSpan + time.Second, 40 * time.Millisecond, 30 * time.Millisecond}, // forgotten
		{time.Hour, 50 * time.Millisecond, 50 * time.Millisecond},
	} {
		at = at.Add(step.after)
		tr.add(step.took, at)
		if got := tr.seconds(); got != step.want.Seconds() {
			t.Errorf("step %d: %v s, want %v", i, got, step.want)
		}
	}
}

func TestCallsToRedisAreWatched(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := newRedisMetrics(reg)
	if v, ok := series(t, reg)["redis_script_duration_seconds script=turn"]; !ok || v != 0 {
		t.Errorf("no series of a script before its first call")
	}
	m.observe("turn", 3*time.Millisecond, nil)
	m.observe("survey", time.Millisecond, nil) // is slow by itself, not by the way
	m.observe("push", time.Second, redis.ErrPoolTimeout)
	m.observe("push", time.Second, errors.New("a bug"))
	got := series(t, reg)
	for name, want := range map[string]float64{"redis_round_trip_seconds": 0.003, "redis_up": 0, "redis_errors_total kind=pool": 1,
		"redis_script_duration_seconds script=push": 2} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v (there: %v), want %v", name, v, ok, want)
		}
	}
}

func TestCountsOfScripts(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	count := newCounts(reg, slog.New(slog.DiscardHandler))
	for name, v := range series(t, reg) {
		if v != 0 {
			t.Errorf("%s begins at %v", name, v)
		}
	}
	for i, name := range []string{queue.CountTrimmedDead, queue.CountTrimmedKeys, queue.CountTrimmedResults, queue.CountUnreadable, queue.CountCrashes, "anything"} {
		count(name, int64(i+1))
	}
	want := map[string]float64{"trimmed_total kind=dead": 1, "trimmed_total kind=key": 2, "trimmed_total kind=result": 3, "unreadable_total": 4}
	if got := series(t, reg); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// A flood of names at the door, in paths, methods and destinations, adds no series.
func TestFloodAtTheDoorAddsNoSeries(t *testing.T) {
	t.Parallel()
	e := startEnqueuer(t, enqueuerConfig(common(t, redistest.Shared(t).URL())))
	flood := func(round int) int {
		for i := range 20 {
			for _, path := range []string{"/v1/destinations/d-%d-%d/jobs", "/v1/destinations/d-%d-%d", "/nowhere-%d-%d", "/v1/destinations/d-%d-%d/jobs/x"} {
				for _, method := range []string{http.MethodGet, http.MethodPost, fmt.Sprintf("M%d%d", round, i)} {
					ask(t, method, "http://"+e.Addr()+fmt.Sprintf(path, round, i))
				}
			}
		}
		_, body := get(t, "http://"+e.AdminAddr()+"/metrics")
		return len(regexp.MustCompile(`(?m)^tundish_`).FindAllString(body, -1))
	}
	if first, second := flood(1), flood(2); first != second {
		t.Errorf("%d series after a flood of names, %d after another", first, second)
	}
}

func ask(t *testing.T, method, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// TestRemovedDeadJobsAreTold: at once, and then each minute for all.
func TestRemovedDeadJobsAreTold(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	at := time.Unix(1_800_000_000, 0)
	dead := &trimLog{log: slog.New(slog.NewTextHandler(&text, nil)), now: func() time.Time { return at }}
	dead.add(3)
	dead.add(4)
	at = at.Add(trimEvery)
	dead.add(5)
	if lines := strings.Count(text.String(), "\n"); lines != 2 || !strings.Contains(text.String(), "jobs=3\n") || !strings.Contains(text.String(), "jobs=9\n") {
		t.Errorf("%s", text.String())
	}
}
