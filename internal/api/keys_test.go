package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"tundish/internal/job"
	"tundish/internal/queue"
)

func sumOf(key string) string {
	s := sha256.Sum256([]byte(key))
	return hex.EncodeToString(s[:])
}

// testKeys are one producer of each kind; the key is the producer's name.
func testKeys(t *testing.T) func(*Config) {
	t.Helper()
	doc := "producers:\n"
	for _, p := range []struct{ name, scopes, patterns string }{
		{"pusher", "enqueue", `"bank"`}, {"reader", "read", `"ba*"`}, {"operator", "operate", `"*"`},
		{"manager", "manage", `"*"`}, {"support", "payload", `"*"`}, {"mailer", "enqueue, read, operate, manage", `"mail-*"`},
	} {
		doc += fmt.Sprintf("- {name: %s, scopes: [%s], destinations: [%s], keys: [{sha256: %s}, {sha256: %s, expires_at: 2020-01-01T00:00:00Z}]}\n",
			p.name, p.scopes, p.patterns, sumOf(p.name), sumOf("old-"+p.name))
	}
	keys, err := ParseKeys([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Keys = keys }
}

// Of two different keys none counts; the same one twice is one.
func TestDifferentKeysAreRefused(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore(), testKeys(t))
	for _, tc := range []struct {
		authorization []string
		key           string
		ok            bool
	}{
		{[]string{"Bearer pusher"}, "pusher", true},
		{[]string{"Bearer pusher"}, "", true},
		{[]string{"Digest x"}, "pusher", true},
		{[]string{"Bearer pusher"}, "mailer", false},
		{[]string{"Bearer mailer"}, "pusher", false},
		{[]string{"Basic cHVzaGVyOg=="}, "mailer", false},
		{[]string{"Bearer pusher", "Bearer mailer"}, "", false},
	} {
		r := newRequest("POST", bankJobs, strings.NewReader(`{}`))
		r.Header["Authorization"] = tc.authorization
		r.Header.Set("Tundish-Key", tc.key)
		got := send(a, r)
		if tc.ok && got.status != 202 {
			t.Errorf("%+v: %d %s", tc, got.status, got.body)
		}
		if !tc.ok {
			if p := got.problem(t, job.CodeUnauthenticated); !strings.Contains(p.Detail, "different keys") {
				t.Errorf("%+v: %s", tc, p.Detail)
			}
		}
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	s.status = &queue.Status{ID: job.NewID(), State: job.Ready, Producer: "pusher"}
	others := job.NewID()
	a := newTestAPI(t, s, testKeys(t))
	own := bankJobs + "/" + string(s.status.ID)
	tests := []struct {
		key, method, path, body string
		want                    int
	}{
		{"", "POST", bankJobs, `{}`, 401},
		{"nobody", "POST", bankJobs, `{}`, 401},
		{"old-pusher", "POST", bankJobs, `{}`, 401},
		{"pusher", "POST", bankJobs, `{}`, 202},
		{"pusher", "POST", bankBatch, `{"jobs":[{}]}`, 200},
		{"pusher", "GET", own, ``, 200},
		{"pusher", "GET", bankJobs + "/" + string(others), ``, 404},
		{"pusher", "GET", "/v1/destinations/bank", ``, 403},
		{"pusher", "POST", "/v1/destinations/bank/pause", ``, 403},
		{"pusher", "GET", bankJobs, ``, 200},
		{"pusher", "POST", own + "/cancel", ``, 200},
		{"pusher", "POST", bankJobs + "/" + string(others) + "/cancel", ``, 404},
		{"pusher", "POST", own + "/redrive", ``, 403},
		{"pusher", "DELETE", own, ``, 403},
		{"pusher", "GET", own + "/payload", ``, 403},
		{"pusher", "GET", "/v1/operations", ``, 403},
		{"support", "GET", own + "/payload", ``, 404}, // the fake keeps none
		{"support", "GET", own, ``, 403},
		{"reader", "GET", bankJobs, ``, 200},
		{"reader", "GET", own + "/payload", ``, 403},
		{"reader", "POST", own + "/cancel", ``, 403},
		{"reader", "GET", "/v1/operations", ``, 200},
		{"reader", "POST", "/v1/destinations/bank/redrive", ``, 403},
		{"operator", "POST", own + "/cancel", ``, 200},
		{"operator", "POST", own + "/redrive", ``, 200},
		{"operator", "POST", own + "/resolve", `{"verdict":"retry"}`, 200},
		{"operator", "DELETE", own, ``, 200},
		{"operator", "POST", "/v1/destinations/bank/redrive", ``, 202},
		{"operator", "POST", "/v1/destinations/bank/purge", `{"states":["dead"],"confirm":"bank"}`, 202},
		{"operator", "GET", "/v1/operations/op-1", ``, 200},
		{"operator", "POST", "/v1/operations/op-1/cancel", ``, 200},
		{"mailer", "GET", "/v1/operations/op-1", ``, 404},
		{"mailer", "POST", "/v1/operations/op-1/cancel", ``, 404},
		{"mailer", "GET", bankJobs, ``, 404},
		{"reader", "POST", bankJobs, `{}`, 403},
		{"reader", "GET", own, ``, 200},
		{"reader", "GET", "/v1/destinations/bank", ``, 200},
		{"reader", "PUT", "/v1/destinations/bank", bankContract, 403},
		{"operator", "POST", "/v1/destinations/bank/pause", ``, 200},
		{"operator", "POST", "/v1/destinations/bank/resume", ``, 200},
		{"operator", "DELETE", "/v1/destinations/bank", ``, 403},
		{"manager", "PUT", "/v1/destinations/bank", bankContract, 200},
		{"manager", "DELETE", "/v1/destinations/bank", ``, 200},
		{"manager", "GET", "/v1/destinations", ``, 403},
		{"mailer", "POST", bankJobs, `{}`, 404},
		{"mailer", "GET", "/v1/destinations/bank", ``, 404},
		{"mailer", "DELETE", "/v1/destinations/bank", ``, 404},
		{"", "GET", "/openapi.json", ``, 200},
	}
	for _, tc := range tests {
		t.Run(tc.key+" "+tc.method+" "+tc.path[len("/"):], func(t *testing.T) {
			headers := []string{}
			if tc.key != "" {
				headers = []string{"Authorization", "Bearer " + tc.key}
			}
			r := do(a, tc.method, tc.path, strings.NewReader(tc.body), headers...)
			if r.status != tc.want {
				t.Fatalf("%d %s, want %d", r.status, r.body, tc.want)
			}
			switch tc.want {
			case 401:
				r.problem(t, job.CodeUnauthenticated)
				if !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer") {
					t.Errorf("WWW-Authenticate %q", r.header.Get("WWW-Authenticate"))
				}
			case 403:
				if p := r.problem(t, job.CodeForbidden); !strings.Contains(p.Detail, "scope") {
					t.Errorf("the scope is not named: %q", p.Detail)
				}
			}
		})
	}
	if s.jobs[0].Producer != "pusher" {
		t.Errorf("the job's producer is %q", s.jobs[0].Producer)
	}
}

