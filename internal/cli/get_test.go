package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const bankDoc = `{"name":"bank","source":{"kind":"file","set":"payments","revision":7},"version":3,"contract":{"name":"bank"},
"effective":{"name":"bank","target":{"http":{"url":"https://bank.example/v1","method":"POST","timeout":"10s"}},
"limits":[{"name":"tps","algorithm":"token_bucket","rate":50,"per":"1s","burst":5},{"name":"leaky_bucket","algorithm":"leaky_bucket","rate":9,"per":"1m"}],"max_in_flight":100,"queue":{"capacity":10000},
"retry":{"max_attempts":8,"max_age":"24h"}},"warnings":["guard: odd"],
"live":{"state":"paused","state_reasons":["paused by operator: mid\u001bday"],"depth":120,"ready":100,"waiting":15,"leased":5,
"dead":2,"unknown":1,"size_bytes":2048,"oldest_age_ms":72500,"drain_ms":2410,"rate_per_second":49.7512}}`

func TestGet(t *testing.T) {
	t.Parallel()
	idle := `{"name":"idle","live":{"state":"faulty","rate_per_second":0}}`
	list := `{"destinations":[` + bankDoc + `,` + idle + `]}`
	f := newFakeAPI(t, map[string]http.HandlerFunc{
		"GET /v1/destinations":      says(http.StatusOK, list),
		"GET /v1/destinations/bank": says(http.StatusOK, bankDoc),
	})
	cases := []struct {
		name string
		args []string
		want string // all of stdout
	}{
		{"table", nil, `
NAME  STATE   RATE     DEPTH      OLDEST  DRAIN  DEAD  UNKNOWN  WHY
bank  paused  49.75/s  120/10000  1m12s   2.4s   2     1        paused by operator: mid day
idle  faulty  -        0          -       -      0     0
`},
		{"names", []string{"-o", "name"}, "\nbank\nidle\n"},
		{"json untouched", []string{"-o", "json"}, "\n" + list + "\n"},
		{"one, json untouched", []string{"bank", "-o", "json"}, "\n" + bankDoc + "\n"},
		{"one", []string{"bank"}, `
name       bank
state      paused
why        paused by operator: mid day
source     file of set payments, revision 7
version    3
target     POST https://bank.example/v1, timeout 10s
limit      tps: token_bucket, 50 per 1s, burst 5
limit      leaky_bucket, 9 per 1m
in flight  at most 100
retry      8 attempts within 24h
rate       49.75/s as granted
depth      120/10000 (100 ready, 15 waiting, 5 leased, 0 scheduled)
size       2.0 KiB
oldest     1m12s
drain      2.4s
dead       2
unknown    1
warning    guard: odd
`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := world{}.run(t.Context(), append([]string{"get", "--server", f.URL + "/"}, c.args...)...)
			if e.code != exitDone || "\n"+e.stdout != c.want || e.stderr != "" {
				t.Errorf("exit %d, stderr %q, stdout\n%s\nwant%s", e.code, e.stderr, e.stdout, c.want)
			}
		})
	}
	world{}.run(t.Context(), "get", "bank", "-o", "yaml", "--server", f.URL).want(t, exitDone, "name: bank\nsource:\n  kind: file\n", "")
}

// Beyond one page, the list is all of them.
func TestGetPages(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, map[string]http.HandlerFunc{"GET /v1/destinations": func(w http.ResponseWriter, r *http.Request) {
		pages := map[string]string{"": "b", "b": "c/+", "c/+": ""}
		at := r.URL.Query().Get("cursor")
		next, ok := pages[at]
		if !ok {
			t.Errorf("cursor %q was never given", at)
		}
		fmt.Fprintf(w, `{"destinations":[{"name":"d%d"}],"next_cursor":%q}`, len(at), next)
	}})
	world{}.run(t.Context(), "get", "-o", "name", "--server", f.URL).want(t, exitDone, "d0\nd1\nd3\n", "")
	e := world{}.run(t.Context(), "get", "-o", "json", "--server", f.URL)
	if strings.Count(e.stdout, `"name"`) != 3 || strings.Contains(e.stdout, "cursor") {
		t.Errorf("stdout %s, want three destinations in one list", e.stdout)
	}
}

