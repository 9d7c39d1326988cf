package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tundish/internal/api"
	"tundish/internal/destination"
	"tundish/internal/job"
)

const twoDestinations = `
classes:
  slow: {limits: [{name: tps, algorithm: leaky_bucket, rate: 1, per: 1s}]}
destinations:
  - {name: one, class: slow, target: {http: {url: "https://a.example/"}}}
  - name: two
    target: {http: {url: "https://b.example/"}}
    limits: [{name: tps, algorithm: leaky_bucket, rate: 5, per: 1s}]
    max_in_flight: 1
`

func TestValidate(t *testing.T) {
	t.Parallel()
	good := tempFile(t, "d.yaml", twoDestinations)
	world{}.run(t.Context(), "validate", "-f", good).want(t, exitDone, "2 destinations, ok\n", "warning: two: max_in_flight: 1 ")
	world{}.run(t.Context(), "validate", "-f", good, "-o", "name").want(t, exitDone, "one\ntwo\n", "")
	world{}.run(t.Context(), "validate", "-f", filepath.Dir(good), "-o", "json").want(t, exitDone, `"detail": "max_in_flight`, "")
	if e := (world{}).run(t.Context(), "validate", "-f", good, "-q"); e.stderr != "" {
		t.Errorf("stderr %q in spite of -q", e.stderr)
	}

	bad := tempFile(t, "bad.yaml", strings.ReplaceAll(strings.ReplaceAll(twoDestinations, "rate: 1,", "rate: 0,"), "max_in_flight: 1", "max_in_flihgt: 1"))
	e := world{}.run(t.Context(), "validate", "-f", bad)
	e.want(t, exitUsage, "", "bad.yaml:3: /classes/slow/limits/0/rate: ")
	e.want(t, exitUsage, "", "bad.yaml:9: /destinations/1/max_in_flihgt: ")

	broken := tempFile(t, "broken.yaml", "a: [")
	world{}.run(t.Context(), "validate", "-f", broken).want(t, exitUsage, "", "broken.yaml:1: ")
}

// contracts is the part of the API that apply speaks to.
type contracts struct {
	t  *testing.T
	mu sync.Mutex
	at map[string]string // name → contract
	by map[string]string // name → set and revision of who put it
}

func (c *contracts) routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{"GET /v1/destinations/{d}": c.get, "PUT /v1/destinations/{d}": c.put}
}

func (c *contracts) get(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	contract, ok := c.at[r.PathValue("d")]
	if !ok {
		says(http.StatusNotFound, problemBody("destination_not_found", "none"))(w, r)
		return
	}
	set, revision, _ := strings.Cut(c.by[r.PathValue("d")], "@")
	source := `{"kind":"file","set":"` + set + `","revision":` + cmp.Or(revision, "0") + `}`
	says(http.StatusOK, `{"name":"x","source":`+source+`,"contract":`+contract+`}`, "ETag", `"7"`)(w, r)
}

// put takes what the API takes, on the conditions that it was given.
func (c *contracts) put(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := r.PathValue("d")
	body, _ := io.ReadAll(r.Body)
	_, written, _, err := destination.ParseBody(name, body)
	if err != nil {
		c.t.Errorf("PUT %s: %v", name, err)
	}
	_, there := c.at[name]
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	if there && match != `"7"` || !there && none != "*" {
		c.t.Errorf("PUT %s: If-Match %q, If-None-Match %q: want one that holds for what was seen", name, match, none)
	}
	if r.URL.Query().Get("dry_run") != "true" {
		c.at[name] = string(written)
		if c.by == nil {
			c.by = map[string]string{}
		}
		c.by[name] = r.URL.Query().Get("set") + "@" + r.URL.Query().Get("revision")
	}
	w.WriteHeader(http.StatusOK)
	warnings := "[]"
	if name == "two" {
		warnings = `["durability: late"]`
	}
	fmt.Fprintf(w, `{"name":%q,"warnings":%s}`, name, warnings)
}

