package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tundish/internal/job"
	"tundish/internal/queue"
)

const bank = "/v1/destinations/bank"

func TestGetDestination(t *testing.T) {
	t.Parallel()
	r := do(newTestAPI(t, newFakeStore()), "GET", bank, nil)
	if r.status != 200 || r.header.Get("ETag") != `"7"` || r.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", r.status, r.header)
	}
	var got struct {
		Name      string            `json:"name"`
		Labels    map[string]string `json:"labels"`
		Source    map[string]any    `json:"source"`
		Version   int64             `json:"version"`
		Contract  json.RawMessage   `json:"contract"`
		Effective map[string]any    `json:"effective"`
		Overrides []any             `json:"overrides"`
		Live      map[string]any    `json:"live"`
	}
	r.into(t, &got)
	if got.Name != "bank" || got.Labels["team"] != "pay" || got.Source["kind"] != "api" || got.Version != 7 || got.Overrides == nil {
		t.Errorf("%s", r.body)
	}
	if !strings.Contains(string(got.Contract), `"max_job_bytes":"1KiB"`) || got.Effective["max_in_flight"] == nil {
		t.Errorf("contract %s, effective %v", got.Contract, got.Effective)
	}
	if got.Live["state"] != "running" || got.Live["oldest_age_ms"] != 1500.0 || got.Live["rate_per_second"] != 49.75 || got.Live["state_reasons"] == nil {
		t.Errorf("live %v", got.Live)
	}
}

func TestFaultyDestination(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	s.contract = nil
	a := newTestAPI(t, s)
	var got destinationView
	do(a, "GET", bank, nil).into(t, &got)
	if got.Faulty != "damaged" || got.Live.State != "faulty" {
		t.Errorf("%+v", got)
	}
	do(a, "POST", bankJobs, strings.NewReader(`{}`)).problem(t, job.CodeDestinationFaulty)
}

func TestListDestinations(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	list := func(query string) (names []string, next string) {
		var out struct {
			Destinations []destinationView `json:"destinations"`
			NextCursor   string            `json:"next_cursor"`
		}
		r := do(a, "GET", "/v1/destinations"+query, nil)
		r.into(t, &out)
		for _, d := range out.Destinations {
			names = append(names, d.Name)
		}
		if out.Destinations == nil {
			t.Errorf("%s: null for no destinations", r.body)
		}
		return names, out.NextCursor
	}
	if names, next := list(""); len(names) != 1 || next != "" {
		t.Errorf("%v %q", names, next)
	}
	_, next := list("?limit=1&prefix=ba")
	if names, _ := list("?cursor=" + next); next == "" || len(names) != 0 {
		t.Errorf("after %q: %v", next, names)
	}
	if names, _ := list("?prefix=x"); len(names) != 0 {
		t.Errorf("%v", names)
	}
}

func TestPutConditions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, query, header, value string
		code                       job.Code // of a refusal
		want                       queue.ApplyRequest
	}{
		{"plain", "", "", "", "", queue.ApplyRequest{}},
		{"version", "", "If-Match", `"3"`, "", queue.ApplyRequest{IfVersion: 3}},
		{"any version", "", "If-Match", `*`, "", queue.ApplyRequest{IfVersion: 7}},
		{"a list", "", "If-Match", `"3", "7"`, "", queue.ApplyRequest{IfVersion: 7}},
		{"a list without it", "", "If-Match", `"3", "4"`, job.CodeVersionMismatch, queue.ApplyRequest{}},
		{"weak", "", "If-Match", `W/"7"`, job.CodeVersionMismatch, queue.ApplyRequest{}},
		{"foreign", "", "If-Match", `"abc"`, job.CodeVersionMismatch, queue.ApplyRequest{}},
		{"zero is not any", "", "If-Match", `"0"`, job.CodeVersionMismatch, queue.ApplyRequest{}},
		{"new", "", "If-None-Match", `*`, "", queue.ApplyRequest{IfNone: true}},
		{"not a star", "", "If-None-Match", `"7"`, job.CodeInvalid, queue.ApplyRequest{}},
		{"dry run", "?dry_run=true", "", "", "", queue.ApplyRequest{DryRun: true}},
		{"dry run of what", "?dry_run=maybe", "", "", job.CodeInvalid, queue.ApplyRequest{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newFakeStore()
			headers := []string{}
			if tc.header != "" {
				headers = []string{tc.header, tc.value}
			}
			r := do(newTestAPI(t, s), "PUT", bank+tc.query, strings.NewReader(bankContract), headers...)
			if tc.code != "" {
				r.problem(t, tc.code)
				if s.applied.Name != "" {
					t.Error("the store was called")
				}
				return
			}
			got := s.applied
			if got.Name != "bank" || got.Source.Kind != "api" || got.Contract == nil || len(got.Written) == 0 {
				t.Fatalf("%d %s: %+v", r.status, r.body, got)
			}
			if got.IfVersion != tc.want.IfVersion || got.IfNone != tc.want.IfNone || got.DryRun != tc.want.DryRun {
				t.Errorf("%+v", got)
			}
			told := strings.Contains(string(r.body), `"effective_in_ms":121`)
			if named := strings.Contains(string(r.body), "effective_in_ms"); told == tc.want.DryRun || named != told {
				t.Errorf("effective_in_ms in %s", r.body)
			}
			if !strings.Contains(string(r.body), `"warnings":["durability: late here"]`) {
				t.Errorf("no warning in %s", r.body)
			}
			if want := map[bool]int{false: 200, true: 201}[tc.want.IfNone]; r.status != want || r.header.Get("ETag") != `"7"` {
				t.Errorf("%d %v", r.status, r.header)
			}
		})
	}
}

