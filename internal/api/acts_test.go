package api

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tundish/internal/job"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
	"tundish/internal/redistest"
)

const bankOperations = "/v1/operations"

// What the caller asks for is what the store is asked for.
func TestJobsAreListedAsAskedFor(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	s.status = &queue.Status{ID: job.NewID(), State: job.Dead, Outcome: "rejected", Producer: "shop", Redrives: 2}
	a := newTestAPI(t, s)
	cursor := base64.RawURLEncoding.EncodeToString([]byte("dead|x|1"))
	q := url.Values{"state": {"dead,unknown"}, "outcome": {"rejected"}, "tenant": {"t"}, "producer": {"shop"}, "created_after": {"2026-12-01T09:00:00+01:00"},
		"order": {"desc"}, "limit": {"7"}, "cursor": {cursor}}
	r := do(a, "GET", bankJobs+"?"+q.Encode(), nil)
	var got struct {
		Jobs       []map[string]any
		NextCursor string `json:"next_cursor"`
	}
	r.into(t, &got)
	if r.status != 200 || len(got.Jobs) != 1 || got.NextCursor != cursor || got.Jobs[0]["redrives"] != 2.0 || got.Jobs[0]["position"] != nil {
		t.Errorf("%d %s", r.status, r.body)
	}
	asked := s.query
	if !slices.Equal(asked.States, []job.State{job.Dead, job.Unknown}) || asked.Outcome != "rejected" || asked.Tenant != "t" || asked.Producer != "shop" ||
		!asked.CreatedAfter.Equal(time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)) || !asked.Back || asked.Limit != 7 || asked.Cursor != "dead|x|1" {
		t.Errorf("%+v", asked)
	}
	p := do(a, "GET", bankJobs+"?state=dead,gone&created_after=yesterday&cursor=%21&limit=0&order=up", nil).problem(t, job.CodeInvalid)
	if p.pointers() != "/query/order /query/limit /query/state /query/created_after /query/cursor" {
		t.Errorf("%+v", p.Errors)
	}
	if p.Detail != "5 problems with the request, see errors" {
		t.Errorf("%q", p.Detail)
	}
	do(a, "GET", "/v1/destinations/shop/jobs", nil).problem(t, job.CodeDestinationNotFound)
	s.err = job.Errorf(job.CodeInvalid, "the cursor is of a list of other states")
	if p := do(a, "GET", bankJobs+"?cursor="+cursor, nil).problem(t, job.CodeInvalid); p.pointers() != "/query/cursor" || p.Errors[0].Detail != "the cursor is of a list of other states" {
		t.Errorf("%+v", p)
	}
}

