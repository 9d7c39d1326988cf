package destination

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"tundish/internal/job"
)

const plainBank = `{"target":{"http":{"url":"https://bank.example/v1"}},"limits":[{"rate":50,"per":"1s"}]}`

// with puts a value at a path ("queue.capacity") of the plain contract; an
// empty value takes the field away.
func with(t testing.TB, path, valueJSON string) []byte {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(plainBank), &doc); err != nil {
		t.Fatal(err)
	}
	set(doc, strings.Split(path, "."), json.RawMessage(valueJSON))
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatalf("%s: %v", valueJSON, err)
	}
	return out
}

func set(at any, path []string, v json.RawMessage) {
	if l, ok := at.([]any); ok {
		at = l[0]
		path = path[1:]
	}
	m := at.(map[string]any)
	switch {
	case len(path) > 1:
		if m[path[0]] == nil {
			m[path[0]] = map[string]any{}
		}
		set(m[path[0]], path[1:], v)
	case len(v) == 0:
		delete(m, path[0])
	default:
		m[path[0]] = v
	}
}

func fields(err error) []job.FieldError {
	if e, ok := errors.AsType[*job.Error](err); ok {
		return e.Fields
	}
	return nil
}

func mustParse(t testing.TB, doc []byte) *Contract {
	t.Helper()
	c, _, err := ParseContract("bank", doc)
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got := mustParse(t, []byte(plainBank))
	want := &Contract{
		Name:        "bank",
		Target:      HTTPTarget{URL: "https://bank.example/v1", Method: "POST", Timeout: 10 * time.Second},
		Limits:      []Limit{{Name: "leaky_bucket", Algorithm: LeakyBucket, Rate: 50, Per: time.Second, Burst: 1}},
		Guard:       0.005,
		MaxInFlight: 100,
		Queue: Queue{Capacity: 10000, MaxBytes: 256 << 20, MaxJobBytes: 256 << 10, MaxHistoryBytes: 1 << 30,
			Aging: 10 * time.Second, WhenPaused: Accept},
		Delivery:    AtLeastOnce,
		Durability:  Memory,
		Idempotency: Idempotency{Header: "Idempotency-Key", Prefix: PrefixProducer},
		Retry: Retry{MaxAttempts: 8, MaxAge: 24 * time.Hour, MinBackoff: time.Second, MaxBackoff: 10 * time.Minute,
			MaxRetryAfter: time.Hour, MaxThrottled: 20},
		Adaptive:  Adaptive{Floor: 5},
		Breaker:   Breaker{Failures: 10, OpenFor: 10 * time.Second, MaxOpenFor: 5 * time.Minute},
		Retention: Retention{Finished: time.Hour, Dead: 720 * time.Hour, DeadMax: 10000, Idempotency: 24 * time.Hour},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestEveryField(t *testing.T) {
	t.Parallel()
	doc := `{"name":"bank","class":"slow","labels":{"team":"pay"},"x-note":"line\nbreak",
	"target":{"http":{"url":"HTTP://bank.example:8080/a%2Fb/","method":"PUT","headers":{"X-B":"2","Accept":["a","b"]},"timeout":"5s","http2":false}},
	"limits":[{"rate":0.5,"per":"1s"},{"name":"hour","algorithm":"token_bucket","rate":1000,"per":"1h","burst":7,"mode":"enforce","on_state_loss":"assume_used"},
	          {"rate":10,"per":"1m"}],
	"guard":"1%","max_in_flight":7,
	"queue":{"capacity":5,"max_bytes":"1MiB","max_job_bytes":"2KiB","max_history_bytes":"3MiB","aging":"0s","when_paused":"refuse"},
	"tenants":{"share":"50%","weights":{"m-17":2.5}},"delivery":"at_most_once","durability":"replica","adaptive":{"enabled":true,"floor":0.25},"learn_limits":true,"verify":{"path":"/jobs/{key}?id={id}"},
	"idempotency":{"header":"X-Request-Id","prefix":"none"},
	"retry":{"max_attempts":3,"max_age":"1h","min_backoff":"2s","max_backoff":"3s","max_retry_after":"1m","max_throttled":7},
	"breaker":{"failures":3,"open_for":"2s","max_open_for":"3s"},
	"retention":{"finished":"2h","dead":"3d","dead_max":4,"idempotency":"5h"},"paused":true}`
	want := &Contract{
		Name: "bank", Class: "slow", Labels: map[string]string{"team": "pay"},
		Target: HTTPTarget{URL: "http://bank.example:8080/a%2Fb/", Method: "PUT", Timeout: 5 * time.Second,
			Headers: []Header{{"Accept", "a"}, {"Accept", "b"}, {"X-B", "2"}}},
		Limits: []Limit{
			{Name: "leaky_bucket", Algorithm: LeakyBucket, Rate: 1, Per: 2 * time.Second, Burst: 1},
			{Name: "hour", Algorithm: TokenBucket, Rate: 1000, Per: time.Hour, Burst: 7},
			{Name: "leaky_bucket-2", Algorithm: LeakyBucket, Rate: 10, Per: time.Minute, Burst: 1},
		},
		Guard: 0.01, MaxInFlight: 7,
		Queue:       Queue{Capacity: 5, MaxBytes: 1 << 20, MaxJobBytes: 2 << 10, MaxHistoryBytes: 3 << 20, WhenPaused: Refuse},
		Tenants:     Tenants{Share: 0.5, Weights: map[string]float64{"m-17": 2.5}},
		Delivery:    AtMostOnce,
		Durability:  Replica,
		Idempotency: Idempotency{Header: "X-Request-Id", Prefix: PrefixNone},
		Retry: Retry{MaxAttempts: 3, MaxAge: time.Hour, MinBackoff: 2 * time.Second, MaxBackoff: 3 * time.Second,
			MaxRetryAfter: time.Minute, MaxThrottled: 7},
		Adaptive: Adaptive{Enabled: true, Floor: 0.25}, LearnLimits: true, Verify: "/jobs/{key}?id={id}",
		Breaker:   Breaker{Failures: 3, OpenFor: 2 * time.Second, MaxOpenFor: 3 * time.Second},
		Retention: Retention{Finished: 2 * time.Hour, Dead: 72 * time.Hour, DeadMax: 4, Idempotency: 5 * time.Hour},
		Paused:    true,
	}
	got := mustParse(t, []byte(doc))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	checkRoundTrip(t, "bank", []byte(doc))
}

// checkRoundTrip reads doc and checks that what is written of it, as written
// and as filled in, means the same. It says whether doc was accepted.
func checkRoundTrip(t testing.TB, name string, doc []byte) bool {
	t.Helper()
	c, written, err := ParseContract(name, doc)
	if err != nil {
		return false
	}
	again, rewritten, err := ParseContract(name, written)
	if err != nil || !reflect.DeepEqual(c, again) {
		t.Fatalf("%s\nwas written as %s\nand read as %+v, %v\nwant %+v", doc, written, again, err, c)
	}
	if string(rewritten) != string(written) {
		t.Fatalf("not canonical:\n%s\n%s", written, rewritten)
	}
	filled, err := json.Marshal(Effective(c))
	if err != nil {
		t.Fatal(err)
	}
	if len(filled) > maxContractBytes {
		return true
	}
	if again, _, err = ParseContract(name, filled); err != nil || !reflect.DeepEqual(c, again) {
		t.Fatalf("%s\nis filled in as %s\nand read as %+v, %v\nwant %+v", doc, filled, again, err, c)
	}
	return true
}

func TestWrittenIsWhatWasGiven(t *testing.T) {
	t.Parallel()
	if _, _, err := ParseContract("bank", []byte(`{"limits":[{"per":"1s","rate":5e1}],"target":{"http":{"url":"http://a/<&>"}},"paused":null}`)); err == nil {
		t.Fatal("a URL with < passes")
	}
	_, written, err := ParseContract("bank", []byte(`{"limits":[{"per":"1s","rate":5e1}],"x-a":"<&>","target":{"http":{"url":"http://a/&"}},"paused":null}`))
	const want = `{"limits":[{"per":"1s","rate":50}],"name":"bank","target":{"http":{"url":"http://a/&"}},"x-a":"<&>"}`
	if err != nil || string(written) != want {
		t.Errorf("written %s, %v\nwant    %s", written, err, want)
	}
}

func TestBadFields(t *testing.T) {
	t.Parallel()
	duration := []string{`600`, `"600"`, `"0"`, `"-5s"`, `"99999999999h"`, `"5 s"`, `"abc"`, `""`, `true`, `[]`, `{}`, `"1.5s"`}
	size := []string{`100`, `"100"`, `"1KB"`, `"-1KiB"`, `"99999999999GiB"`, `""`, `false`, `["1KiB"]`, `{}`}
	whole := []string{`-1`, `1.5`, `1e300`, `"5"`, `""`, `true`, `[1]`, `{}`, `9223372036854775808`}
	share := []string{`0.5`, `"0.5"`, `"-1%"`, `"100.1%"`, `"1e1%"`, `""`, `true`, `[]`, `{}`}
	flag := []string{`1`, `"true"`, `"yes"`, `[]`, `{}`}
	texts := []string{`1`, `true`, `""`, `[]`, `{}`, `"a\nb"`, `"a\u0000"`}
	object := []string{`1`, `"a"`, `true`, `[]`, `[{}]`}
	table := map[string][]string{
		"target":                  append(object, ``),
		"target.http":             append(object, ``),
		"target.http.url":         append(texts, ``),
		"target.http.method":      append(texts, `"post"`, `"GE T"`, `"CONNECT"`, `"G\r\nT"`, `"`+strings.Repeat("A", 33)+`"`),
		"target.http.headers":     object,
		"target.http.timeout":     append(duration, `"99ms"`, `"601s"`),
		"limits":                  {`1`, `"a"`, `{}`, `[]`, `[1]`, `[null]`, `[[]]`, ``},
		"limits.0.name":           append(texts, `"A"`, `"a b"`),
		"limits.0.algorithm":      append(texts, `"leaky"`),
		"limits.0.rate":           {`-1`, `0`, `"50"`, `true`, `[]`, `{}`, `50001`, `1e300`, `0.3333`, `0.0001`, `1e-300`, `12345678901234567890`, ``},
		"limits.0.per":            append(duration, `"9ms"`, `"367d"`, `"20ms"`, ``),
		"limits.0.burst":          append(whole, `1`),
		"guard":                   append(share, `"10.1%"`),
		"max_in_flight":           append(whole, `0`, `100001`),
		"queue":                   object,
		"queue.capacity":          append(whole, `0`, `10000001`),
		"queue.max_bytes":         append(size, `"1KiB"`, `"1025GiB"`),
		"queue.max_job_bytes":     append(size, `"1B"`, `"17MiB"`),
		"queue.aging":             append(duration, `"25h"`),
		"queue.when_paused":       append(texts, `"drop"`),
		"tenants":                 object,
		"tenants.share":           append(share, `"100%"`),
		"tenants.weights":         append(object, `{"a":0}`, `{"a":-1}`, `{"a":"2"}`, `{"":1}`, `{"a\u0001":1}`, `{"x-\u0001":1}`, `{"a":1001}`),
		"labels":                  append(object, `{"a":1}`, `{"a b":"c"}`, `{"a":"b\n"}`, `{"x-a":"b\n"}`, `{"":"a"}`),
		"idempotency":             object,
		"idempotency.header":      append(texts, `"a b"`, `"Host"`, `"Content-Type"`, `"traceparent"`, `"Tundish-Job-Id"`, `"X\r\nY"`),
		"idempotency.prefix":      append(texts, `"tenant"`),
		"retry":                   object,
		"retry.max_attempts":      append(whole, `0`, `1001`),
		"retry.max_age":           append(duration, `"999ms"`, `"367d"`),
		"retry.min_backoff":       append(duration, `"9ms"`, `"25h"`),
		"retry.max_backoff":       append(duration, `"9ms"`, `"31d"`),
		"retention":               object,
		"retention.finished":      append(duration, `"367d"`),
		"retention.dead":          append(duration, `"59s"`, `"367d"`),
		"retention.dead_max":      append(whole, `0`, `10000001`),
		"retention.idempotency":   append(duration, `"367d"`),
		"queue.max_history_bytes": append(size, `"1KiB"`, `"1025GiB"`),
		"paused":                  flag,
		"adaptive":                object,
		"name":                    append(texts, `"Bank"`, `"other"`),
		"class":                   append(texts, `"A"`),
		"quue":                    {`{}`},
		"queue.capasity":          {`1`},
		"limits.0.window":         {`"1s"`},
		"target.http.uri":         {`"http://a"`},
	}
	for path, values := range table {
		want := "/" + strings.ReplaceAll(path, ".", "/")
		for _, v := range values {
			_, _, err := ParseContract("bank", with(t, path, v))
			if job.CodeOf(err) != job.CodeInvalid {
				t.Errorf("%s: %s gives %v", path, v, err)
				continue
			}
			for _, f := range fields(err) {
				if !strings.HasPrefix(f.Pointer, want) || f.Code != job.CodeInvalid || f.Line != 0 {
					t.Errorf("%s: %s gives %+v, want only problems at %s", path, v, f, want)
				}
			}
		}
	}
}

func TestDetailsNameTheRange(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ path, value, want string }{
		{"limits.0.rate", `-1`, "rate: -1 is not allowed; give a number above 0, at most 50000 per second"},
		{"limits.0.rate", `0`, "rate: 0 is not allowed; give a number above 0, at most 50000 per second; to send nothing use paused: true"},
		{"limits.0.rate", `60000`, "rate: 60000 per 1s is not allowed; give a number above 0, at most 50000 per second"},
		{"limits.0.burst", `2`, "burst: only algorithm: token_bucket has a burst"},
		{"limits.0.algoritm", `"leaky_bucket"`, "algoritm: no such field; did you mean algorithm?"},
		{"target.http.timeout", `10`, "timeout: 10 is not allowed; give one whole number and a unit (ms, s, m, h, d) from 100ms to 10m"},
		{"queue.max_job_bytes", `"1GiB"`, `max_job_bytes: "1GiB" is not allowed; give one whole number and a unit (B, KiB, MiB, GiB) from 1KiB to 4MiB`},
		{"guard", `"11%"`, `guard: "11%" is not allowed; give a percentage with at most four decimals from 0% to 10%`},
		{"maxInFlight", `1`, "maxInFlight: no such field; did you mean max_in_flight?"},
		{"queue.when_paused", `"drop"`, `when_paused: "drop" is not allowed; give accept or refuse`},
		{"target.http.url", ``, "url: is missing; give an absolute http or https URL, such as https://api.example/v1"},
		{"limits.0.per", `"20ms"`, "per: a window of 20ms needs a guard of 25%, and at most 10% is allowed; give at least 50ms (50 per 1s instead of 1 per 20ms)"},
	} {
		_, _, err := ParseContract("bank", with(t, test.path, test.value))
		got := fields(err)
		if len(got) != 1 || got[0].Detail != test.want {
			t.Errorf("%s: %s gives %v\nwant %s", test.path, test.value, err, test.want)
		}
	}
}

func TestRelations(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ doc, pointer, want string }{
		{`"retry":{"min_backoff":"20m"}`, "/retry/min_backoff", "retry.min_backoff (20m) must not be above retry.max_backoff (10m by default)"},
		{`"retry":{"min_backoff":"20s","max_backoff":"10s"}`, "/retry/min_backoff", "retry.min_backoff (20s) must not be above retry.max_backoff (10s)"},
		{`"retry":{"max_age":"5s"}`, "/retry/max_age", "target.http.timeout (10s by default) must not be above retry.max_age (5s)"},
		{`"verify":{"path":"/a/{id}"}`, "/verify", "verify: is for http destinations with delivery: at_most_once; others send again"},
		{`"verify":{"path":"/a"}`, "/verify/path", "path: \"/a\" is not allowed; give a path below the target's URL that names the job, such as /payouts/{key} or /find?id={id}"},
		{`"verify":{"path":"a/{key}"}`, "/verify/path", "path: \"a/{key}\" is not allowed; give a path below the target's URL that names the job, such as /payouts/{key} or /find?id={id}"},
		{`"adaptive":{"enabled":true,"floor":51}`, "/adaptive/floor", "floor: 51 is not allowed; give a number from 0.001 to 50, the rate of the limit that sets the pace, in its own unit"},
		{`"breaker":{"open_for":"10m"}`, "/breaker/open_for", "breaker.open_for (10m) must not be above breaker.max_open_for (5m by default)"},
		{`"delivery":"at_most_once"`, "/delivery", "delivery: at_most_once needs durability: replica or aof; with memory Redis may forget that a job was sent"},
		{`"queue":{"max_bytes":"128KiB"}`, "/queue/max_bytes", "queue.max_job_bytes (256KiB by default) must not be above queue.max_bytes (128KiB)"},
	} {
		doc := strings.TrimSuffix(plainBank, "}") + "," + test.doc + "}"
		_, _, err := ParseContract("bank", []byte(doc))
		got := fields(err)
		if len(got) != 1 || got[0].Pointer != test.pointer || got[0].Detail != test.want {
			t.Errorf("%s gives %v\nwant %s: %s", test.doc, err, test.pointer, test.want)
		}
	}
}