func TestApply(t *testing.T) {
	t.Parallel()
	c := &contracts{t: t, at: map[string]string{"two": `{"name":"two"}`}}
	f := newFakeAPI(t, c.routes())
	file := tempFile(t, "d.yaml", twoDestinations)
	apply := func(args ...string) ending {
		return world{}.run(t.Context(), append([]string{"apply", "-f", file, "--server", f.URL}, args...)...)
	}
	apply("--dry-run").want(t, exitDifferent, "one  created\ntwo  updated\n", "2 differences found")
	if len(c.at) != 1 {
		t.Errorf("a dry run made %v", c.at)
	}
	apply().want(t, exitDone, "one  created\ntwo  updated\n", "warning: two: durability: late")
	before := len(f.seen())
	apply().want(t, exitDone, "one  unchanged\ntwo  unchanged\n", "")
	apply("--dry-run", "-o", "name").want(t, exitDone, "one\ntwo\n", "")
	for _, call := range f.seen()[before:] {
		if strings.HasPrefix(call, "PUT") {
			t.Errorf("unchanged, and yet %s", call)
		}
	}
	apply("-o", "json").want(t, exitDone, `"result": "unchanged"`, "")
	apply("-o", "yaml").want(t, exitDone, "- name: one\n    result: unchanged\n", "")
}

// What stands there under another owner, or as of another revision, is put
// again: who owns it is for the API to judge.
func TestApplyTellsItsSetAndRevision(t *testing.T) {
	t.Parallel()
	c := &contracts{t: t, at: map[string]string{}}
	routes := c.routes()
	routes["GET /v1/destinations"] = says(200, `{"destinations":[`+listed("one", "file", "payments", "")+`]}`)
	f := newFakeAPI(t, routes)
	apply := func(head string) ending {
		return world{}.run(t.Context(), "apply", "-f", tempFile(t, "d.yaml", head+twoDestinations), "--server", f.URL)
	}
	apply("set: payments\nrevision: 7").want(t, exitDone, "one  created\ntwo  created\n", "")
	if c.by["one"] != "payments@7" {
		t.Errorf("put as %q", c.by["one"])
	}
	apply("set: payments\nrevision: 7").want(t, exitDone, "one  unchanged\n", "")
	apply("set: payments\nrevision: 8").want(t, exitDone, "one  updated\n", "")
	apply("set: mails").want(t, exitDone, "one  updated\n", "")
	if c.by["one"] != "mails@" {
		t.Errorf("put as %q", c.by["one"])
	}
}

// A file that is older than what stands there changes nothing, not even what is new in it.
func TestApplyOfAnOlderFile(t *testing.T) {
	t.Parallel()
	newer := strings.Replace(listed("three", "orphaned", "payments", ""), `"payments"`, `"payments","revision":7`, 1)
	f := newFakeAPI(t, map[string]http.HandlerFunc{"GET /v1/destinations": says(200, `{"destinations":[`+newer+`]}`)})
	for _, args := range [][]string{nil, {"--dry-run"}, {"--prune"}} {
		file := tempFile(t, "d.yaml", "set: payments\nrevision: 6"+twoDestinations)
		e := world{}.run(t.Context(), append([]string{"apply", "-f", file, "--server", f.URL}, args...)...)
		e.want(t, exitFailed, "", "nothing was changed: revision 6 of the set payments is older than revision 7, which was applied to three")
	}
	if calls := f.seen(); len(calls) != 3 {
		t.Errorf("calls %v", calls)
	}
}

