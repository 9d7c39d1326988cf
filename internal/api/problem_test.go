package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tundish/internal/job"
)

func TestEveryCodeHasItsForm(t *testing.T) {
	t.Parallel()
	for _, code := range job.Codes() {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			s := newFakeStore()
			a := newTestAPI(t, s)
			// Warm, so that the error comes from the push itself.
			do(a, "POST", bankJobs, strings.NewReader(`{}`))
			s.err = &job.Error{Code: code, Detail: "why", RetryAfter: 1001 * time.Millisecond, Cause: errors.New("S3CR3T")}
			r := do(a, "POST", bankJobs, strings.NewReader(`{}`))
			p := r.problem(t, code)
			if p.Detail != "why" || strings.Contains(string(r.body), "S3CR3T") {
				t.Errorf("%s", r.body)
			}
			if p.RetryAfterMS != 0 && (p.RetryAfterMS != 1001 || r.header.Get("Retry-After") != "2") {
				t.Errorf("%d ms, Retry-After %s", p.RetryAfterMS, r.header.Get("Retry-After"))
			}
		})
	}
}

func TestEveryCallPassesOnTheStoresError(t *testing.T) {
	t.Parallel()
	id := string(job.NewID())
	for _, call := range []struct{ method, path, body string }{
		{"POST", "/jobs", `{}`}, {"POST", "/jobs/batch", `{"jobs":[{}]}`}, {"GET", "/jobs/" + id, ""},
		{"GET", "", ""}, {"PUT", "", bankContract}, {"DELETE", "", ""}, {"POST", "/pause", `{}`}, {"POST", "/resume", ``},
	} {
		t.Run(call.method+call.path[:min(len(call.path), 6)], func(t *testing.T) {
			t.Parallel()
			s := newFakeStore()
			a := newTestAPI(t, s)
			s.err = &job.Error{Code: job.CodeUnavailable, Detail: "no Redis"}
			do(a, call.method, "/v1/destinations/bank"+call.path, strings.NewReader(call.body)).problem(t, job.CodeUnavailable)
			s.err = errors.New("a bug with S3CR3T")
			r := do(a, call.method, "/v1/destinations/bank"+call.path, strings.NewReader(call.body))
			if r.problem(t, job.CodeInternal); strings.Contains(string(r.body), "S3CR3T") {
				t.Errorf("%s", r.body)
			}
			s.err = context.DeadlineExceeded
			do(a, call.method, "/v1/destinations/bank"+call.path, strings.NewReader(call.body)).problem(t, job.CodeUnavailable)
		})
	}
}

func TestRequestsThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, method, path, body, kind string
		code                           job.Code
	}{
		{"not JSON", "POST", bankJobs, `{"body":`, "", job.CodeMalformed},
		{"empty", "POST", bankJobs, ``, "", job.CodeMalformed},
		{"two values", "POST", bankJobs, `{} {}`, "", job.CodeMalformed},
		{"not UTF-8", "POST", bankJobs, "{\"body\":\"\xff\"}", "", job.CodeMalformed},
		{"a list", "POST", bankJobs, `[]`, "", job.CodeInvalid},
		{"form", "POST", bankJobs, `{}`, "application/x-www-form-urlencoded", job.CodeUnsupportedMediaType},
		{"charset", "POST", bankJobs, `{}`, "application/json; charset=latin1", job.CodeUnsupportedMediaType},
		{"lines to one", "POST", bankJobs, `{}`, typeNDJSON, job.CodeUnsupportedMediaType},
		{"unknown destination", "POST", "/v1/destinations/nobody/jobs", `{}`, "", job.CodeDestinationNotFound},
		{"escaped name", "GET", "/v1/destinations/foo%2Fbar", ``, "", job.CodeDestinationNotFound},
		{"name of dots", "GET", "/v1/destinations/..", ``, "", job.CodeNotFound},
		{"escaped dots", "GET", "/v1/destinations/%2e%2e/jobs/x", ``, "", job.CodeDestinationNotFound},
		{"double slash", "POST", "/v1//destinations/bank/jobs", `{}`, "", job.CodeNotFound},
		{"not built", "GET", "/v1/audit", ``, "", job.CodeNotFound},
		{"PATCH is no method of jobs", "PATCH", bankJobs, ``, "", job.CodeMethodNotAllowed},
		{"the dashboard is not built", "GET", "/", ``, "", job.CodeNotFound},
		{"method", "PATCH", "/v1/destinations/bank", ``, "", job.CodeMethodNotAllowed},
		{"GET changes nothing", "GET", "/v1/destinations/bank/pause", ``, "", job.CodeMethodNotAllowed},
		{"unknown job", "GET", bankJobs + "/AAAAAAAAAAAAAAAAAAAAAA", ``, "", job.CodeJobNotFound},
		{"no job id", "GET", bankJobs + "/x", ``, "", job.CodeJobNotFound},
		{"limit", "GET", "/v1/destinations?limit=501", ``, "", job.CodeInvalid},
		{"limit is no number", "GET", "/v1/destinations?limit=x", ``, "", job.CodeInvalid},
		{"unknown parameter", "GET", "/v1/destinations?sort=x", ``, "", job.CodeInvalid},
		{"cursor", "GET", "/v1/destinations?cursor=**", ``, "", job.CodeInvalid},
		{"cursor that is no text", "GET", "/v1/destinations?cursor=%%%", ``, "", job.CodeMalformed},
		{"semicolons", "GET", "/v1/destinations?limit=1;cursor=x", ``, "", job.CodeMalformed},
		{"class filter", "GET", "/v1/destinations?class=x", ``, "", job.CodeNotSupported},
		{"put a bad name", "PUT", "/v1/destinations/B%C3%84NK", `{}`, "", job.CodeInvalid},
		{"put not JSON", "PUT", "/v1/destinations/bank", `name: bank`, "", job.CodeMalformed},
		{"put wrong", "PUT", "/v1/destinations/bank", `{"limits":[{"rate":0}]}`, "", job.CodeInvalid},
		{"pause for a while", "POST", "/v1/destinations/bank/pause", `{"expires_in":"1h"}`, "", job.CodeNotSupported},
		{"reason", "POST", "/v1/destinations/bank/pause", `{"reason":1}`, "", job.CodeInvalid},
	}
	a := newTestAPI(t, newFakeStore())
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			headers := []string{}
			if tc.kind != "" {
				headers = []string{"Content-Type", tc.kind}
			}
			r := do(a, tc.method, tc.path, strings.NewReader(tc.body), headers...)
			r.problem(t, tc.code)
			if r.status == 405 && r.header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
}

