package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

const bankSend = bank + "/send"

// allBytes are the 256 values of a byte.
func allBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func TestSendMakesTheRequestTheJob(t *testing.T) {
	t.Parallel()
	for _, method := range append([]string{"PROPFIND"}, sendMethods...) {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			s := newFakeStore()
			a := newTestAPI(t, s)
			r := do(a, method, bankSend+"/a%2Fb/c%20d/?b=2&a=1&a=%2F+;x", bytes.NewReader(allBytes()), "Content-Type", "application/x-odd; q=1")
			if r.status != 202 || len(s.jobs) != 1 {
				t.Fatalf("%d %s", r.status, r.body)
			}
			var got accepted
			r.into(t, &got)
			j := s.jobs[0]
			if got.ID != j.ID || r.header.Get("Tundish-Job-Id") != string(j.ID) || r.header.Get("RateLimit") == "" || r.header.Get("Location") != got.StatusURL {
				t.Errorf("%s %v", r.body, r.header)
			}
			q := j.Request
			if q.Method != method || q.Path != "/a%2Fb/c%20d/?b=2&a=1&a=%2F+;x" || !bytes.Equal(q.Body, allBytes()) || q.ContentType != "application/x-odd; q=1" {
				t.Errorf("%+v", q)
			}
			if j.Priority != job.DefaultPriority || j.Destination != "bank" {
				t.Errorf("%+v", j)
			}
		})
	}
}

// What stands behind /send is the destination's, however odd.
func TestSendKeepsPathsAsTheyCame(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		bankSend:                           "",
		bankSend + "/":                     "/",
		bankSend + "?":                     "?",
		bankSend + "?x=1":                  "?x=1",
		bankSend + "/./a//b/":              "/./a//b/",
		bankSend + "/a;b=c/%41":            "/a;b=c/%41",
		bankSend + "/%7Euser/~user":        "/%7Euser/~user",
		bankSend + "/%e4%bd%A0?q=%zz&q=%":  "/%e4%bd%A0?q=%zz&q=%",
		"/v1/destinations/b%61nk/send/x":   "/x",
		bankSend + "/jobs/batch":           "/jobs/batch",
		"http://x" + bankSend + "/a%2Fb?c": "/a%2Fb?c",
	} {
		s := newFakeStore()
		r := do(newTestAPI(t, s), "POST", target, nil)
		if r.status != 202 {
			t.Errorf("%s: %d %s", target, r.status, r.body)
			continue
		}
		if got := s.jobs[0].Request.Path; got != want {
			t.Errorf("%s: path %q, want %q", target, got, want)
		}
	}
}

func TestSendRefusesPaths(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	for _, path := range []string{"/..", "/a/../b", "/a/%2e%2e/b", "/%252e%252e/b", "//evil.example/x", "/a%5Cb", "/a%00", `/a"b%2F`, "/" + strings.Repeat("x", 5000)} {
		if p := do(a, "GET", bankSend+path, nil).problem(t, job.CodeInvalid); p.pointers() != "/path" {
			t.Errorf("%s: %+v", path, p)
		}
	}
	for target, code := range map[string]job.Code{
		"/v1/destinations/other/send/x":  job.CodeDestinationNotFound,
		"/v1/destinations/B%20/send":     job.CodeDestinationNotFound,
		"/v1/destinations/../send/x":     job.CodeDestinationNotFound,
		bank + "/sendx":                  job.CodeNotFound,
		"/v1//destinations/bank/send/x":  job.CodeNotFound,
		"/v1/d%65stinations/bank/send/x": job.CodeNotFound,
	} {
		do(a, "POST", target, nil).problem(t, code)
	}
}