func TestNotBuilt(t *testing.T) {
	t.Parallel()
	for path, values := range map[string][]string{
		"limits.0.algorithm":     {`"fixed_window"`, `"sliding_window_log"`, `"sliding_window_counter"`},
		"limits.0.mode":          {`"shadow"`},
		"limits.0.on_state_loss": {`"hold"`},
		"limits.0.share":         {`{"eu":20}`},
		"limits.0.every":         {`"day"`},
		"limits.0.time_zone":     {`"Asia/Kolkata"`},
		"slots":                  {`{}`},
		"callback":               {`{}`},
		"queue.scheduled":        {`10000`},
	} {
		for _, v := range values {
			_, _, err := ParseContract("bank", with(t, path, v))
			got := fields(err)
			if job.CodeOf(err) != job.CodeNotSupported || len(got) != 1 || got[0].Code != job.CodeNotSupported {
				t.Errorf("%s: %s gives %v", path, v, err)
				continue
			}
			name := path[strings.LastIndex(path, ".")+1:]
			if got[0].Pointer != "/"+strings.ReplaceAll(path, ".", "/") || !strings.HasPrefix(got[0].Detail, name+": ") {
				t.Errorf("%s: %s gives %+v", path, v, got[0])
			}
		}
	}
	day := []byte(`{"target":{"http":{"url":"http://a"}},"limits":[{"algorithm":"fixed_window","rate":1,"every":"day"}]}`)
	if _, _, err := ParseContract("bank", day); job.CodeOf(err) != job.CodeNotSupported {
		t.Errorf("a calendar window gives %v", err)
	}
}

