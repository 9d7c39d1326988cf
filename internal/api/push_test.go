package api

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"tundish/internal/job"
	"tundish/internal/queue"
)

const bankJobs = "/v1/destinations/bank/jobs"

func TestPushAnswersWhatWasTaken(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	a := newTestAPI(t, s)
	r := do(a, "POST", bankJobs, strings.NewReader(`{"body":{"a":1},"tenant":"t1"}`), "Idempotency-Key", `"order-77"`)
	if r.status != http.StatusAccepted {
		t.Fatalf("%d %s", r.status, r.body)
	}
	var got accepted
	r.into(t, &got)
	j := s.jobs[0]
	if got.ID != j.ID || got.Destination != "bank" || got.State != job.Ready || got.Replayed || got.Depth != 1 || got.Capacity != 100 {
		t.Errorf("%+v", got)
	}
	if got.EstimatedSendAt == nil || *got.EstimatedSendAt != "2026-12-01T09:00:00.005Z" {
		t.Errorf("estimated_send_at %v", got.EstimatedSendAt)
	}
	if got.StatusURL != bankJobs+"/"+string(j.ID) || r.header.Get("Location") != got.StatusURL || r.header.Get("Tundish-Job-Id") != string(j.ID) {
		t.Errorf("status_url %q, headers %v", got.StatusURL, r.header)
	}
	if r.header.Get("Idempotent-Replayed") != "" {
		t.Error("a first push is called a replay")
	}
	if j.IdempotencyKey != "order-77" || j.Priority != job.DefaultPriority || j.Tenant != "t1" || j.Request.ContentType != typeJSON {
		t.Errorf("%+v", j)
	}
	if p, l := r.header.Get("RateLimit-Policy"), r.header.Get("RateLimit"); p != `"queue";q=100` || l != `"queue";r=99` {
		t.Errorf("policy %q, limit %q", p, l)
	}
}

func TestPushReplaysAndConflicts(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	a := newTestAPI(t, s)
	push := func(body string) answer {
		return do(a, "POST", bankJobs, strings.NewReader(body), "Idempotency-Key", "k")
	}
	first, again := push(`{"body":1}`), push(`{"body":1}`)
	var one, two accepted
	first.into(t, &one)
	again.into(t, &two)
	if again.status != 202 || two.ID != one.ID || !two.Replayed || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d %s %v", again.status, again.body, again.header)
	}
	push(`{"body": 2}`).problem(t, job.CodeIdempotencyKeyReused)
	if len(s.jobs) != 1 {
		t.Errorf("%d jobs", len(s.jobs))
	}
}