func TestSendPassesHeadersOn(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	a := newTestAPI(t, s)
	r := httptest.NewRequest("POST", bankSend+"/x", strings.NewReader("{}"))
	for _, h := range []string{
		"Connection: close, X-Hop", "Connection: Keep-Alive", "Keep-Alive: 5", "X-Hop: S3CR3T", "Te: trailers", "Trailer: X", "Upgrade: h2c", "Proxy-Authorization: S3CR3T",
		"Cookie: S3CR3T", "Authorization: S3CR3T", "Tundish-Key: S3CR3T", "Forwarded: S3CR3T", "Via: S3CR3T", "X-Forwarded-For: S3CR3T", "X-Forwarded-Anything: S3CR3T",
		"X-Real-Ip: S3CR3T", "Traceparent: S3CR3T", "Tracestate: S3CR3T", "Tundish-Attempt: 3", "Tundish-Job-Id: S3CR3T", "Accept-Encoding: gzip", "Expect: 100-continue",
		"Idempotency-Key: k", "Tundish-Tenant: t", "Prefer: return=minimal; foo=\"a,b\" , Wait=0, respond-async", "Prefer: wait=0", "Prefer: handling=strict",
		"Content-Type: text/plain", "Content-Encoding: br", "X-B: 2", "X-B: 1", "X-B: 2", "X-A: \t x\xe4 ", "User-Agent: lib/1", "Accept: a/b", "X-Empty: ",
	} {
		name, value, _ := strings.Cut(h, ": ")
		r.Header[name] = append(r.Header[name], value)
	}
	if got := send(a, r); got.status != 202 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	var got []string
	for _, h := range s.jobs[0].Request.Headers {
		got = append(got, h.Name+": "+h.Value)
	}
	want := []string{"Accept: a/b", "Content-Encoding: br", `Prefer: return=minimal; foo="a,b"`, "Prefer: handling=strict", "User-Agent: lib/1",
		"X-A: \t x\xe4 ", "X-B: 2", "X-B: 1", "X-B: 2", "X-Empty: "}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	j := s.jobs[0]
	if j.Request.ContentType != "text/plain" || j.IdempotencyKey != "k" || j.Tenant != "t" {
		t.Errorf("%+v", j)
	}
}

func TestSendOptions(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	at := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	a := newTestAPI(t, s, func(c *Config) { c.Now = func() time.Time { return at } })
	r := do(a, "POST", bankSend, nil, "Tundish-Tenant", "münze & <co>", "Tundish-Priority", "0", "Tundish-Deliver-At", "2026-12-01T09:00:30Z", "Tundish-Expires-In", "1h",
		"Tundish-Timeout", "5s", "Tundish-Max-Attempts", "3", "Tundish-Metadata", `{"order":"77","ü":""}`)
	if r.status != 202 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	j := s.jobs[0]
	if j.Tenant != "münze & <co>" || j.Priority != 0 || !j.DeliverAt.Equal(at.Add(30*time.Second)) || j.ExpiresIn != time.Hour || j.Timeout != 5*time.Second ||
		j.MaxAttempts != 3 || !reflect.DeepEqual(j.Metadata, map[string]string{"order": "77", "ü": ""}) {
		t.Errorf("%+v", j)
	}
	if len(j.Request.Headers) != 0 {
		t.Errorf("options are sent: %v", j.Request.Headers)
	}
	if do(a, "POST", bankSend, nil, "Tundish-Delay", "10s").status != 202 || s.jobs[1].Delay != 10*time.Second {
		t.Error("Tundish-Delay")
	}
}

func TestSendTellsAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	a := newTestAPI(t, s)
	r := newRequest("post", bankSend+"/../x", failingReader{t})
	for name, value := range map[string]string{
		"Tundish-Priority": "10", "Tundish-Delay": "soon", "Tundish-Deliver-At": "now", "Tundish-Expires-In": "0s", "Tundish-Timeout": "1h", "Tundish-Max-Attempts": "0",
		"Tundish-Metadata": `{"a":1}`, "Tundish-Callback-Url": "https://x", "Tundish-Prio": "1", "Tundish-Tenant": "\xff", "Content-Type": "odd",
	} {
		r.Header.Set(name, value)
	}
	p := send(a, r).problem(t, job.CodeInvalid)
	want := "/method /path /header/Tundish-Callback-Url /header/Tundish-Delay /header/Tundish-Deliver-At /header/Tundish-Expires-In /header/Tundish-Max-Attempts " +
		"/header/Tundish-Metadata/a /header/Tundish-Prio /header/Tundish-Priority /header/Tundish-Tenant /header/Tundish-Timeout /header/Content-Type /header/Tundish-Delay"
	if p.pointers() != want {
		t.Errorf("got  %s\nwant %s", p.pointers(), want)
	}
	for _, tc := range []struct {
		name, value string
		code        job.Code
		pointers    string
	}{
		{"Tundish-Callback-Url", "https://x", job.CodeNotSupported, "/header/Tundish-Callback-Url"},
		{"Tundish-Delay", "2h", job.CodeNotSupported, "/header/Tundish-Delay"},
		{"Tundish-Metadata", "order=77", job.CodeInvalid, "/header/Tundish-Metadata"},
		{"Idempotency-Key", "a b", job.CodeIdempotencyKeyInvalid, ""},
		{"Content-Type", "text/plain; a=\"\xe9\"", job.CodeInvalid, "/header/Content-Type"},
		{"X-Big", strings.Repeat("x", job.MaxHeaderBytes), job.CodeInvalid, "/header"},
	} {
		if p := do(a, "POST", bankSend, nil, tc.name, tc.value).problem(t, tc.code); p.pointers() != tc.pointers {
			t.Errorf("%s: %+v", tc.name, p)
		}
	}
	r = newRequest("POST", bankSend, nil)
	r.Header["Tundish-Priority"] = []string{"1", "2"}
	if p := send(a, r).problem(t, job.CodeInvalid); p.pointers() != "/header/Tundish-Priority" || !strings.Contains(p.Errors[0].Detail, "2 times") {
		t.Errorf("%+v", p)
	}
	if len(s.jobs) != 0 {
		t.Errorf("%d jobs", len(s.jobs))
	}
}