func TestPutTellsEveryProblem(t *testing.T) {
	t.Parallel()
	r := do(newTestAPI(t, newFakeStore()), "PUT", bank, strings.NewReader(`{"target":{"http":{"url":"ftp://x"}},"limits":[{"rate":0,"per":"1s"}],"colour":1}`))
	p := r.problem(t, job.CodeInvalid)
	for _, want := range []string{"/target/http/url", "/limits/0/rate", "/colour"} {
		if !strings.Contains(p.pointers(), want) {
			t.Errorf("%s is missing in %s", want, p.pointers())
		}
	}
}

func TestIfMatchOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	do(a, "PUT", "/v1/destinations/new", strings.NewReader(strings.ReplaceAll(bankContract, `"name":"bank",`, "")), "If-Match", "*").problem(t, job.CodeVersionMismatch)
	do(a, "PUT", bank, strings.NewReader(bankContract), "If-Match", "*", "If-None-Match", "*").problem(t, job.CodeInvalid)
}

func TestDeletePauseResume(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	a := newTestAPI(t, s)
	var got struct {
		Destination   string `json:"destination"`
		EffectiveInMS int64  `json:"effective_in_ms"`
	}
	do(a, "POST", bank+"/pause", strings.NewReader(`{"reason":"bank holiday"}`)).into(t, &got)
	if got.Destination != "bank" || got.EffectiveInMS != 121 || s.paused != "paused: bank holiday" {
		t.Errorf("%+v, %q", got, s.paused)
	}
	if r := do(a, "POST", bank+"/resume", nil); r.status != 200 || s.paused != "resumed" {
		t.Errorf("%d, %q", r.status, s.paused)
	}
	do(a, "POST", "/v1/destinations/none/pause", nil).problem(t, job.CodeDestinationNotFound)
	if r := do(a, "DELETE", bank+"?cancel_jobs=true", nil, "If-Match", `"7"`); r.status != 200 || s.deleted != " bank 7 true" {
		t.Errorf("%d %s, %q", r.status, r.body, s.deleted)
	}
	do(a, "DELETE", "/v1/destinations/none", nil).problem(t, job.CodeDestinationNotFound)
}

// Who names a set speaks for its file.
func TestSetAndRevision(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		query string
		code  job.Code
		want  queue.Source
	}{
		"none":                 {"", "", queue.Source{Kind: "api"}},
		"a set":                {"?set=payments", "", queue.Source{Kind: "file", Set: "payments"}},
		"with its revision":    {"?set=payments&revision=7", "", queue.Source{Kind: "file", Set: "payments", Revision: 7}},
		"a revision alone":     {"?revision=7", job.CodeInvalid, queue.Source{}},
		"no name":              {"?set=a|b", job.CodeInvalid, queue.Source{}},
		"no revision":          {"?set=payments&revision=-1", job.CodeInvalid, queue.Source{}},
		"beyond whole numbers": {"?set=payments&revision=9007199254740992", job.CodeInvalid, queue.Source{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeStore()
			r := do(newTestAPI(t, s), "PUT", bank+c.query, strings.NewReader(bankContract))
			if c.code != "" {
				r.problem(t, c.code)
			} else if r.status != 200 {
				t.Errorf("%d %s", r.status, r.body)
			}
			if s.applied.Source != c.want {
				t.Errorf("%+v, want %+v", s.applied.Source, c.want)
			}
		})
	}
	s := newFakeStore()
	a := newTestAPI(t, s)
	if r := do(a, "DELETE", bank+"?set=payments", nil); r.status != 200 || s.deleted != "payments bank 0 false" {
		t.Errorf("%d %s, %q", r.status, r.body, s.deleted)
	}
	do(a, "DELETE", bank+"?set=P", nil).problem(t, job.CodeInvalid)
}

