package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tundish/internal/job"
	"tundish/internal/queue"
)

const bankBatch = bankJobs + "/batch"

func (r answer) results(t *testing.T) []batchResult {
	t.Helper()
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	var out struct {
		Results []batchResult `json:"results"`
	}
	r.into(t, &out)
	return out.Results
}

// told joins status and code of each result.
func told(list []batchResult) string {
	var parts []string
	for _, r := range list {
		parts = append(parts, strings.TrimSuffix(fmt.Sprintf("%d-%s", r.Status, r.Code), "-"))
	}
	return strings.Join(parts, " ")
}

func TestBatchTakesWhatFits(t *testing.T) {
	t.Parallel()
	docs := []string{
		`{"body":{ "n" : 1 },"idempotency_key":"a"}`,
		`{"priority":10,"x":1}`,
		`{"body":{ "n" : 1 },"idempotency_key":"a"}`,
		`{"body":2,"idempotency_key":"a"}`,
		`{"body_text":"` + strings.Repeat("x", 1025) + `"}`,
		`{"idempotency_key":" "}`,
		`7`,
		`{"callback_url":"x"}`,
		`{"body":3}`,
		`{"body":4}`,
	}
	const want = "202 422-invalid 202 422-idempotency_key_reused 413-too_large 400-idempotency_key_invalid 422-invalid 422-not_supported 202 429-queue_full"
	for kind, body := range map[string]string{
		typeJSON:   `{"jobs":[` + strings.Join(docs, ",") + `]}`,
		typeNDJSON: strings.Join(docs, "\n") + "\n\n",
	} {
		s := newFakeStore()
		s.capacity = 2
		r := do(newTestAPI(t, s), "POST", bankBatch, strings.NewReader(body), "Content-Type", kind)
		list := r.results(t)
		if got := told(list); got != want {
			t.Fatalf("%s:\n%s, want\n%s", kind, got, want)
		}
		if list[0].ID != s.jobs[0].ID || *list[0].Replayed || list[2].ID != list[0].ID || !*list[2].Replayed || list[8].ID != s.jobs[1].ID {
			t.Errorf("%s: %+v", kind, list)
		}
		if len(list[1].Errors) != 2 || list[1].Errors[0].Pointer != "/priority" || list[9].RetryAfterMS < 1 {
			t.Errorf("%s: %+v", kind, list)
		}
		if string(s.jobs[0].Request.Body) != `{ "n" : 1 }` || len(s.calls) != 1 {
			t.Errorf("%s: body %q, calls %v", kind, s.jobs[0].Request.Body, s.calls)
		}
		if r.header.Get("RateLimit") != `"queue";r=0` {
			t.Errorf("%s: RateLimit %q", kind, r.header.Get("RateLimit"))
		}
	}
}

func TestBrokenLineSpoilsOnlyItself(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	r := do(newTestAPI(t, s), "POST", bankBatch, strings.NewReader("{\"body\":1}\r\n{\"body\":\n\xff\n{\"body\":2}"), "Content-Type", typeNDJSON)
	if got := told(r.results(t)); got != "202 400-malformed 400-malformed 202" {
		t.Error(got)
	}
}

func TestBatchesThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	tests := []struct {
		name, body, kind string
		code             job.Code
	}{
		{"not JSON", `{"jobs":[`, typeJSON, job.CodeMalformed},
		{"a list", `[]`, typeJSON, job.CodeInvalid},
		{"no jobs", `{"jobs":[]}`, typeJSON, job.CodeInvalid},
		{"nothing", ``, typeNDJSON, job.CodeInvalid},
		{"jobs is no list", `{"jobs":{}}`, typeJSON, job.CodeInvalid},
		{"unknown field", `{"jobs":[{}],"x":1}`, typeJSON, job.CodeInvalid},
		{"too many", strings.Repeat("{}\n", 1001), typeNDJSON, job.CodeTooLarge},
		{"form", `{}`, "text/plain", job.CodeUnsupportedMediaType},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			do(a, "POST", bankBatch, strings.NewReader(tc.body), "Content-Type", tc.kind).problem(t, tc.code)
		})
	}
	do(a, "POST", bankBatch, strings.NewReader(`{"jobs":[{}]}`), "Idempotency-Key", "k").problem(t, job.CodeIdempotencyKeyInvalid)
}

func TestLargeBatchGoesInParts(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	s.capacity = 1000
	list := do(newTestAPI(t, s), "POST", bankBatch, strings.NewReader(strings.Repeat("{}\n", 1000)), "Content-Type", typeNDJSON).results(t)
	if len(list) != 1000 || len(s.jobs) != 1000 || len(s.calls) != 1000/callJobs || slices.Max(s.calls) != callJobs {
		t.Fatalf("%d results, %d jobs, calls %v", len(list), len(s.jobs), s.calls)
	}
	for i, r := range list {
		if r.ID != s.jobs[i].ID {
			t.Fatalf("result %d is of another job", i)
		}
	}
}

// failingStore fails from the second push on.
type failingStore struct {
	*fakeStore
	pushes int
}

func (s *failingStore) fail() error {
	s.pushes++
	if s.pushes < 2 {
		return nil
	}
	return &job.Error{Code: job.CodeUnavailable, Detail: "gone"}
}

func TestBatchWhoseLaterPartFails(t *testing.T) {
	t.Parallel()
	s := &failingStore{fakeStore: newFakeStore()}
	s.capacity = 1000
	s.onPush = s.fail
	list := do(newTestAPI(t, s.fakeStore), "POST", bankBatch, strings.NewReader(strings.Repeat("{}\n", 500)), "Content-Type", typeNDJSON).results(t)
	for i, r := range list {
		if want := 202; i >= callJobs {
			if r.Status != 503 || r.Code != job.CodeUnavailable || r.RetryAfterMS < 1 {
				t.Fatalf("%d: %+v", i, r)
			}
		} else if r.Status != want {
			t.Fatalf("%d: %+v", i, r)
		}
	}
	if s.pushes != 2 {
		t.Errorf("%d pushes: the rest must not be tried", s.pushes)
	}
}

func TestResultWithoutJobsHasNoFields(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(batchResult{Status: 429, Code: job.CodeQueueFull, RetryAfterMS: 5})
	if err != nil || string(b) != `{"status":429,"code":"queue_full","retry_after_ms":5}` {
		t.Errorf("%s %v", b, err)
	}
}

func TestBatchToAPausedDestination(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	s.verdict = queue.PushResult{Verdict: queue.Paused}
	list := do(newTestAPI(t, s), "POST", bankBatch, strings.NewReader(`{"jobs":[{},{}]}`)).results(t)
	if told(list) != "503-destination_paused 503-destination_paused" || list[0].RetryAfterMS < 1000 {
		t.Errorf("%+v", list)
	}
}

func TestRefusalsOfALaterPartStandInTheirPlaces(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	s.capacity = 250
	list := do(newTestAPI(t, s), "POST", bankBatch, strings.NewReader(strings.Repeat("{}\n", 400)), "Content-Type", typeNDJSON).results(t)
	for i, r := range list {
		if want := map[bool]int{true: 202, false: 429}[i < 250]; r.Status != want {
			t.Fatalf("job %d: %+v, want %d", i, r, want)
		}
	}
}