func TestOtherEncodingsAndSitesAreRefused(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	do(a, "POST", bankJobs, strings.NewReader(`{}`), "Content-Encoding", "gzip").problem(t, job.CodeUnsupportedMediaType)
	do(a, "POST", bankJobs, strings.NewReader(`{}`), "Sec-Fetch-Site", "cross-site").problem(t, job.CodeForbidden)
	if r := do(a, "GET", "/v1/destinations", nil, "Sec-Fetch-Site", "cross-site"); r.status != 200 {
		t.Errorf("reading: %d", r.status)
	}
}

func TestAPanicIsAnAnswer(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	s.panics = true
	a := newTestAPI(t, s)
	for range 2 {
		r := do(a, "PUT", "/v1/destinations/bank", strings.NewReader(bankContract))
		if r.problem(t, job.CodeInternal); strings.Contains(string(r.body), "S3CR3T") {
			t.Errorf("%s", r.body)
		}
	}
}

func TestRequestIDIsKept(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	if r := do(a, "GET", "/v1/nothing", nil, "X-Request-Id", "abc-1"); r.problem(t, job.CodeNotFound).RequestID != "abc-1" {
		t.Errorf("%s", r.body)
	}
	if r := do(a, "GET", "/v1/nothing", nil, "X-Request-Id", "a b"); r.problem(t, job.CodeNotFound).RequestID == "a b" {
		t.Error("a bad id was kept")
	}
}

func TestOpenAPIListsTheOperations(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	r := do(a, "GET", "/openapi.json", nil)
	var doc struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]struct {
			OperationID string          `json:"operationId"`
			RequestBody json.RawMessage `json:"requestBody"`
			Responses   map[string]struct {
				Headers map[string]any `json:"headers"`
				Content map[string]any `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `json:"properties"`
				Additional any            `json:"additionalProperties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	r.into(t, &doc)
	var ids []string
	for path, item := range doc.Paths {
		if path == sendRoute {
			continue // one for each method, see there
		}
		for _, op := range item {
			ids = append(ids, op.OperationID)
		}
	}
	for _, want := range []string{"push-job", "push-batch", "get-job", "list-destinations", "get-destination", "put-destination", "delete-destination", "pause-destination", "resume-destination",
		"list-jobs", "get-payload", "cancel-job", "redrive-job", "resolve-job", "erase-job", "redrive-jobs", "purge-jobs", "list-operations", "get-operation", "cancel-operation"} {
		if !strings.Contains(" "+strings.Join(ids, " ")+" ", " "+want+" ") {
			t.Errorf("%s is missing in %v", want, ids)
		}
	}
	if len(ids) != 20 || !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("%d operations, OpenAPI %q", len(ids), doc.OpenAPI)
	}
	if len(doc.Paths["/v1/destinations/{destination}/jobs"]["post"].RequestBody) == 0 {
		t.Error("the body of a push is not described")
	}
	for _, status := range []string{"429", "503"} {
		push := doc.Paths["/v1/destinations/{destination}/jobs"]["post"].Responses[status]
		if _, ok := push.Headers["Retry-After"]; !ok || push.Content["application/problem+json"] == nil {
			t.Errorf("a push that is answered %s is described as %+v", status, push)
		}
	}
	codes, _ := doc.Components.Schemas["Problem"].Properties["code"].(map[string]any)
	for _, code := range job.Codes() {
		if text, _ := codes["description"].(string); !strings.Contains(text, fmt.Sprintf("%s (%d)", code, code.Status())) {
			t.Errorf("the code %s is not described", code)
		}
	}
	described := doc.Components.Schemas["Job"].Properties
	if doc.Components.Schemas["Job"].Additional != false || doc.Components.Schemas["Accepted"].Additional == false {
		t.Error("requests are strict, answers may grow")
	}
	for name := range jobFields {
		if described[name] == nil {
			t.Errorf("the field %s is not described", name)
		}
	}
	if len(described) != len(jobFields) {
		t.Errorf("%d fields are described, %d are read", len(described), len(jobFields))
	}
}

func TestSlowBodyIsGivenUp(t *testing.T) {
	t.Parallel()
	c := &call{w: &deadlineWriter{ResponseRecorder: httptest.NewRecorder()}, r: newRequest(http.MethodPost, bankJobs, timeoutReader{})}
	_, _, err := readBody(c, 100, typeJSON)
	if job.CodeOf(err) != job.CodeMalformed || !strings.Contains(err.Error(), "did not arrive") {
		t.Errorf("%v", err)
	}
	if d := c.w.(*deadlineWriter).deadlines; len(d) != 2 || d[0].IsZero() || !d[1].IsZero() {
		t.Errorf("read deadlines %v, want one and then none", d)
	}
}