func TestJob(t *testing.T) {
	t.Parallel()
	doc := `{"id":"AaIs","destination":"bank","state":"waiting","outcome":"server_error","priority":5,"created_at":"2026-12-01T09:00:00.000Z","deliver_at":null,
"attempts":[{"number":1,"started_at":"2026-12-01T09:00:01.000Z","duration_ms":21,"outcome":"server_error","http_status":500,"error":"bad\nday","text":"the destination failed"}],
"response":{"http_status":500,"body":"no such account\n"},
"position":3,"waiting_for":"back_off","metadata":{"b":"2","a":"1"}}`
	f := newFakeAPI(t, map[string]http.HandlerFunc{"GET /v1/destinations/bank/jobs/{id}": says(http.StatusOK, doc)})
	e := world{}.run(t.Context(), "job", "bank", "AaIs", "--server", f.URL)
	want := `id           AaIs
destination  bank
state        waiting
outcome      server_error: the destination failed
waits for    back_off
before it    3
priority     5
created      2026-12-01T09:00:00.000Z
metadata     a=1
metadata     b=2
answer       no such account
attempt 1    2026-12-01T09:00:01.000Z server_error 500 in 21 ms: bad day
`
	if e.code != exitDone || e.stdout != want {
		t.Errorf("exit %d, stdout\n%s\nwant\n%s", e.code, e.stdout, want)
	}
	world{}.run(t.Context(), "job", "bank", "../../x y", "-o", "json", "--server", f.URL).want(t, exitDone, doc, "")
	if call := f.seen()[1]; !strings.HasPrefix(call, "GET /v1/destinations/bank/jobs/..%2F..%2Fx%20y ") {
		t.Errorf("call %q, want the id escaped", call)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	done := says(http.StatusOK, `{"destination":"bank","effective_in_ms":120}`)
	f := newFakeAPI(t, map[string]http.HandlerFunc{
		"POST /v1/destinations/bank/pause":  done,
		"POST /v1/destinations/bank/resume": says(http.StatusOK, `{"destination":"bank","effective_in_ms":0}`),
		"DELETE /v1/destinations/bank":      done,
	})
	cases := []struct {
		args   []string
		code   int
		stdout string
		call   string // empty: none
	}{
		{[]string{"pause", "bank", "--reason", "mid <day>"}, exitDone, "bank paused, in effect within 120ms\n", `POST /v1/destinations/bank/pause {"reason":"mid <day>"}`},
		{[]string{"resume", "bank"}, exitDone, "bank resumed\n", "POST /v1/destinations/bank/resume "},
		{[]string{"resume", "bank", "-o", "name"}, exitDone, "bank\n", "POST /v1/destinations/bank/resume "},
		{[]string{"delete", "bank", "--yes"}, exitDone, "bank deleted", "DELETE /v1/destinations/bank "},
		{[]string{"delete", "bank", "--yes", "--cancel-jobs"}, exitDone, "bank deleted", "DELETE /v1/destinations/bank?cancel_jobs=true "},
		{[]string{"delete", "bank", "--yes", "--set", "payments"}, exitDone, "bank deleted", "DELETE /v1/destinations/bank?set=payments "},
		{[]string{"delete", "bank", "--yes", "--set", "P"}, exitUsage, "", ""},
		{[]string{"delete", "bank"}, exitUsage, "", ""},
	}
	for _, c := range cases {
		before := len(f.seen())
		world{}.run(t.Context(), append(c.args, "--server", f.URL)...).want(t, c.code, c.stdout, "")
		calls := f.seen()[before:]
		if got := strings.Join(calls, "|"); got != c.call {
			t.Errorf("%v: called %q, want %q", c.args, got, c.call)
		}
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]string{0: "0ms", 999: "999ms", 1000: "1.0s", 9990: "10.0s", 61_000: "1m1s", 3_660_000: "1h1m", 180_000_000: "2d2h"} {
		if got := span(ms); got != want {
			t.Errorf("span(%d) = %q, want %q", ms, got, want)
		}
	}
}

func TestYAML(t *testing.T) {
	t.Parallel()
	in := `{"b":"x","a":[1,2.5,true,null,"7","true","null","a: b","two\nlines","\ud83d\ude00"],"empty":[],"none":{},"big":12345678901234567890,"nested":{"z":[{"k":"v"}]}}`
	want := `b: x
a:
  - 1
  - 2.5
  - true
  - null
  - "7"
  - "true"
  - "null"
  - 'a: b'
  - |-
    two
    lines
  - "\U0001F600"
empty: []
none: {}
big: 12345678901234567890
nested:
  z:
    - k: v
`
	got, err := toYAML([]byte(in))
	if err != nil || string(got) != want {
		t.Errorf("toYAML: %v\n%s\nwant\n%s", err, got, want)
	}
	for _, bad := range []string{"", "{", "[1,", `{"a"}`} {
		if _, err := toYAML([]byte(bad)); err == nil {
			t.Errorf("toYAML(%q) did not fail", bad)
		}
	}
}