// failingReader is a body that nobody may read.
type failingReader struct{ t *testing.T }

func (r failingReader) Read([]byte) (int, error) {
	r.t.Error("the body was read")
	return 0, io.EOF
}

func TestSendIsBoundAsAPush(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	a := newTestAPI(t, s)
	full := bytes.Repeat([]byte{0xff}, 1024) // max_job_bytes
	if r := do(a, "PUT", bankSend, bytes.NewReader(full)); r.status != 202 || !bytes.Equal(s.jobs[0].Request.Body, full) {
		t.Errorf("%d %s", r.status, r.body)
	}
	do(a, "PUT", bankSend, bytes.NewReader(append(full, 0))).problem(t, job.CodeTooLarge)
	s.capacity = 1
	r := do(a, "GET", bankSend, nil)
	if r.problem(t, job.CodeQueueFull); r.header.Get("RateLimit") != `"queue";r=0;t=1` {
		t.Errorf("%v", r.header)
	}
	a.handler.(*entry).bodies.limit = 10
	do(a, "POST", bankSend, bytes.NewReader(full)).problem(t, job.CodeOverloaded)
	if used := a.handler.(*entry).bodies.used; used != 0 {
		t.Errorf("%d bytes are still held", used)
	}
	s.contract = mailContract(t)
	if p := do(newTestAPI(t, s), "POST", bankSend, nil).problem(t, job.CodeInvalid); !strings.Contains(p.Detail, "mail") {
		t.Errorf("%+v", p)
	}
}

