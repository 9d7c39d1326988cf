package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// many writes n members of an object.
func many(n int, name, value string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + name + strings.Repeat("x", i) + `":` + value)
	}
	return b.String()
}

func TestBadFields(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, doc string
		code      job.Code
		pointers  string
	}{
		{"unknown", `{"bdy":1}`, job.CodeInvalid, "/bdy"},
		{"case", `{"Tenant":"t"}`, job.CodeInvalid, "/Tenant"},
		{"escaped pointer", `{"a/b~c":1}`, job.CodeInvalid, "/a~1b~0c"},
		{"twice", `{"tenant":"a","tenant":"b"}`, job.CodeInvalid, "/tenant"},
		{"callback", `{"callback_url":"https://x.example"}`, job.CodeNotSupported, "/callback_url"},
		{"email", `{"email":{}}`, job.CodeInvalid, "/email"},
		{"method", `{"method":"GE T"}`, job.CodeInvalid, "/method"},
		{"small method", `{"method":"post"}`, job.CodeInvalid, "/method"},
		{"connect", `{"method":"CONNECT"}`, job.CodeInvalid, "/method"},
		{"empty method", `{"method":""}`, job.CodeInvalid, "/method"},
		{"method is a number", `{"method":1}`, job.CodeInvalid, "/method"},
		{"path above", `{"path":"/../x"}`, job.CodeInvalid, "/path"},
		{"path above, escaped", `{"path":"/%2e%2e/x"}`, job.CodeInvalid, "/path"},
		{"other host", `{"path":"//evil.example/x"}`, job.CodeInvalid, "/path"},
		{"long path", `{"path":"/` + strings.Repeat("x", 4096) + `"}`, job.CodeInvalid, "/path"},
		{"headers", `{"headers":[]}`, job.CodeInvalid, "/headers"},
		{"header injection", `{"headers":{"X-A":"a\r\nX-Injected: 1"}}`, job.CodeInvalid, "/headers/X-A"},
		{"header name", `{"headers":{"Bad Name":"a","":"b"}}`, job.CodeInvalid, "/headers/Bad Name /headers/"},
		{"header value", `{"headers":{"X-A":1,"X-B":["a",null]}}`, job.CodeInvalid, "/headers/X-A /headers/X-B/1"},
		{"host", `{"headers":{"Host":"x"}}`, job.CodeInvalid, "/headers/Host"},
		{"hop by hop", `{"headers":{"Connection":"close","TE":"trailers"}}`, job.CodeInvalid, "/headers/Connection /headers/TE"},
		{"ours", `{"headers":{"Idempotency-Key":"x"}}`, job.CodeInvalid, "/headers/Idempotency-Key"},
		{"65 headers", `{"headers":{` + many(65, "X-", `"1"`) + `}}`, job.CodeInvalid, "/headers"},
		{"65 values", `{"headers":{"X-A":["` + strings.Repeat(`1","`, 64) + `1"]}}`, job.CodeInvalid, "/headers/X-A"},
		{"large headers", `{"headers":{"X-A":"` + strings.Repeat("x", 32<<10) + `"}}`, job.CodeInvalid, "/headers"},
		{"two bodies", `{"body":1,"body_text":"x"}`, job.CodeInvalid, "/body_text"},
		{"base64", `{"body_base64":"a-b"}`, job.CodeInvalid, "/body_base64"},
		{"text", `{"body_text":{}}`, job.CodeInvalid, "/body_text"},
		{"half a surrogate pair", `{"body_text":"\ud83d"}`, job.CodeInvalid, "/body_text"},
		{"type without body", `{"content_type":"text/plain"}`, job.CodeInvalid, "/content_type"},
		{"no media type", `{"body":1,"content_type":"text"}`, job.CodeInvalid, "/content_type"},
		{"type twice", `{"body":1,"content_type":"text/plain","headers":{"Content-Type":"text/html"}}`, job.CodeInvalid, "/headers/Content-Type"},
		{"key", `{"idempotency_key":""}`, job.CodeIdempotencyKeyInvalid, ""},
		{"key is a number", `{"idempotency_key":7}`, job.CodeInvalid, "/idempotency_key"},
		{"tenant", `{"tenant":"a\u0000b"}`, job.CodeInvalid, "/tenant"},
		{"long tenant", `{"tenant":"` + strings.Repeat("t", 129) + `"}`, job.CodeInvalid, "/tenant"},
		{"priority above", `{"priority":10}`, job.CodeInvalid, "/priority"},
		{"priority below", `{"priority":-1}`, job.CodeInvalid, "/priority"},
		{"priority is a string", `{"priority":"5"}`, job.CodeInvalid, "/priority"},
		{"priority is no whole number", `{"priority":5.0}`, job.CodeInvalid, "/priority"},
		{"deliver_at without zone", `{"deliver_at":"2026-12-01T09:00:00"}`, job.CodeInvalid, "/deliver_at"},
		{"deliver_at is a number", `{"deliver_at":1800000000}`, job.CodeInvalid, "/deliver_at"},
		{"deliver_at far ahead", `{"deliver_at":"2026-12-01T09:01:00.001Z"}`, job.CodeNotSupported, "/deliver_at"},
		{"delay far ahead", `{"delay":"61s"}`, job.CodeNotSupported, "/delay"},
		{"delay without unit", `{"delay":"10"}`, job.CodeInvalid, "/delay"},
		{"delay is a number", `{"delay":10}`, job.CodeInvalid, "/delay"},
		{"delay below 0", `{"delay":"-5s"}`, job.CodeInvalid, "/delay"},
		{"delay with a space", `{"delay":"5 s"}`, job.CodeInvalid, "/delay"},
		{"both delays", `{"delay":"1s","deliver_at":"2026-12-01T09:00:01Z"}`, job.CodeInvalid, "/delay"},
		{"both expiries", `{"expires_in":"1s","expires_at":"2026-12-01T10:00:01Z"}`, job.CodeInvalid, "/expires_in"},
		{"expires_in of 0", `{"expires_in":"0s"}`, job.CodeInvalid, "/expires_in"},
		{"expires_in overflows", `{"expires_in":"99999999999h"}`, job.CodeInvalid, "/expires_in"},
		{"expires_at", `{"expires_at":"tomorrow"}`, job.CodeInvalid, "/expires_at"},
		{"expires_at in the past", `{"expires_at":"2020-01-01T00:00:00Z"}`, job.CodeInvalid, "/expires_at"},
		{"expires_at before all time", `{"expires_at":"0001-01-01T00:00:00Z"}`, job.CodeInvalid, "/expires_at"},
		{"expires_at far ahead", `{"expires_at":"9999-01-01T00:00:00Z"}`, job.CodeInvalid, "/expires_at"},
		{"expires before delay", `{"delay":"10s","expires_in":"10s"}`, job.CodeInvalid, "/expires_in"},
		{"expires before deliver_at", `{"deliver_at":"2026-12-01T09:00:30Z","expires_at":"2026-12-01T09:00:30Z"}`, job.CodeInvalid, "/expires_at"},
		{"timeout above the contract's", `{"timeout":"11s"}`, job.CodeInvalid, "/timeout"},
		{"timeout of 0", `{"timeout":"0ms"}`, job.CodeInvalid, "/timeout"},
		{"max_attempts above the contract's", `{"max_attempts":9}`, job.CodeInvalid, "/max_attempts"},
		{"max_attempts of 0", `{"max_attempts":0}`, job.CodeInvalid, "/max_attempts"},
		{"metadata", `{"metadata":{"a":1}}`, job.CodeInvalid, "/metadata/a"},
		{"21 metadata", `{"metadata":{` + many(21, "k", `"v"`) + `}}`, job.CodeInvalid, "/metadata"},
		{"long metadata", `{"metadata":{"a":"` + strings.Repeat("v", 512) + `"}}`, job.CodeInvalid, "/metadata/a"},
		{"metadata is a list", `{"metadata":[]}`, job.CodeInvalid, "/metadata"},
		{"all at once", `{"priority":10,"email":{},"delay":"1","x":1}`, job.CodeInvalid, "/priority /email /delay /x"},
		{"only parts not built", `{"callback_url":"https://x.example","delay":"2h"}`, job.CodeNotSupported, "/callback_url /delay"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newFakeStore()
			s.contract.Queue.MaxJobBytes = 64 << 10
			a := newTestAPI(t, s, atNine)
			p := do(a, "POST", bankJobs, strings.NewReader(tc.doc)).problem(t, tc.code)
			if p.pointers() != tc.pointers {
				t.Errorf("pointers %q, want %q: %v", p.pointers(), tc.pointers, p.Errors)
			}
			if len(s.calls) != 0 {
				t.Error("the store was called")
			}
		})
	}
}

