package api

import (
	"strings"
	"testing"

	"tundish/internal/job"
)

// What the file names and the store does not have comes back; others are unknown.
func TestDestinationsOfTheFileAreUnavailable(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	a := newTestAPI(t, s, func(c *Config) { c.Named = func(name string) bool { return name == "filed" || name == "bank" } })
	for _, call := range [][3]string{
		{"POST", "/jobs", `{}`}, {"POST", "/jobs/batch", `{"jobs":[{}]}`}, {"GET", "/jobs/" + string(job.NewID()), ""}, {"GET", "", ""},
		{"POST", "/pause", ""}, {"POST", "/resume", ""}, {"DELETE", "", ""}, {"PUT", "", strings.ReplaceAll(bankContract, `"bank"`, `"filed"`)},
	} {
		p := do(a, call[0], "/v1/destinations/filed"+call[1], strings.NewReader(call[2])).problem(t, job.CodeUnavailable)
		if !p.Retryable || !strings.Contains(p.Detail, "file") {
			t.Errorf("%s %s: %+v", call[0], call[1], p)
		}
		if call[0] != "PUT" {
			do(a, call[0], "/v1/destinations/unknown"+call[1], strings.NewReader(call[2])).problem(t, job.CodeDestinationNotFound)
		}
	}
	if s.applied.Name != "" {
		t.Errorf("a destination of the file was made by the API: %q", s.applied.Name)
	}
	if r := do(a, "POST", bankJobs, strings.NewReader(`{}`)); r.status != 202 {
		t.Errorf("one of the file that is there: %d %s", r.status, r.body)
	}
}
