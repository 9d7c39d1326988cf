package cli

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const deadDoc = `{"id":"J1","destination":"bank","state":"dead","outcome":"rejected","tenant":"t","attempts":[{"number":1}],"redrives":2,"created_at":"2026-12-01T09:00:00.000Z","reason":"why"}`

// TestJobsGoesOnUntilThereAreEnough: pages may be short, and the last says so.
func TestJobsGoesOnUntilThereAreEnough(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"": `{"jobs":[` + deadDoc + `],"next_cursor":"a"}`, "a": `{"jobs":[],"next_cursor":"b"}`,
		"b": `{"jobs":[{"id":"J2","state":"ready","attempts":[]}],"next_cursor":"c"}`, "c": `{"jobs":[]}`}
	f := newFakeAPI(t, map[string]http.HandlerFunc{"GET /v1/destinations/bank/jobs": func(w http.ResponseWriter, r *http.Request) {
		says(http.StatusOK, pages[r.URL.Query().Get("cursor")])(w, r)
	}})
	for _, c := range []struct {
		args         []string
		stdout, talk string
		calls        int
	}{
		{nil, `
ID  STATE  OUTCOME   ATTEMPTS  REDRIVES  CREATED                   TENANT
J1  dead   rejected  1         2         2026-12-01T09:00:00.000Z  t
J2  ready            0         0
`, "", 4},
		{[]string{"--limit", "1", "-o", "name"}, "\nJ1\n", "larger --limit", 1},
		{[]string{"--state", "dead,unknown", "--tenant", "t", "--order", "desc", "-o", "name"}, "\nJ1\nJ2\n", "", 4},
	} {
		before := len(f.seen())
		e := world{}.run(t.Context(), append([]string{"jobs", "bank", "--server", f.URL}, c.args...)...)
		if e.code != 0 || "\n"+e.stdout != c.stdout || !strings.Contains(e.stderr, c.talk) || len(f.seen())-before != c.calls {
			t.Errorf("%v: %+v after %d calls", c.args, e, len(f.seen())-before)
		}
	}
	if last := f.seen()[5]; !strings.Contains(last, "order=desc") || !strings.Contains(last, "state=dead%2Cunknown") || !strings.Contains(last, "tenant=t") {
		t.Errorf("%v", last)
	}
	world{}.run(t.Context(), "jobs", "bank", "--order", "up", "--limit", "0").want(t, exitUsage, "", "--limit")
}

func TestCommandsOnOneJob(t *testing.T) {
	t.Parallel()
	const one = "/v1/destinations/bank/jobs/J1"
	f := newFakeAPI(t, map[string]http.HandlerFunc{
		"POST " + one + "/cancel":  says(http.StatusOK, `{"id":"J1","state":"cancelled"}`),
		"POST " + one + "/redrive": says(http.StatusTooManyRequests, problemBody("queue_full", "full"), "Retry-After", "1"),
		"POST " + one + "/resolve": says(http.StatusOK, `{"id":"J1","state":"delivered"}`),
		"DELETE " + one:            says(http.StatusOK, deadDoc),
		"GET " + one:               says(http.StatusOK, deadDoc),
		"GET " + one + "/payload":  says(http.StatusOK, `{"id":"J1","body_base64":"AP8="}`),
	})
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		call   string // the last one; empty: none
	}{
		{[]string{"cancel", "bank", "J1"}, 0, "J1 cancelled", "POST " + one + "/cancel "},
		{[]string{"redrive", "bank", "J1"}, 1, "", "POST " + one + "/redrive "},
		{[]string{"redrive", "bank", "J1", "--max", "3"}, exitUsage, "", ""},
		{[]string{"redrive", "bank", "", "--yes"}, exitUsage, "", ""},
		{[]string{"resolve", "bank", "J1", "--delivered", "--reason", "seen"}, 0, "J1 delivered", "POST " + one + `/resolve {"reason":"seen","verdict":"delivered"}`},
		{[]string{"resolve", "bank", "J1", "--retry"}, 0, "J1 delivered", "POST " + one + `/resolve {"verdict":"retry"}`},
		{[]string{"resolve", "bank", "J1"}, exitUsage, "", ""},
		{[]string{"resolve", "bank", "", "--retry"}, exitUsage, "", ""},
		{[]string{"erase", "bank", "..", "--yes"}, exitUsage, "", ""},
		{[]string{"cancel", "bank", "."}, exitUsage, "", ""},
		{[]string{"job", "bank", ""}, exitUsage, "", ""},
		{[]string{"resolve", "bank", "J1", "--retry", "--delivered"}, exitUsage, "", ""},
		{[]string{"erase", "bank", "J1"}, exitUsage, "", ""}, // nobody can be asked
		{[]string{"erase", "bank", "J1", "--yes"}, 0, "J1 erased", "DELETE " + one + " "},
		{[]string{"job", "bank", "J1"}, 0, "redrives     2", "GET " + one + " "},
		{[]string{"job", "bank", "J1", "--payload"}, 0, "\x00\xff", "GET " + one + "/payload "},
	} {
		before := f.seen()
		e := world{}.run(t.Context(), append(c.args, "--server", f.URL)...)
		e.want(t, c.code, c.stdout, "")
		calls := f.seen()[len(before):]
		if c.call == "" && len(calls) > 0 || c.call != "" && !slices.Equal(calls, []string{c.call}) {
			t.Errorf("%v: calls %q, want %q", c.args, calls, c.call)
		}
	}
}