func mailContract(t *testing.T) *destination.Contract {
	t.Helper()
	c, _, err := destination.ParseContract("bank", []byte(`{"target":{"smtp":{"host":"mail.example","from":"a@example.com"}},"limits":[{"rate":5,"per":"1s"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSendReplays(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	a := newTestAPI(t, s)
	first := do(a, "POST", bankSend+"/x", strings.NewReader("1"), "Idempotency-Key", `"k"`)
	again := do(a, "POST", bankSend+"/x", strings.NewReader("1"), "Idempotency-Key", "k")
	if again.status != 202 || again.header.Get("Idempotent-Replayed") != "true" || again.header.Get("Tundish-Job-Id") != first.header.Get("Tundish-Job-Id") {
		t.Errorf("%d %v", again.status, again.header)
	}
	do(a, "POST", bankSend+"/x", strings.NewReader("2"), "Idempotency-Key", "k").problem(t, job.CodeIdempotencyKeyReused)
}

// Every method makes a job here, so a page of another site may use none.
func TestSendIsClosedToOtherSites(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	a := newTestAPI(t, s, func(c *Config) { c.OwnNames = true })
	for _, method := range sendMethods {
		do(a, method, "http://localhost"+bankSend, nil, "Sec-Fetch-Site", "cross-site").problem(t, job.CodeForbidden)
		do(a, method, "http://localhost"+bankSend, nil, "Origin", "https://evil.example").problem(t, job.CodeForbidden)
		do(a, method, "http://evil.example"+bankSend, nil).problem(t, job.CodeForbidden)
	}
	if len(s.jobs) != 0 {
		t.Errorf("%d jobs", len(s.jobs))
	}
}

func TestSendNeedsTheScopeOfAPush(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	a := newTestAPI(t, s, testKeys(t))
	for key, code := range map[string]job.Code{"": job.CodeUnauthenticated, "x": job.CodeUnauthenticated, "reader": job.CodeForbidden, "mailer": job.CodeDestinationNotFound} {
		do(a, "GET", bankSend, nil, "Tundish-Key", key).problem(t, code)
	}
	for _, headers := range [][]string{
		{"Authorization", "Bearer pusher"},
		{"Tundish-Key", "pusher"},
		{"Tundish-Key", "pusher", "Authorization", "Bearer of-the-bank"}, // a client goes on to send its own
	} {
		if r := do(a, "GET", bankSend, nil, headers...); r.status != 202 {
			t.Errorf("%q: %d %s", headers, r.status, r.body)
		}
	}
	for _, j := range s.jobs {
		if j.Producer != "pusher" || len(j.Request.Headers) != 0 {
			t.Errorf("%+v", j)
		}
	}
}

func TestSendOnTheWire(t *testing.T) {
	t.Parallel()
	head := " " + bankSend + "/x HTTP/1.1\r\nHost: x\r\n"
	for _, tc := range []struct {
		text, body string
		status     int
	}{
		{"POST" + head + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n", "abcde", 202},
		{"PUT" + head + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi", "hi", 100},
		{"PUT" + head + "Expect: 100-continue\r\nContent-Length: 2000\r\n\r\n", "", 413},
		{"PUT" + head + "Expect: 100-continue\r\nContent-Length: 2\r\nTundish-Priority: x\r\n\r\n", "", 422},
		{"POST" + head + "Transfer-Encoding: chunked\r\n\r\n800\r\n" + strings.Repeat("x", 0x800) + "\r\n", "", 413},
		{"DELETE" + head + "\r\n", "", 202},
	} {
		s := newFakeStore()
		status, _ := onTheWire(t, newTestAPI(t, s), tc.text)
		if status != tc.status {
			t.Errorf("%.60q: %d, want %d", tc.text, status, tc.status)
		}
		if status == 202 && (len(s.jobs) != 1 || string(s.jobs[0].Request.Body) != tc.body || len(s.jobs[0].Request.Headers) != 0) {
			t.Errorf("%.60q: %+v", tc.text, s.jobs)
		}
	}
}

func TestSendIsCountedUnderItsPattern(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	do(a, "PUT", bankSend+"/payouts/77?x=1", nil)
	for _, m := range gathered(t, a) {
		if strings.Contains(m, "payouts") {
			t.Errorf("a path of a caller is a label: %s", m)
		}
	}
	if want := fmt.Sprintf("PUT 202 %s", sendRoute); !strings.Contains(strings.Join(gathered(t, a), "\n"), want) {
		t.Errorf("%q is missing in %q", want, gathered(t, a))
	}
}

// gathered are the requests counted, as method, code and route.
func gathered(t *testing.T, a *API) []string {
	t.Helper()
	var list []string
	a.metrics.answers.Range(func(key, _ any) bool {
		k := key.(answerKey)
		list = append(list, fmt.Sprintf("%s %d %s", k.method, k.status, k.route))
		return true
	})
	return list
}

func TestSendIsDescribed(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Parameters  []struct{ Name string }
			RequestBody any `json:"requestBody"`
			Responses   map[string]any
		}
	}
	do(newTestAPI(t, newFakeStore()), "GET", "/openapi.json", nil).into(t, &doc)
	item := doc.Paths[sendRoute]
	for _, method := range sendMethods {
		op := item[strings.ToLower(method)]
		described := map[string]bool{}
		for _, p := range op.Parameters {
			described[http.CanonicalHeaderKey(p.Name)] = true
		}
		for name, field := range optionFields {
			if _, built := notBuilt[field]; described[name] == built {
				t.Errorf("%s: %s is described: %v", method, name, described[name])
			}
		}
		if op.OperationID != "send-"+strings.ToLower(method) || op.Responses["202"] == nil || !described["Prefer"] {
			t.Errorf("%s: %+v", method, op)
		}
	}
	if len(item) != len(sendMethods) || item["get"].RequestBody != nil || item["post"].RequestBody == nil {
		t.Errorf("%d methods", len(item))
	}
}
