package api

import (
	"reflect"
	"strings"
	"testing"

	"tundish/internal/job"
)

// What is served without huma answers as what is served with it.
func TestDirectCallsAnswerAsOthersDo(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	const odd = "?b=1&a=%3Cx%3E"
	want := do(a, "GET", bank+odd, nil)
	for _, path := range []string{bankJobs, bankJobs + "/batch"} {
		got := do(a, "POST", path+odd, strings.NewReader(`{}`))
		p, other := got.problem(t, job.CodeInvalid), want.problem(t, job.CodeInvalid)
		if p.pointers() != "/query/a /query/b" || p.Errors[0].Detail != other.Errors[0].Detail || p.Detail != other.Detail || len(other.Errors) != 2 {
			t.Errorf("%s: %s, and of another call %s", path, got.body, want.body)
		}
		if do(a, "POST", path+"?", strings.NewReader(`{"jobs":[{}]}`)).status >= 500 {
			t.Errorf("%s with an empty query fails", path)
		}
	}
}

// A path can be written in several ways, and each finds its call.
func TestDirectCallsAreFoundByAnyPath(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	for path, want := range map[string]struct {
		status int
		code   job.Code
	}{
		"/v1/destinations/bank/jobs":           {status: 202},
		"/v1/destinations/b%61nk/jobs":         {status: 202},
		"/v1/destinations/bank/jobs%2Fbatch":   {404, job.CodeNotFound},
		"/v1/destinations/bank%2Fjobs/jobs":    {404, job.CodeDestinationNotFound},
		"/v1/destinations/other/jobs":          {404, job.CodeDestinationNotFound},
		"/v1/destinations/b%20ank/jobs":        {404, job.CodeDestinationNotFound},
		"/v1/destinations/./jobs":              {404, job.CodeNotFound},
		"/v1/destinations/../jobs":             {404, job.CodeNotFound},
		"/v1/destinations/.../jobs":            {404, job.CodeDestinationNotFound},
		"/v1/destinations//jobs":               {404, job.CodeNotFound},
		"/v1/destinations/bank/jobs/":          {404, job.CodeNotFound},
		"/v1/destinations/bank//jobs":          {404, job.CodeNotFound},
		"/v1/destinations/bank/jobs/batch/one": {404, job.CodeNotFound},
		"/v1/destinations/bank/jobs/one":       {405, job.CodeMethodNotAllowed},
	} {
		got := do(a, "POST", path, strings.NewReader(`{"body":1}`))
		if got.status != want.status {
			t.Errorf("%s: %d %s, want %d", path, got.status, got.body, want.status)
		}
		if want.code != "" {
			got.problem(t, want.code)
		}
	}
}

// The headers that the description promises are those that are written.
func TestDirectCallsWriteWhatIsDescribed(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	const body = `{"body":1,"idempotency_key":"k"}`
	do(a, "POST", bankJobs, strings.NewReader(body))
	push := do(a, "POST", bankJobs, strings.NewReader(body))
	batch := do(a, "POST", bankJobs+"/batch", strings.NewReader(`{"jobs":[`+body+`]}`))
	for _, tc := range []struct {
		described any
		got       answer
	}{{pushOutput{}, push}, {batchOutput{}, batch}} {
		of := reflect.TypeOf(tc.described)
		n := 0
		for _, f := range reflect.VisibleFields(of) {
			name := f.Tag.Get("header")
			if name == "" {
				continue
			}
			n++
			if tc.got.header.Get(name) == "" {
				t.Errorf("%s describes %s, which is not written: %v", of, name, tc.got.header)
			}
		}
		if n < 2 || tc.got.header.Get("Content-Type") != typeJSON {
			t.Errorf("%s: %d headers are described, %v", of, n, tc.got.header)
		}
	}
}