func TestJobView(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	at := time.Date(2026, 12, 1, 10, 0, 0, 1999999, time.FixedZone("", 3600))
	s.status = &queue.Status{
		ID: job.NewID(), State: job.Waiting, Outcome: "timeout", Producer: "p", Tenant: "t", Priority: 5, CreatedAt: at,
		Attempts: []job.Attempt{{Number: 1, StartedAt: at, DurationMS: 12, Outcome: job.OutcomeTimeout}}, Position: 3, WaitingFor: "back_off",
		Response: &job.Response{HTTPStatus: 503, Body: []byte("later")}, Metadata: map[string]string{"order": "77"},
		Job: &job.Job{Request: job.Request{Body: []byte("S3CR3T"), Headers: []job.Header{{Name: "X", Value: "S3CR3T"}}}},
	}
	r := do(newTestAPI(t, s), "GET", bankJobs+"/"+string(s.status.ID), nil)
	var got jobView
	r.into(t, &got)
	if got.ID != s.status.ID || got.Destination != "bank" || got.State != job.Waiting || got.Position == nil || *got.Position != 3 || got.WaitingFor != "back_off" || got.Metadata["order"] != "77" {
		t.Errorf("%s", r.body)
	}
	if got.CreatedAt == nil || *got.CreatedAt != "2026-12-01T09:00:00.001Z" || got.DeliverAt != nil || len(got.Attempts) != 1 || got.Attempts[0].DurationMS != 12 {
		t.Errorf("%s", r.body)
	}
	if strings.Contains(string(r.body), "S3CR3T") {
		t.Errorf("payload in %s", r.body)
	}
}

func TestContractsAreBelievedForAMoment(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := newFakeStore()
	c := &contracts{store: s, base: t.Context(), timeout: callTimeout, now: func() time.Time { return now }, held: map[string]*heldContract{}}
	looks := func(want int) {
		t.Helper()
		if _, err := c.get(t.Context(), "bank"); err != nil || s.looks != want {
			t.Fatalf("%d looks, want %d: %v", s.looks, want, err)
		}
	}
	looks(1)
	now = now.Add(contractsAge - 1)
	looks(1)
	now = now.Add(1)
	looks(2)
	c.forget("bank")
	looks(3)
	for range 2 { // errors are not remembered
		before := s.looks
		if _, err := c.get(t.Context(), "none"); job.CodeOf(err) != job.CodeDestinationNotFound || s.looks != before+1 {
			t.Errorf("%d looks, %v", s.looks-before, err)
		}
	}
	if len(c.held) != 1 {
		t.Errorf("%d contracts held", len(c.held))
	}
}

func TestAChangeHereActsAtOnce(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	a := newTestAPI(t, s)
	push := func() answer {
		return do(a, "POST", bankJobs, strings.NewReader(`{"max_attempts":5}`))
	}
	for _, change := range []func() answer{
		func() answer { return do(a, "PUT", bank, strings.NewReader(bankContract)) },
		func() answer { return do(a, "DELETE", bank, nil) },
	} {
		s.contract = testContract()
		if r := push(); r.status != 202 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		s.contract = testContract()
		s.contract.Retry.MaxAttempts = 3
		change()
		push().problem(t, job.CodeInvalid)
		a.contracts.forget("bank")
	}
}

func TestOrphanedIsShown(t *testing.T) {
	t.Parallel()
	d := newFakeStore().bank()
	d.Source = queue.Source{Kind: "orphaned", Set: "payments", Revision: 3}
	d.Live.StateReasons = []string{"paused by the contract"}
	for range 2 { // what is shown is added to no list of the store's
		v := viewDestination(d)
		if got := v.Live.StateReasons; len(got) != 2 || !strings.HasPrefix(got[1], "orphaned: ") || !strings.Contains(got[1], "payments") || v.Source.Kind != "orphaned" {
			t.Errorf("%q, %+v", got, v.Source)
		}
	}
}