// Who may only enqueue sees and cancels only what is its own.
func TestEnqueuersSeeTheirOwnJobs(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	s.status = &queue.Status{ID: job.NewID(), State: job.Ready, Producer: "somebody"}
	a := newTestAPI(t, s, testKeys(t))
	if r := do(a, "GET", bankJobs, nil, "Tundish-Key", "pusher"); r.status != 200 || s.query.Producer != "pusher" {
		t.Errorf("%d, asked for those of %q", r.status, s.query.Producer)
	}
	s.query = queue.Query{}
	if r := do(a, "GET", bankJobs+"?producer=somebody", nil, "Tundish-Key", "pusher"); r.status != 200 || s.query.Limit != 0 || !strings.Contains(string(r.body), `"jobs":[]`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	do(a, "POST", bankJobs+"/"+string(s.status.ID)+"/cancel", nil, "Tundish-Key", "pusher").problem(t, job.CodeJobNotFound)
	if len(s.acts) != 0 {
		t.Errorf("%v", s.acts)
	}
}

func TestBadBodiesOfWhatPeopleDo(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	s.status = &queue.Status{ID: job.NewID(), State: job.Unknown}
	a := newTestAPI(t, s)
	one := bankJobs + "/" + string(s.status.ID)
	for _, tc := range []struct {
		path, body string
		code       job.Code
		pointers   string
	}{
		{one + "/cancel", `{"x":1}`, job.CodeInvalid, "/x"},
		{one + "/cancel", `[]`, job.CodeInvalid, ""},
		{one + "/redrive", `{`, job.CodeMalformed, ""},
		{one + "/resolve", ``, job.CodeInvalid, "/verdict"},
		{one + "/resolve", `{"verdict":"maybe","reason":7,"y":1}`, job.CodeInvalid, "/verdict /reason /y"},
		{bank + "/redrive", `{"max":0,"dry_run":1,"filter":{"state":"ready","tenant":"","x":1}}`, job.CodeInvalid, "/max /dry_run /filter/state /filter/tenant /filter/x"},
		{bank + "/redrive", `{"filter":[]}`, job.CodeInvalid, "/filter"},
		{bank + "/purge", `{}`, job.CodeInvalid, "/states /confirm"},
		{bank + "/purge", `{"max":0,"dry_run":true}`, job.CodeInvalid, "/max /states"},
		{bank + "/purge", `{"states":[],"confirm":"bank"}`, job.CodeInvalid, "/states"},
		{bank + "/purge", `{"states":["leased","dead"],"confirm":"bank","filter":{"state":"dead"}}`, job.CodeInvalid, "/states /filter/state"},
		{bank + "/purge", `{"states":["dead"]}`, job.CodeConfirmationMissing, "/confirm"},
		{bank + "/purge", `{"states":["dead"],"confirm":"bunk"}`, job.CodeConfirmationMissing, "/confirm"},
		{"/v1/destinations/shop/redrive", ``, job.CodeDestinationNotFound, ""},
		{bankOperations + "/nobody/cancel", ``, job.CodeOperationNotFound, ""},
	} {
		t.Run(tc.path[len("/v1/"):]+tc.body, func(t *testing.T) {
			t.Parallel()
			if p := do(a, "POST", tc.path, strings.NewReader(tc.body)).problem(t, tc.code); p.pointers() != tc.pointers {
				t.Errorf("pointers %q, want %q", p.pointers(), tc.pointers)
			}
		})
	}
	t.Cleanup(func() {
		if len(s.acts) != 0 || s.operation != nil {
			t.Errorf("the store was called: %v, %+v", s.acts, s.operation)
		}
	})
}

// TestOverRedisWhatPeopleDo walks through what can be done with jobs.
func TestOverRedisWhatPeopleDo(t *testing.T) {
	t.Parallel()
	db, err := redisdb.Open(t.Context(), redisdb.Config{URL: redistest.Shared(t).URL(), Namespace: redistest.Namespace(t)})
	if err != nil {
		t.Fatal(err)
	}
	store := queue.New(db)
	a, err := New(Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); _ = db.Close() })
	if r := do(a, "PUT", bank, strings.NewReader(bankContract)); r.status != 201 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	push := func(body string) string {
		var got accepted
		do(a, "POST", bankJobs, strings.NewReader(body)).into(t, &got)
		return bankJobs + "/" + string(got.ID)
	}
	call := uint64(0)
	end := func(kind queue.Kind) {
		call++
		r := store.Turns(t.Context(), "w", []queue.Turn{{Lane: "bank", Call: call, Want: 1, Ahead: 400 * time.Millisecond}})[0]
		if r.Err != nil || len(r.Leases) != 1 {
			t.Fatalf("%+v", r)
		}
		call++
		l := r.Leases[0]
		store.Turns(t.Context(), "w", []queue.Turn{{Lane: "bank", Call: call, Result: []queue.Result{{ID: l.ID, Token: l.Token, Kind: kind, Outcome: "rejected"}}}})
	}
	state := func(method, path, body string) string {
		t.Helper()
		r := do(a, method, path, strings.NewReader(body))
		var v jobView
		r.into(t, &v)
		if r.status != 200 {
			t.Errorf("%s %s: %d %s", method, path, r.status, r.body)
		}
		return string(v.State)
	}
	dead := push(`{"body":{"a": 1},"path":"/x","headers":{"X-Ref":"7"},"tenant":"t"}`)
	end(queue.KindDead)
	unknown := push(`{"body_base64":"/w=="}`)
	end(queue.KindUnknown)
	waiting := push(`{"delay":"50s"}`)
	for range 2 {
		if got := state("POST", waiting+"/cancel", ``); got != "cancelled" {
			t.Errorf("cancelled: %s", got)
		}
	}
	do(a, "POST", waiting+"/redrive", nil).problem(t, job.CodeJobFinished)
	do(a, "POST", dead+"/cancel", nil).problem(t, job.CodeJobFinished)
	do(a, "POST", dead+"/resolve", strings.NewReader(`{"verdict":"delivered"}`)).problem(t, job.CodeJobNotUnknown)
	if got := state("POST", unknown+"/resolve", `{"verdict":"delivered","reason":"it is there"}`); got != "delivered" {
		t.Errorf("resolved: %s", got)
	}
	var p payloadView
	do(a, "GET", dead+"/payload", nil).into(t, &p)
	if p.Path != "/x" || p.BodyText != `{"a": 1}` || p.ContentType != "application/json" || len(p.Headers) != 1 || p.Headers[0] != (headerView{"X-Ref", "7"}) {
		t.Errorf("%+v", p)
	}
	do(a, "GET", unknown+"/payload", nil).problem(t, job.CodeJobNotFound)

	var op operationView
	r := do(a, "POST", bank+"/redrive", strings.NewReader(`{"filter":{"tenant":"t"},"max":5}`))
	r.into(t, &op)
	if r.status != 202 || r.header.Get("Location") != bankOperations+"/"+op.ID || op.State != "queued" || op.Total != 1 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if _, err := store.Advance(t.Context(), queue.OperationRef{ID: op.ID, Destination: "bank"}); err != nil {
		t.Fatal(err)
	}
	do(a, "GET", bankOperations+"/"+op.ID, nil).into(t, &op)
	if op.State != "done" || op.Done != 1 || op.FinishedAt == nil {
		t.Errorf("%+v", op)
	}
	if got := state("POST", dead+"/redrive", ``); got != "ready" {
		t.Errorf("redriven: %s", got)
	}
	do(a, "DELETE", dead, nil).problem(t, job.CodeJobInFlight)
	if got := state("POST", dead+"/cancel", ``); got != "cancelled" {
		t.Errorf("cancelled: %s", got)
	}
	if got := state("DELETE", dead, ``); got != "cancelled" {
		t.Errorf("erased: %s", got)
	}
	do(a, "DELETE", dead, nil).problem(t, job.CodeJobNotFound)
	var list struct{ Jobs []jobView }
	do(a, "GET", bankJobs+"?state=cancelled,delivered", nil).into(t, &list)
	if len(list.Jobs) != 2 || list.Jobs[1].State != job.Delivered && list.Jobs[0].State != job.Delivered {
		t.Errorf("%+v", list.Jobs)
	}
}