func TestJobsOfOthersDoNotExist(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	s.status = &queue.Status{ID: job.NewID(), State: job.Ready, Producer: "mailer"}
	a := newTestAPI(t, s, testKeys(t))
	path := bankJobs + "/" + string(s.status.ID)
	do(a, "GET", path, nil, "Tundish-Key", "pusher").problem(t, job.CodeJobNotFound)
	if r := do(a, "GET", path, nil, "Tundish-Key", "reader"); r.status != 200 {
		t.Errorf("%d", r.status)
	}
}

func TestListShowsOnlyWhatTheKeySees(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore(), testKeys(t))
	for key, want := range map[string]int{"reader": 1, "mailer": 0} {
		var out struct {
			Destinations []destinationView `json:"destinations"`
		}
		do(a, "GET", "/v1/destinations", nil, "Tundish-Key", key).into(t, &out)
		if len(out.Destinations) != want {
			t.Errorf("%s sees %d destinations", key, len(out.Destinations))
		}
	}
}

func TestWaysToSendAKey(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore(), testKeys(t))
	for name, value := range map[string]string{
		"Authorization": "bearer  pusher", "authorization": "Basic cHVzaGVyOg==", "Tundish-Key": "pusher",
	} {
		if r := do(a, "POST", bankJobs, strings.NewReader(`{}`), name, value); r.status != 202 {
			t.Errorf("%s: %s: %d", name, value, r.status)
		}
	}
}