func TestApplyFailures(t *testing.T) {
	t.Parallel()
	found := says(http.StatusOK, `{"name":"x","contract":{"name":"x"}}`, "ETag", `"7"`)
	cases := []struct {
		name string
		put  http.HandlerFunc
		code int
		want []string
		puts int
	}{
		{"the rest goes on", says(409, problemBody("owned_by_file", "the file owns it")), exitFailed, []string{"one: owned_by_file", "two: owned_by_file"}, 2},
		{"changed in between", says(412, problemBody("version_mismatch", "another version")), exitFailed, []string{"one: version_mismatch"}, 2},
		{"not allowed", says(403, problemBody("forbidden", "manage")), exitNotAllowed, []string{"one: forbidden", "1 destination not tried"}, 1},
		{"refused there", says(422, problemBody("not_supported", "no such part")), exitUsage, []string{"two: not_supported"}, 2},
		{"hung up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, exitFailed, []string{"one: no answer from", "1 destination not tried"}, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t, map[string]http.HandlerFunc{"GET /v1/destinations/{d}": found, "PUT /v1/destinations/{d}": c.put})
			e := world{}.run(t.Context(), "apply", "-f", tempFile(t, "d.yaml", twoDestinations), "--server", f.URL)
			for _, text := range c.want {
				e.want(t, c.code, "", text)
			}
			puts := map[string]bool{}
			for _, call := range f.seen() {
				if method, rest, _ := strings.Cut(call, " "); method == "PUT" {
					path, _, _ := strings.Cut(rest, " ")
					puts[path] = true
				}
			}
			if len(puts) != c.puts {
				t.Errorf("tried %v, want %d", puts, c.puts)
			}
		})
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	cases := []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[1,2]}`, ` { "b" : [1, 2], "a" : 1 } `, true},
		{`{"a":1}`, `{"a":2}`, false},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{``, ``, false},
		{`null`, `{"a":1}`, false},
	}
	for _, c := range cases {
		if got := same([]byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("same(%s, %s) = %v", c.a, c.b, got)
		}
	}
}

func TestInit(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "new.yaml")
	world{}.run(t.Context(), "init", file).want(t, exitDone, "", "wrote "+file)
	world{}.run(t.Context(), "validate", "-f", file).want(t, exitDone, "1 destination, ok", "")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	world{}.run(t.Context(), "init", file, "--yes").want(t, exitFailed, "", "is there already")
	if got, err := os.ReadFile(file); err != nil || string(got) != "mine" {
		t.Errorf("init wrote over a file: %q, %v", got, err)
	}
	world{}.run(t.Context(), "init", "-").want(t, exitDone, string(destination.SampleFile), "")
}

func TestKeysCreate(t *testing.T) {
	t.Parallel()
	args := []string{"keys", "create", "shop", "--scopes", "enqueue,read", "--destinations", "bank,mail-*", "--expires-at", "2027-01-01T00:00:00Z"}
	e := world{}.run(t.Context(), append(args, "-o", "yaml")...)
	e.want(t, exitDone, "name: shop", "tnd_")
	if strings.Contains(e.stdout, "tnd_") {
		t.Errorf("the key is in the file: %s", e.stdout)
	}
	if _, err := api.ParseKeys([]byte(e.stdout)); err != nil {
		t.Errorf("the enqueuer does not take what was written: %v", err)
	}
	name := world{}.run(t.Context(), append(args, "-o", "name")...)
	if !strings.HasPrefix(name.stdout, "tnd_") || strings.Count(name.stdout, "\n") != 1 || name.stderr != "" {
		t.Errorf("stdout %q, stderr %q, want the key alone", name.stdout, name.stderr)
	}
	world{}.run(t.Context(), append(args, "-o", "json")...).want(t, exitDone, `"key": "tnd_`, "")
	world{}.run(t.Context(), args...).want(t, exitDone, "# for keys.yaml\nproducers:\n", "shown this once")

	bad := world{}.run(t.Context(), "keys", "create", "a:b", "--scopes", "all", "--destinations", "B", "--expires-at", "soon")
	for _, text := range []string{"NAME", "--scopes", "--destinations", "--expires-at"} {
		bad.want(t, exitUsage, "", text)
	}
}

// What a command line calls a bad file is what the vocabulary calls invalid.
func TestExitCodeOfVocabulary(t *testing.T) {
	t.Parallel()
	if got := exitCode(job.Errorf(job.CodeInvalid, "x")); got != exitUsage {
		t.Errorf("invalid ends with %d", got)
	}
	if got := exitCode(job.Errorf(job.CodeInternal, "x")); got != exitFailed {
		t.Errorf("internal ends with %d", got)
	}
	var b bytes.Buffer
	report(&b, &failure{exitRefused, ""})
	if b.Len() > 0 {
		t.Errorf("an end without text said %q", b.String())
	}
}
