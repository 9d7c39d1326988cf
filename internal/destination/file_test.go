package destination

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tundish/internal/job"
)

// layered has every layer; line numbers below count from its first line.
const layered = `set: payments
revision: 7
x-owner: team a
defaults:
  retry: {max_attempts: 5, max_age: 2h}
  labels: {team: pay, tier: gold}
  target: {http: {timeout: 3s, headers: {X-From: tundish, X-Env: prod}}}
classes:
  webhook:
    limits: [{name: tps, algorithm: leaky_bucket, rate: 5, per: 1s}, {name: hour, rate: 1000, per: 1h}]
    retry: {max_age: 72h}
    labels: {tier: ~}
destinations:
  - {name: hook-1, class: webhook, labels: {team: hooks}, target: {http: {url: "https://a.example/hook", headers: {x-env: dev}}}}
  - name: bank
    target:
      http: {url: "https://api.bank.example/v1"}
    limits: [{rate: 50, per: 1s}]
    retry: {max_attempts: null}
`

func mustParseFile(t *testing.T, doc string) *File {
	t.Helper()
	f, err := ParseFile([]byte(doc), "d.yaml")
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return f
}

func TestLayers(t *testing.T) {
	t.Parallel()
	f := mustParseFile(t, layered)
	if f.Set != "payments" || f.Revision != 7 || len(f.Destinations) != 2 {
		t.Fatalf("got %+v", f)
	}
	hook, bank := f.Destinations[0].Contract, f.Destinations[1].Contract
	if hook.Name != "hook-1" || hook.Class != "webhook" || bank.Name != "bank" || bank.Class != "" {
		t.Errorf("names and classes are %s %s, %s %s", hook.Name, hook.Class, bank.Name, bank.Class)
	}
	if hook.Retry.MaxAttempts != 5 || hook.Retry.MaxAge != 72*time.Hour || hook.Retry.MinBackoff != time.Second {
		t.Errorf("the hook retries as %+v", hook.Retry)
	}
	if bank.Retry.MaxAttempts != 5 || bank.Retry.MaxAge != 2*time.Hour {
		t.Errorf("the bank retries as %+v", bank.Retry)
	}
	if want := map[string]string{"team": "hooks", "tier": "gold"}; !reflect.DeepEqual(hook.Labels, want) {
		t.Errorf("the hook's labels are %v", hook.Labels)
	}
	if want := []Header{{"X-From", "tundish"}, {"x-env", "dev"}}; !reflect.DeepEqual(hook.Target.Headers, want) {
		t.Errorf("the hook's headers are %v", hook.Target.Headers)
	}
	if hook.Target.Timeout != 3*time.Second || len(hook.Limits) != 2 || len(bank.Limits) != 1 {
		t.Errorf("got %+v and %+v", hook, bank)
	}
	want := `{"class":"webhook","labels":{"team":"hooks","tier":"gold"},"limits":[{"algorithm":"leaky_bucket","name":"tps","per":"1s","rate":5},` +
		`{"name":"hour","per":"1h","rate":1000}],"name":"hook-1","retry":{"max_age":"72h","max_attempts":5},` +
		`"target":{"http":{"headers":{"X-From":"tundish","x-env":"dev"},"timeout":"3s","url":"https://a.example/hook"}}}`
	if got := string(f.Destinations[0].Written); got != want {
		t.Errorf("written %s\nwant    %s", got, want)
	}
}

func TestWrittenOfAFileReadsEqual(t *testing.T) {
	t.Parallel()
	for _, e := range append(mustParseFile(t, layered).Destinations, mustParseFile(t, string(SampleFile)).Destinations...) {
		c, written, err := ParseContract(e.Contract.Name, e.Written)
		if err != nil || !reflect.DeepEqual(c, e.Contract) || string(written) != string(e.Written) {
			t.Errorf("%s reads as %+v, %v\nwant %+v", e.Written, c, err, e.Contract)
		}
	}
}

func TestListsReplace(t *testing.T) {
	t.Parallel()
	f := mustParseFile(t, `
defaults: {limits: [{rate: 1, per: 1s}, {rate: 2, per: 1m}], target: {http: {url: "http://a"}}}
destinations: [{name: a}, {name: b, limits: [{rate: 3, per: 1h}]}]`)
	if a, b := f.Destinations[0].Contract.Limits, f.Destinations[1].Contract.Limits; len(a) != 2 || len(b) != 1 || b[0].Rate != 3 {
		t.Errorf("limits are %v and %v", a, b)
	}
}