// atNine sets the clock of the deliver_at cases.
func atNine(c *Config) {
	c.Now = func() time.Time { return time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC) }
}

func TestBoundsAreAllowed(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{
		`{"tenant":"` + strings.Repeat("t", 128) + `"}`,
		`{"delay":"60s"}`, `{"delay":"0s"}`, `{"deliver_at":"2026-12-01T09:01:00Z"}`,
		`{"timeout":"10s","max_attempts":8}`, `{"timeout":"100ms","max_attempts":1}`,
		`{"headers":{` + many(64, "X-", `"1"`) + `}}`,
		`{"metadata":{` + many(20, "k", `"v"`) + `}}`,
		`{"expires_at":"2020-01-01T00:00:00Z","idempotency_key":"k"}`, `{"expires_at":"0001-01-01T00:00:00Z","idempotency_key":"l"}`,
		`{"tenant":null,"headers":null,"email":null,"delay":null}`,
		`{"body_text":"\ufffd �"}`,
	} {
		a := newTestAPI(t, newFakeStore(), atNine)
		if r := do(a, "POST", bankJobs, strings.NewReader(doc)); r.status != 202 {
			t.Errorf("%s: %d %s", doc, r.status, r.body)
		}
	}
}

func TestKeyOfTheDestination(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[destination.Prefix]string{destination.PrefixNone: "k", destination.PrefixProducer: ""} {
		s := newFakeStore()
		s.contract.Idempotency.Prefix = prefix
		a := newTestAPI(t, s)
		do(a, "POST", bankJobs, strings.NewReader(`{}`), "Idempotency-Key", "k")
		do(a, "POST", bankJobs+"/batch", strings.NewReader(`{"jobs":[{"idempotency_key":"k","body":1},{"idempotency_key":"k2"}]}`))
		if s.jobs[0].DownstreamKey != want || s.jobs[1].DownstreamKey != want+strings.Repeat("2", len(want)) {
			t.Errorf("%s: %q, %q", prefix, s.jobs[0].DownstreamKey, s.jobs[1].DownstreamKey)
		}
	}
}

func FuzzParseJob(f *testing.F) {
	f.Add([]byte(`{"method":"PUT","path":"/p","headers":{"A":["b"]},"body":{"a":1},"metadata":{"a":"b"},"delay":"1s"}`))
	f.Add([]byte(`{"body":[1,{"a":null}],"body_text":"\ud800","tenant":"\u0000"}`))
	contract := testContract()
	f.Fuzz(func(t *testing.T, doc []byte) {
		if checkJSON(doc) != nil {
			return
		}
		j, err := parseJob(doc, "p", contract, time.Unix(1e9, 0))
		if err != nil {
			if c := job.CodeOf(err); c == job.CodeInternal {
				t.Fatalf("%v", err)
			}
			return
		}
		var given struct {
			Body json.RawMessage `json:"body"`
		}
		if list, _ := members(doc); json.Unmarshal(doc, &given) == nil && has(list, "body") && !isNull(given.Body) && string(given.Body) != string(j.Request.Body) {
			t.Fatalf("body %q became %q", given.Body, j.Request.Body)
		}
	})
}

func has(list []member, name string) bool {
	for _, m := range list {
		if m.name == name {
			return true
		}
	}
	return false
}