func TestBadKeysFiles(t *testing.T) {
	t.Parallel()
	sum := sumOf("x")
	tests := []struct{ name, doc, want string }{
		{"empty", ``, "/producers: "},
		{"unknown field", "producers: []\nx: 1", "field x not found"},
		{"limits", `producers: [{name: a, keys: [{sha256: ` + sum + `}], scopes: [read], destinations: ["*"], limits: [{rate: 1}]}]`, "not_supported"},
		{"all at once", `producers: [{name: "a:b", keys: [{sha256: zz}], scopes: [root], destinations: ["A"]}]`, "/producers/0/destinations/0"},
		{"no keys", `producers: [{name: a, scopes: [read], destinations: ["*"]}]`, "/producers/0/keys: "},
		{"same name", `producers: [{name: a, keys: [{sha256: ` + sum + `}], scopes: [read], destinations: ["*"]}, {name: a, scopes: [read], destinations: ["*"]}]`, "/producers/1/name: "},
		{"same key", `producers: [{name: a, keys: [{sha256: ` + sum + `}, {sha256: ` + sum + `}], scopes: [read], destinations: ["*"]}]`, "/producers/0/keys/1/sha256: "},
		{"time", `producers: [{name: a, keys: [{sha256: ` + sum + `, expires_at: tomorrow}], scopes: [read], destinations: ["*"]}]`, "/producers/0/keys/0/expires_at: "},
	}
	for _, tc := range tests {
		_, err := ParseKeys([]byte(tc.doc))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestKeysExpire(t *testing.T) {
	t.Parallel()
	k, err := ParseKeys([]byte(`producers: [{name: a, keys: [{sha256: ` + sumOf("x") + `, expires_at: 2026-12-01T09:00:00Z}], scopes: [read], destinations: ["*"]}]`))
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]bool{end.Add(-1): true, end: false} {
		k.now = func() time.Time { return at }
		if got := k.find("x") != nil; got != want {
			t.Errorf("at %s: %v", at, got)
		}
	}
}

func TestGenerateKey(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^tnd_[0-9A-Za-z]{49}$`)
	seen := map[string]bool{}
	for range 100 {
		key, sum := GenerateKey()
		if !form.MatchString(key) || sum != sumOf(key) || seen[key] {
			t.Fatalf("%q %q", key, sum)
		}
		seen[key] = true
	}
}

func TestKeysAreReplaced(t *testing.T) {
	t.Parallel()
	parse := func(key string) *Keys {
		k, err := ParseKeys([]byte(`producers: [{name: a, keys: [{sha256: ` + sumOf(key) + `}], scopes: [enqueue], destinations: ["*"]}]`))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	keys := parse("old")
	a := newTestAPI(t, newFakeStore(), func(c *Config) { c.Keys = keys })
	want := func(old, fresh int) {
		t.Helper()
		for key, want := range map[string]int{"old": old, "new": fresh} {
			if r := do(a, "POST", bankJobs, strings.NewReader(`{}`), "Tundish-Key", key); r.status != want {
				t.Errorf("%s: %d, want %d", key, r.status, want)
			}
		}
	}
	want(202, 401)
	keys.Replace(parse("new"))
	want(401, 202)
}

// Wrong types do not hide the other problems, and what may be a key is not repeated.
func TestKeysFileTellsAllAndNoSecret(t *testing.T) {
	t.Parallel()
	_, err := ParseKeys([]byte("producers: [{name: a, keys: [tnd_S3CR3T], scopes: [root], destinations: [A], colour: 1}]\n"))
	for _, want := range []string{"cannot unmarshal", "field colour not found", "/producers/0/scopes/0", "/producers/0/destinations/0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	if strings.Contains(fmt.Sprint(err), "tnd_") {
		t.Errorf("a key is repeated: %v", err)
	}
	for _, doc := range []string{"producers: [", "producers: [{name: a, keys: [{sha256: `tnd_S3CR3T`}]}]"} {
		if _, err := ParseKeys([]byte(doc)); job.CodeOf(err) != job.CodeMalformed || strings.Contains(err.Error(), "tnd_") {
			t.Errorf("%s: %v", doc, err)
		}
	}
	if _, err := ParseKeys(make([]byte, maxKeysBytes+1)); job.CodeOf(err) != job.CodeTooLarge {
		t.Errorf("too large: %v", err)
	}
}