func TestAllProblemsWithTheirLines(t *testing.T) {
	t.Parallel()
	const doc = `set: Pay!
revisions: 7
defaults:
  retry: {max_attempts: 0}
classes:
  webhook:
    limits:
      - name: tps
        rate: 5
        per: 1
    ponies: true
  unused: {queue: {capacity: none}}
  Bad: {}
destinations:
  - name: a
    class: webhook
    target: {http: {url: "http://a"}}
  - name: b
    class: webhook
    target:
      http:
        url: http://b?x
        timeout: 10
  - name: a
    class: webhok
  - target: {http: {url: "http://c", http2: true}}
    limits: [{rate: 1, per: 1s}]
  - just text
  - name: 12
    limits: [{rate: 1, per: 1s}]
callbacks: {}
`
	_, err := ParseFile([]byte(doc), "d.yaml")
	// Of the destination with an unknown class only that is said: the class may
	// hold what is missing.
	var got []string
	for _, f := range fields(err) {
		if f.File != "d.yaml" {
			t.Errorf("%+v has no file", f)
		}
		got = append(got, fmt.Sprintf("%d %s %s", f.Line, f.Pointer, f.Code))
	}
	want := []string{
		"1 /set invalid",
		"2 /revisions invalid",
		"4 /defaults/retry/max_attempts invalid",
		"10 /classes/webhook/limits/0/per invalid",
		"11 /classes/webhook/ponies invalid",
		"12 /classes/unused/queue/capacity invalid",
		"13 /classes/Bad invalid",
		"22 /destinations/1/target/http/url invalid",
		"23 /destinations/1/target/http/timeout invalid",
		"24 /destinations/2/name invalid",
		"25 /destinations/2/class invalid",
		"26 /destinations/3/name invalid",
		"26 /destinations/3/target/http/http2 invalid",
		"28 /destinations/4 invalid",
		"29 /destinations/5/name invalid",
		"29 /destinations/5/target/http/url invalid",
		"31 /callbacks not_supported",
	}
	if job.CodeOf(err) != job.CodeInvalid || !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, part := range []string{"did you mean webhook?", "did you mean revision?", "first on line 15 of d.yaml", "d.yaml: line 10: /classes/webhook/limits/0/per: per: 1 is not allowed"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
}

func TestOddYAML(t *testing.T) {
	t.Parallel()
	const rest = "\n    target: {http: {url: \"http://a\"}}\n    limits: [{rate: 1, per: 1s}]\n"
	bomb := "x-0: &a0 [1,1,1,1,1,1,1,1,1,1]\n"
	for i := 1; i < 9; i++ {
		bomb += fmt.Sprintf("x-%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), i-1)
	}
	for _, test := range []struct {
		name, doc string
		code      job.Code
		line      int
	}{
		{"tabs", "a: 1\n\tb: 2\n", job.CodeMalformed, 2},
		{"an open bracket", "destinations: [\n", job.CodeMalformed, 1},
		{"two documents", "destinations: []\n---\ndestinations: []\n", job.CodeMalformed, 2},
		{"an alias without anchor", "destinations: *S3CR3T\n", job.CodeMalformed, 0},
		{"an alias to itself", "destinations: &a [*a]\n", job.CodeMalformed, 1},
		{"aliases of aliases", bomb + "destinations: []\n", job.CodeMalformed, 1},
		{"deep", "x-a: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n", job.CodeMalformed, 1},
		{"not UTF-8", "x-a: \xff\n", job.CodeMalformed, 0},
		{"NUL", "x-a: \x00\n", job.CodeMalformed, 0},
		{"too large", strings.Repeat("#\n", maxFileBytes/2+1), job.CodeTooLarge, 0},
		{"empty", "", job.CodeInvalid, 0},
		{"a comment only", "# nothing\n", job.CodeInvalid, 0},
		{"null", "~\n", job.CodeInvalid, 1},
		{"a list", "- a\n", job.CodeInvalid, 1},
		{"no destinations", "set: a\n", job.CodeInvalid, 0},
		{"null destinations", "destinations:\n", job.CodeInvalid, 0},
		{"a repeated key", "destinations:\n  - name: a\n    name: b" + rest, job.CodeInvalid, 3},
		{"a repeated section", "destinations:\n  - name: a" + rest + "    limits:\n      - {rate: 2, per: 1s}\n", job.CodeInvalid, 5},
		{"a key that is a number", "destinations: []\n1: a\n", job.CodeInvalid, 2},
		{"a key that is a list", "destinations: []\n? [a]\n: b\n", job.CodeInvalid, 2},
		{"NaN", "destinations:\n  - name: a\n    max_in_flight: .nan" + rest, job.CodeInvalid, 3},
		{"infinity", "destinations:\n  - name: a\n    max_in_flight: .inf" + rest, job.CodeInvalid, 3},
		{"octal", "destinations:\n  - name: a\n    max_in_flight: 0777" + rest, job.CodeInvalid, 3},
		{"underscores", "destinations:\n  - name: a\n    max_in_flight: 1_000" + rest, job.CodeInvalid, 3},
		{"a tag", "destinations:\n  - name: !!binary YQ==" + rest, job.CodeInvalid, 2},
		{"an own tag", "destinations:\n  - name: !own a" + rest, job.CodeInvalid, 2},
		{"a false bool", "destinations:\n  - name: a\n    paused: !!bool maybe" + rest, job.CodeInvalid, 3},
		{"a line break", "destinations:\n  - name: a\n    labels: {a: \"b\\nc\"}" + rest, job.CodeInvalid, 3},
		{"revision below 0", "destinations: []\nrevision: -1\n", job.CodeInvalid, 2},
		{"class is no map", "destinations: []\nclasses: {a: 1}\n", job.CodeInvalid, 2},
		{"defaults is no map", "destinations: []\ndefaults: [1]\n", job.CodeInvalid, 2},
		{"name in defaults", "destinations: []\ndefaults: {name: a}\n", job.CodeInvalid, 2},
		{"merge of a text", "destinations: []\n<<: a\n", job.CodeInvalid, 2},
	} {
		_, err := ParseFile([]byte(test.doc), "d.yaml")
		if job.CodeOf(err) != test.code {
			t.Errorf("%s gives %v, want %s", test.name, err, test.code)
			continue
		}
		if got := fields(err); len(got) > 0 && (len(got) > 1 || got[0].Line != test.line || got[0].File != "d.yaml") {
			t.Errorf("%s gives %+v, want one on line %d", test.name, got, test.line)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error repeats the secret: %v", test.name, err)
		}
	}
}

func TestAliasesAndMergeKeys(t *testing.T) {
	t.Parallel()
	f := mustParseFile(t, `
x-common: &common
  limits: &limits [{rate: 9, per: 1s}]
  retry: {max_attempts: 3}
destinations:
  - <<: *common
    name: a
    target: &target {http: {url: "http://a"}}
    retry: {max_age: 1h}
  - {name: b, limits: *limits, target: *target}
`)
	a, b := f.Destinations[0].Contract, f.Destinations[1].Contract
	if a.Limits[0].Rate != 9 || b.Limits[0].Rate != 9 || b.Target.URL != "http://a" {
		t.Errorf("got %+v and %+v", a, b)
	}
	if a.Retry.MaxAttempts != 8 || a.Retry.MaxAge != time.Hour {
		t.Errorf("what stands beside a merge key is merged deeply: %+v", a.Retry)
	}
}

func TestEmptyListIsMeant(t *testing.T) {
	t.Parallel()
	if f := mustParseFile(t, "destinations: []"); f.Set != "default" || len(f.Destinations) != 0 {
		t.Errorf("got %+v", f)
	}
}

func TestJSONFile(t *testing.T) {
	t.Parallel()
	f := mustParseFile(t, `{"destinations":[{"name":"bank","target":{"http":{"url":"http://a"}},"limits":[{"rate":5,"per":"1s"}]}]}`)
	if len(f.Destinations) != 1 {
		t.Errorf("got %+v", f)
	}
}

func TestSampleFile(t *testing.T) {
	t.Parallel()
	c := mustParseFile(t, string(SampleFile)).Destinations[0].Contract
	if c.Name != "bank" || c.Target.URL != "http://127.0.0.1:9090/" || !reflect.DeepEqual(c.Limits,
		[]Limit{{Name: "tps", Algorithm: LeakyBucket, Rate: 50, Per: time.Second, Burst: 1}}) {
		t.Errorf("got %+v", c)
	}
	// What is commented out is valid too, and the defaults it claims to show are the defaults.
	var lines []string
	for line := range strings.SplitSeq(string(SampleFile), "\n") {
		if i := strings.Index(line, "# "); i >= 0 && strings.TrimSpace(line[:i]) == "" && strings.Contains(line, ": ") && !strings.Contains(line, "with:") && !strings.HasPrefix(line, "# Destinations") {
			line = line[:i] + line[i+2:]
		}
		lines = append(lines, line)
	}
	full := mustParseFile(t, strings.Join(lines, "\n")).Destinations[0].Contract
	if len(full.Limits) != 2 || full.Tenants.Share != 0.5 || len(full.Target.Headers) != 1 || len(full.Target.Sign.Secrets) != 1 || full.Target.Auth.Basic == nil || full.Target.Keep.Body != 4096 {
		t.Errorf("not everything was uncommented: %+v", full)
	}
	if full.Queue != c.Queue || full.Retry != c.Retry || full.Retention != c.Retention || full.Idempotency != c.Idempotency ||
		full.Guard != c.Guard || full.MaxInFlight != c.MaxInFlight ||
		full.Breaker != c.Breaker || full.Adaptive != c.Adaptive || full.LearnLimits != c.LearnLimits || full.Delivery != c.Delivery || full.Durability != c.Durability {
		t.Errorf("the commented values are not the defaults:\n%+v\n%+v", full, c)
	}
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, doc := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func names(f *File) []string {
	var all []string
	for _, e := range f.Destinations {
		all = append(all, e.Contract.Name)
	}
	return all
}

const entry = `, target: {http: {url: "http://a"}}, limits: [{rate: 1, per: 1s}]}`

func TestParsePath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"b.yaml":        "set: pay\nrevision: 3\ndestinations: [{name: b, class: web, target: {http: {url: \"http://b\"}}}]\n",
		"a.yml":         "set: pay\ndestinations: [{name: a" + entry + "]\n",
		"classes.yaml":  "classes: {web: {limits: [{rate: 1, per: 1s}]}}\n",
		".hidden.yaml":  "nonsense",
		"notes.txt":     "nonsense",
		"below/c.yaml":  "nonsense",
		"folder.yaml/x": "nonsense",
	})
	f, err := ParsePath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if f.Set != "pay" || f.Revision != 3 || !reflect.DeepEqual(names(f), []string{"a", "b"}) {
		t.Errorf("got %+v", f)
	}
	if f, err = ParsePath(filepath.Join(dir, "a.yml")); err != nil || !reflect.DeepEqual(names(f), []string{"a"}) {
		t.Errorf("one file gives %+v, %v", f, err)
	}
	for _, path := range []string{filepath.Join(dir, "none.yaml"), t.TempDir()} {
		if _, err := ParsePath(path); err == nil {
			t.Errorf("%s passes", path)
		}
	}
}

