package cli

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// listed is a destination as the API lists it.
func listed(name, kind, set, counts string) string {
	return `{"name":"` + name + `","version":7,"source":{"kind":"` + kind + `","set":"` + set + `"},"live":{"state":"running"` + counts + `}}`
}

// fleetOf answers what prune asks: two pages, of which only orphans of the set may be deleted.
func fleetOf(t *testing.T, remove http.HandlerFunc, extra ...string) *fakeAPI {
	t.Helper()
	c := &contracts{t: t, at: map[string]string{}}
	routes := c.routes()
	first := []string{listed("one", "file", "default", ""), listed("gone", "orphaned", "default", ""), listed("other", "orphaned", "mails", ""), listed("made", "api", "", "")}
	routes["GET /v1/destinations"] = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" {
			says(200, `{"destinations":[`+strings.Join(first, ",")+`],"next_cursor":"x"}`)(w, r)
			return
		}
		says(200, `{"destinations":[`+strings.Join(extra, ",")+`]}`)(w, r)
	}
	routes["DELETE /v1/destinations/{d}"] = remove
	return newFakeAPI(t, routes)
}

func deletes(f *fakeAPI) []string {
	var list []string
	for _, call := range f.seen() {
		if strings.HasPrefix(call, "DELETE") {
			path, _, _ := strings.Cut(strings.Fields(call)[1], "?")
			list = append(list, path)
		}
	}
	return list
}

func TestPrune(t *testing.T) {
	t.Parallel()
	removed := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-Match") != `"7"` || r.URL.RawQuery != "set=default" {
			t.Errorf("If-Match %q, query %q: want what was seen, and no job cancelled", r.Header.Get("If-Match"), r.URL.RawQuery)
		}
		says(200, `{}`)(w, r)
	}
	jobsLeft := []string{listed("full", "orphaned", "default", `,"depth":3,"dead":2`), listed("late", "orphaned", "default", ""), listed("read", "file", "default", "")}
	cases := []struct {
		name    string
		remove  http.HandlerFunc
		more    []string // on the second page
		args    []string
		code    int
		stdout  string
		stderr  []string
		deleted []string
	}{
		{"orphans of the set alone", removed, nil, []string{"--prune"}, exitDone, "gone  deleted\n", nil, []string{"/v1/destinations/gone"}},
		{"not without the flag", removed, nil, nil, exitDone, "one  created\n", nil, nil},
		{"what holds jobs is named", removed, jobsLeft, []string{"--prune"}, exitFailed, "late  deleted\nread  deleted\n",
			[]string{"full: not pruned: it holds 3 live jobs, 2 dead jobs;", "tundish delete full --set default --cancel-jobs"},
			[]string{"/v1/destinations/gone", "/v1/destinations/late", "/v1/destinations/read"}},
		{"taken by others in between", says(409, problemBody("owned_by_file", "the set default does not own it")), nil, []string{"--prune"}, exitFailed, "", []string{"gone: owned_by_file"}, []string{"/v1/destinations/gone"}},
		{"dry", removed, nil, []string{"--prune", "--dry-run"}, exitDifferent, "gone  deleted\n", []string{"3 differences found"}, nil},
		{"filled in between", says(409, problemBody("destination_not_empty", "jobs")), nil, []string{"--prune"}, exitFailed, "", []string{"gone: destination_not_empty"}, []string{"/v1/destinations/gone"}},
		{"deleted in between", says(404, problemBody("destination_not_found", "none")), nil, []string{"--prune"}, exitDone, "gone  deleted\n", nil, []string{"/v1/destinations/gone"}},
		{"not allowed", says(403, problemBody("forbidden", "manage")), nil, []string{"--prune"}, exitNotAllowed, "", []string{"gone: forbidden"}, []string{"/v1/destinations/gone"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := fleetOf(t, tc.remove, tc.more...)
			file := tempFile(t, "d.yaml", twoDestinations)
			e := world{}.run(t.Context(), append([]string{"apply", "-f", file, "--server", f.URL}, tc.args...)...)
			e.want(t, tc.code, tc.stdout, "")
			for _, text := range tc.stderr {
				e.want(t, tc.code, "", text)
			}
			if got := deletes(f); !slices.Equal(got, tc.deleted) {
				t.Errorf("deleted %v, want %v", got, tc.deleted)
			}
		})
	}
}

// What failed to be applied may be why a name is missing: nothing is deleted then.
func TestNothingIsPrunedAfterAFailure(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, map[string]http.HandlerFunc{
		"GET /v1/destinations/{d}": says(404, problemBody("destination_not_found", "none")),
		"PUT /v1/destinations/{d}": says(422, problemBody("invalid", "no")),
		"GET /v1/destinations":     says(200, `{"destinations":[`+listed("gone", "orphaned", "default", "")+`]}`),
	})
	world{}.run(t.Context(), "apply", "-f", tempFile(t, "d.yaml", twoDestinations), "--prune", "--server", f.URL).want(t, exitUsage, "", "nothing is pruned")
	if got := deletes(f); len(got) > 0 {
		t.Errorf("deleted %v", got)
	}
}

func TestOrphansAreShown(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, map[string]http.HandlerFunc{
		"GET /v1/destinations":     says(200, `{"destinations":[`+listed("gone", "orphaned", "default", "")+`]}`),
		"GET /v1/destinations/{d}": says(200, listed("gone", "orphaned", "default", `,"state_reasons":["orphaned: no file names it"]`)),
	})
	world{}.run(t.Context(), "get", "--server", f.URL).want(t, exitDone, "running (orphaned)", "")
	world{}.run(t.Context(), "get", "gone", "--server", f.URL).want(t, exitDone, "running\nwhy      orphaned: no file names it", "")
}

// A wrong key is not waited for, though the answer tells a time.
func TestTooManyBadKeys(t *testing.T) {
	t.Parallel()
	refused := says(429, problemBody("too_many_bad_keys", "wrong keys"), "Retry-After", "1")
	f := newFakeAPI(t, map[string]http.HandlerFunc{"POST /v1/destinations/{d}/jobs": refused, "GET /v1/destinations": refused})
	for _, args := range [][]string{{"push", "bank", "-d", "1"}, {"get"}} {
		world{env: map[string]string{"TUNDISH_KEY": "k"}}.run(t.Context(), append(args, "--server", f.URL)...).want(t, exitNotAllowed, "", "too_many_bad_keys: wrong keys (the key given is not known there")
	}
	if n := len(f.seen()); n != 2 {
		t.Errorf("%d calls, want one of each", n)
	}
}