func TestMixedProblemsAreInvalid(t *testing.T) {
	t.Parallel()
	_, _, err := ParseContract("bank", []byte(`{"callback":{},"target":{"http":{"url":"ftp://a"}},"limits":[{"rate":1,"per":"1s"},{"rate":"x","per":5}],"ponies":1}`))
	var got []string
	for _, f := range fields(err) {
		got = append(got, fmt.Sprint(f.Pointer, " ", f.Code))
	}
	want := []string{"/callback not_supported", "/limits/1/per invalid", "/limits/1/rate invalid", "/ponies invalid", "/target/http/url invalid"}
	if job.CodeOf(err) != job.CodeInvalid || !reflect.DeepEqual(got, want) {
		t.Errorf("%v gives %v, want %v", err, got, want)
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]job.Code{
		"":                       job.CodeMalformed,
		"{":                      job.CodeMalformed,
		plainBank + "x":          job.CodeMalformed,
		plainBank + plainBank:    job.CodeMalformed,
		`{"a":NaN}`:              job.CodeMalformed,
		"{\"a\":\"\xff\"}":       job.CodeMalformed,
		strings.Repeat("[", 100): job.CodeMalformed,
		`{"x-a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}": job.CodeMalformed,
		strings.Repeat(" ", 300<<10):                                        job.CodeTooLarge,
		"null":                                                              job.CodeInvalid,
		"[]":                                                                job.CodeInvalid,
		`"a"`:                                                               job.CodeInvalid,
		`{"paused":false,"paused":false}`:                                   job.CodeInvalid,
		`{"x-a":1e999}`:                                                     job.CodeInvalid,
	} {
		if _, _, err := ParseContract("bank", []byte(doc)); job.CodeOf(err) != want {
			t.Errorf("%.40q gives %v, want %s", doc, err, want)
		}
	}
	if _, _, err := ParseContract("Bank!", []byte(plainBank)); job.CodeOf(err) != job.CodeInvalid {
		t.Errorf("a bad name gives %v", err)
	}
}

func TestBodyHasNoClass(t *testing.T) {
	t.Parallel()
	if _, _, _, err := ParseBody("bank", with(t, "class", `"slow"`)); job.CodeOf(err) != job.CodeNotSupported {
		t.Errorf("a class gives %v", err)
	}
	if _, _, _, err := ParseBody("bank", []byte(plainBank)); err != nil {
		t.Error(err)
	}
}

func FuzzParseContract(f *testing.F) {
	f.Add([]byte(plainBank))
	f.Add([]byte(`{"limits":[{"rate":0.125,"per":"60ms"},{"algorithm":"token_bucket","rate":7,"per":"11m","burst":3}],"target":{"http":{"url":"HTTP://[::1]:80/%41?","headers":{"A":["b"]}}},"guard":"9.1%"}`))
	f.Add([]byte(`{"name":"bank","class":"a","labels":{"é":"\ud800"},"x-a":[null,-0,1e-7],"tenants":{"weights":{"é":1.5}}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		checkRoundTrip(t, "bank", doc)
	})
}