func TestMountedConfigMap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"..2026_01/a.yaml": "destinations: [{name: old" + entry + "]\n",
		"..2026_02/a.yaml": "destinations: [{name: new" + entry + "]\n",
	})
	for link, to := range map[string]string{"..data": "..2026_02", "a.yaml": "..data/a.yaml"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := ParsePath(dir)
	if err != nil || !reflect.DeepEqual(names(f), []string{"new"}) {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestFolderProblems(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, a, b, want string
		code             job.Code
	}{
		{"a name twice", "destinations:\n- {name: x" + entry, "destinations: [{name: x" + entry + "]",
			`b.yaml: line 1: /destinations/0/name: name: "x" is given twice, first on line 2 of a.yaml`, job.CodeInvalid},
		{"a class twice", "destinations: []\nclasses: {w: {}}", "classes: {w: {}}", "b.yaml: line 1: /classes/w: classes: w is given twice, first on line 2 of a.yaml", job.CodeInvalid},
		{"defaults twice", "destinations: []\ndefaults: {}", "defaults: {}", "b.yaml: line 1: /defaults: defaults: are given twice, first on line 2 of a.yaml", job.CodeInvalid},
		{"two sets", "destinations: []\nset: a", "set: b", `b.yaml: line 1: /set: set: "b" differs from "a" on line 2 of a.yaml`, job.CodeInvalid},
		{"two revisions", "destinations: []\nrevision: 1", "revision: 2", "b.yaml: line 1: /revision: revision: 2 differs from 1 on line 2 of a.yaml", job.CodeInvalid},
		{"one unreadable", "destinations: []", "a: [", "b.yaml: ", job.CodeMalformed},
		{"both unreadable", "a: [", "a: [", "2 files cannot be read; a.yaml: ", job.CodeMalformed},
	} {
		dir := t.TempDir()
		writeFiles(t, dir, map[string]string{"a.yaml": test.a, "b.yaml": test.b})
		_, err := ParsePath(dir)
		if job.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s gives %v\nwant %s", test.name, err, test.want)
		}
	}
}

func TestFolderIsBoundedAsAWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	half := strings.Repeat("#\n", maxFileBytes/4+1)
	writeFiles(t, dir, map[string]string{"a.yaml": "destinations: []\n" + half, "b.yaml": half})
	if _, err := ParsePath(dir); job.CodeOf(err) != job.CodeTooLarge {
		t.Errorf("got %v", err)
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte(layered))
	f.Add(SampleFile)
	f.Add([]byte("a: &a [*a]\n<<: [{b: 1}, *a]\n? x\n: !!float 1e3\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		file, err := ParseFile(doc, "d.yaml")
		if err != nil {
			return
		}
		for _, e := range file.Destinations {
			c, _, err := ParseContract(e.Contract.Name, e.Written)
			if err != nil || !reflect.DeepEqual(c, e.Contract) {
				t.Fatalf("%s is written as %s and read as %+v, %v", doc, e.Written, c, err)
			}
		}
	})
}
