package api

import (
	"strings"
	"testing"

	"tundish/internal/job"
)

// A page whose name leads to this machine (DNS rebinding) is told apart by its name.
func TestOnlyOwnNamesAreAnswered(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore(), func(c *Config) { c.OwnNames = true })
	for host, own := range map[string]bool{
		"127.0.0.1:8080": true, "127.0.0.1": true, "localhost:8080": true, "LocalHost": true, "[::1]:8080": true, "[::1]": true, "127.9.9.9:1": true,
		"evil.example:8080": false, "evil.example": false, "127.0.0.1.evil.example": false, "localhost.evil.example": false, "10.0.0.7:8080": false,
		"0.0.0.0:8080": false, "": false, "[::2]:8080": false, "127.0.0.1@evil.example": false,
	} {
		for _, path := range []string{"/v1/destinations", "/docs", "/nowhere"} {
			r := newRequest("GET", path, nil)
			r.Host = host
			got := send(a, r)
			if own && got.status == 403 {
				t.Errorf("%q: %d %s", host, got.status, got.body)
			}
			if !own {
				if p := got.problem(t, job.CodeForbidden); !strings.Contains(p.Detail, "--insecure-no-auth") {
					t.Errorf("%q: %s", host, p.Detail)
				}
			}
		}
	}
	r := newRequest("GET", "/v1/destinations", nil)
	r.Host = "evil.example"
	if got := send(newTestAPI(t, newFakeStore()), r); got.status != 200 {
		t.Errorf("where any name is answered: %d", got.status)
	}
}

func TestParametersAreGivenOnce(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	if p := do(a, "GET", "/v1/destinations?limit=1&prefix=b&limit=2&prefix=b", nil).problem(t, job.CodeInvalid); p.pointers() != "/query/limit /query/prefix" {
		t.Errorf("%+v", p.Errors)
	}
	if r := do(a, "GET", "/v1/destinations?limit=1&prefix=b", nil); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}