// TestOperationIsFollowedToItsEnd, which gives the exit code.
func TestOperationIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	for state, c := range map[string]struct {
		end  string
		code int
	}{
		"done":    {`"state":"done","done":7`, 0},
		"partly":  {`"state":"done","done":6,"failed":1,"failures":{"expired":1}`, exitRefused},
		"failed":  {`"state":"failed","error":"the destination was deleted"`, exitFailed},
		"stopped": {`"state":"cancelled"`, exitFailed},
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			looks := 0
			f := newFakeAPI(t, map[string]http.HandlerFunc{
				"POST /v1/destinations/bank/redrive": says(http.StatusAccepted, `{"id":"O1","kind":"redrive","state":"queued"}`),
				"GET /v1/operations/O1": func(w http.ResponseWriter, r *http.Request) {
					if looks++; looks < 4 {
						says(http.StatusOK, fmt.Sprintf(`{"id":"O1","kind":"redrive","state":"waiting","seen":%d,"total":7}`, looks/2))(w, r)
						return
					}
					says(http.StatusOK, `{"id":"O1","kind":"redrive","finished_at":"2026-12-01T09:00:00.000Z",`+c.end+`}`)(w, r)
				},
			})
			clock := newClock()
			e := world{clock: clock}.run(t.Context(), "redrive", "bank", "--server", f.URL, "--yes", "--wait", "--tenant", "t", "--max", "7")
			e.want(t, c.code, "O1", "waiting: 1 of 7")
			world{clock: newClock()}.run(t.Context(), "operations", "O1", "--server", f.URL, "--wait").want(t, c.code, "O1", "")
			if first := f.seen()[0]; first != `POST /v1/destinations/bank/redrive {"filter":{"tenant":"t"},"max":7}` {
				t.Errorf("%s", first)
			}
			if n := strings.Count(e.stderr, "waiting:"); n != 2 || len(clock.sleeps) != 3 {
				t.Errorf("told %d times in %d looks: %s", n, len(clock.sleeps), e.stderr)
			}
		})
	}
}

func TestPurgeAndOperations(t *testing.T) {
	t.Parallel()
	const op = `{"id":"O1","kind":"purge","destination":"bank","state":"running","dry_run":true,"seen":3,"total":9,"done":2,"created_at":"2026-12-01T09:00:00.000Z"}`
	f := newFakeAPI(t, map[string]http.HandlerFunc{
		"POST /v1/destinations/bank/purge":  says(http.StatusAccepted, op),
		"POST /v1/destinations/all/purge":   says(http.StatusAccepted, `{"id":"O2"}`),
		"POST /v1/destinations/all/redrive": says(http.StatusAccepted, `{"id":"O2"}`),
		"GET /v1/operations/O2":             says(http.StatusOK, `{"id":"O2","kind":"purge","dry_run":true,"state":"done","matched":4,"finished_at":"2026-12-01T09:00:00.000Z"}`),
		"GET /v1/operations":                says(http.StatusOK, `{"operations":[`+op+`]}`),
		"GET /v1/operations/O1":             says(http.StatusOK, op),
		"POST /v1/operations/O1/cancel":     says(http.StatusOK, op),
	})
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		call   string
	}{
		{[]string{"purge", "bank", "--states", "dead,ready"}, exitUsage, "", ""},
		{[]string{"purge", "bank", "--states", "", "--yes"}, exitUsage, "", ""},
		{[]string{"purge", "bank", "--yes"}, exitUsage, "", ""},
		{[]string{"purge", "bank", "--states", "dead,ready", "--yes"}, 0, "purge (dry run)", `POST /v1/destinations/bank/purge {"confirm":"bank","states":["dead","ready"]}`},
		{[]string{"purge", "all", "--states", "dead", "--dry-run"}, 0, "4 chosen", `POST /v1/destinations/all/purge {"confirm":"all","dry_run":true,"states":["dead"]}|GET /v1/operations/O2 `},
		{[]string{"redrive", "all", "--dry-run"}, 0, "4 chosen", `POST /v1/destinations/all/redrive {"dry_run":true}|GET /v1/operations/O2 `},
		{[]string{"operations"}, 0, "O1  purge (dry run)  bank         running  3/9   2     0", "GET /v1/operations "},
		{[]string{"operations", "O1"}, 0, "3 of 9 looked at", "GET /v1/operations/O1 "},
		{[]string{"operations", "O1", "--cancel"}, 0, "running", "POST /v1/operations/O1/cancel "},
		{[]string{"operations", "--cancel"}, exitUsage, "", ""},
		{[]string{"operations", "..", "--cancel"}, exitUsage, "", ""},
		{[]string{"operations", "O1", "--cancel", "--wait"}, exitUsage, "", ""},
	} {
		before := f.seen()
		e := world{}.run(t.Context(), append(c.args, "--server", f.URL)...)
		e.want(t, c.code, c.stdout, "")
		calls := f.seen()[len(before):]
		if c.call == "" && len(calls) > 0 || c.call != "" && strings.Join(calls, "|") != c.call {
			t.Errorf("%v: calls %q, want %q", c.args, calls, c.call)
		}
	}
}