func TestBodyIsTakenByteForByte(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"v":15947634569000323,"f":1.0,"a":[],"o":{},"s":"\u0000<>&"}`,
		"{ \"z\" : 1e5 ,\t\"a\":[ ] ,\r\n \"a\": \"\u2028ü\" }",
		`"text"`, `12345678901234567890.10`, `[ 1,2 ]`, `false`,
	} {
		s := newFakeStore()
		a := newTestAPI(t, s)
		r := do(a, "POST", bankJobs, strings.NewReader("{\"tenant\" : \"x\" , \"body\" :  "+body+"  ,\"priority\":0}"))
		if r.status != 202 {
			t.Fatalf("%q: %d %s", body, r.status, r.body)
		}
		if got := string(s.jobs[0].Request.Body); got != body {
			t.Errorf("body %q became %q", body, got)
		}
	}
}

func TestOtherBodies(t *testing.T) {
	t.Parallel()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	tests := []struct{ name, doc, body, kind string }{
		{"text", `{"body_text":"grüß \ud83d\ude00"}`, "grüß 😀", "text/plain; charset=utf-8"},
		{"text with type", `{"body_text":"a=1","content_type":"application/x-www-form-urlencoded"}`, "a=1", "application/x-www-form-urlencoded"},
		{"bytes", `{"body_base64":"` + base64.StdEncoding.EncodeToString(all) + `"}`, string(all), "application/octet-stream"},
		{"type in headers", `{"body":1,"headers":{"content-type":"application/cloudevents+json"}}`, "1", "application/cloudevents+json"},
		{"null is absent", `{"body":null}`, "", ""},
		{"none", `{}`, "", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newFakeStore()
			a := newTestAPI(t, s)
			if r := do(a, "POST", bankJobs, strings.NewReader(tc.doc)); r.status != 202 {
				t.Fatalf("%d %s", r.status, r.body)
			}
			if got := s.jobs[0].Request; string(got.Body) != tc.body || got.ContentType != tc.kind || len(got.Headers) != 0 {
				t.Errorf("%q as %q, headers %v", got.Body, got.ContentType, got.Headers)
			}
		})
	}
}

func TestEveryFieldReachesTheStore(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	a := newTestAPI(t, s)
	r := do(a, "POST", bankJobs, strings.NewReader(`{"method":"PUT","path":"/p?q=1","headers":{"X-B":"2","Accept":["a","b"],"x-a":"1"},
		"idempotency_key":"k","tenant":"t","priority":9,"delay":"1m","expires_in":"1h","timeout":"5s","max_attempts":3,"metadata":{"order":"77"}}`), "Idempotency-Key", "k")
	if r.status != 202 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	j := s.jobs[0]
	want := []job.Header{{Name: "X-B", Value: "2"}, {Name: "Accept", Value: "a"}, {Name: "Accept", Value: "b"}, {Name: "x-a", Value: "1"}}
	if len(j.Request.Headers) != len(want) {
		t.Fatalf("headers %v", j.Request.Headers)
	}
	for i := range want {
		if j.Request.Headers[i] != want[i] {
			t.Errorf("header %d is %v, want %v", i, j.Request.Headers[i], want[i])
		}
	}
	if j.Request.Method != "PUT" || j.Request.Path != "/p?q=1" || j.IdempotencyKey != "k" || j.Tenant != "t" || j.Priority != 9 ||
		j.Delay != time.Minute || j.ExpiresIn != time.Hour || j.Timeout != 5*time.Second || j.MaxAttempts != 3 || j.Metadata["order"] != "77" {
		t.Errorf("%+v", j)
	}
}

func TestDeliverAt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	tests := []struct {
		name, at string
		want     time.Time
	}{
		{"soon", "2026-12-01T10:00:30.25+01:00", now.Add(30250 * time.Millisecond)},
		{"just past", "2026-12-01T08:59:59Z", now.Add(-time.Second)},
		{"small letters", "2026-12-01t09:00:30z", now.Add(30 * time.Second)},
		{"long past is at once", "2020-01-01T00:00:00Z", time.Time{}},
		{"before all time", "0001-01-01T00:00:00Z", time.Time{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newFakeStore()
			a := newTestAPI(t, s, func(c *Config) { c.Now = func() time.Time { return now } })
			if r := do(a, "POST", bankJobs, strings.NewReader(`{"deliver_at":"`+tc.at+`"}`)); r.status != 202 {
				t.Fatalf("%d %s", r.status, r.body)
			}
			if got := s.jobs[0].DeliverAt; !got.Equal(tc.want) {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// countingReader counts what is read of an endless body.
type countingReader struct{ read int }

func (r *countingReader) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	r.read += len(b)
	return len(b), nil
}

func TestTooLargeIsRefusedBeforeReading(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	for _, path := range []string{bankJobs, bankJobs + "/batch", "/v1/destinations/bank/pause"} {
		body := &countingReader{}
		r := do(a, "POST", path, io.LimitReader(body, 1<<30), "Content-Length", "x")
		r.problem(t, job.CodeTooLarge) // no length is announced: bounded while reading
		if body.read > 16<<20 {
			t.Errorf("%s: %d bytes were read", path, body.read)
		}
	}
	body := &countingReader{}
	req := newRequest("POST", bankJobs, body)
	req.ContentLength = 1 << 30
	send(a, req).problem(t, job.CodeTooLarge)
	if body.read != 0 {
		t.Errorf("%d bytes were read of a body that was announced as too large", body.read)
	}
}

func TestJobBodyBoundIsExact(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	push := func(n int) answer {
		return do(a, "POST", bankJobs, strings.NewReader(`{"body_text":"`+strings.Repeat("x", n)+`"}`))
	}
	if r := push(1024); r.status != 202 {
		t.Errorf("exactly the bound: %d %s", r.status, r.body)
	}
	push(1025).problem(t, job.CodeTooLarge)
	full := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 1024))
	if r := do(a, "POST", bankJobs, strings.NewReader(`{"body_base64":"`+full+`"}`)); r.status != 202 {
		t.Errorf("exactly the bound as base64: %d %s", r.status, r.body)
	}
}

func TestRefusalsOfTheStore(t *testing.T) {
	t.Parallel()
	tests := []struct {
		verdict queue.Verdict
		code    job.Code
		detail  string
	}{
		{queue.Full, job.CodeQueueFull, "the queue holds 100 of 100 jobs"}, {queue.BytesFull, job.CodeQueueBytesFull, "of the 256MiB"},
		{queue.ShareFull, job.CodeTenantShareFull, "the tenant has its share"}, {queue.Paused, job.CodeDestinationPaused, "is paused"},
		{queue.Conflict, job.CodeIdempotencyKeyReused, "another request"}, {"news", job.CodeInternal, "failed"},
	}
	for _, tc := range tests {
		t.Run(string(tc.verdict), func(t *testing.T) {
			t.Parallel()
			s := newFakeStore()
			s.verdict = queue.PushResult{Verdict: tc.verdict, Capacity: 100, Depth: 100, RetryAfter: 1200 * time.Millisecond, DrainPerSecond: 50}
			r := do(newTestAPI(t, s), "POST", bankJobs, strings.NewReader(`{}`))
			p := r.problem(t, tc.code)
			if !strings.Contains(p.Detail, tc.detail) || strings.Contains(p.Detail, "guess") {
				t.Errorf("detail %q, want %q in it", p.Detail, tc.detail)
			}
			if r.status == 429 && (p.RetryAfterMS != 1200 || r.header.Get("Retry-After") != "2" || r.header.Get("RateLimit") != `"queue";r=0;t=2`) {
				t.Errorf("%d ms, %v", p.RetryAfterMS, r.header)
			}
		})
	}
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, header, body string
		want               string // the key stored; empty: refused
	}{
		{"bare", "8e03978e-40d5", "", "8e03978e-40d5"},
		{"bare token", "abc", "", "abc"},
		{"quoted", `"abc\"d"`, "", `abc"d`},
		{"longest", strings.Repeat("k", 255), "", strings.Repeat("k", 255)},
		{"in the body", "", "b", "b"},
		{"equal", `"same"`, "same", "same"},
		{"case matters", "K", "K", "K"},
		{"differ", "a", "b", ""},
		{"empty quoted", `""`, "", ""},
		{"too long", strings.Repeat("k", 256), "", ""},
		{"space", "a b", "", ""},
		{"quoted space", `"a b"`, "", ""},
		{"unicode", "ü", "", ""},
		{"unfinished quote", `"abc`, "", ""},
		{"unicode in the body", "", "ü", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newFakeStore()
			a := newTestAPI(t, s)
			doc, headers := `{}`, []string{}
			if tc.body != "" {
				doc = `{"idempotency_key":"` + tc.body + `"}`
			}
			if tc.header != "" {
				headers = []string{"Idempotency-Key", tc.header}
			}
			r := do(a, "POST", bankJobs, strings.NewReader(doc), headers...)
			if tc.want == "" {
				r.problem(t, job.CodeIdempotencyKeyInvalid)
				return
			}
			if r.status != 202 || s.jobs[0].IdempotencyKey != tc.want {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	t.Run("empty and repeated headers", func(t *testing.T) {
		t.Parallel()
		a := newTestAPI(t, newFakeStore())
		for _, values := range [][]string{{""}, {"a", "a"}} {
			req := newRequest("POST", bankJobs, strings.NewReader(`{}`))
			req.Header["Idempotency-Key"] = values
			send(a, req).problem(t, job.CodeIdempotencyKeyInvalid)
		}
	})
}
