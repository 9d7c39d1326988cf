package api

import (
	"strings"
	"testing"

	"tundish/internal/job"
)

const sealedContract = `{"target":{"http":{"url":"http://127.0.0.1:9090/v1","headers":{"X":"${secret:a}"}}},"limits":[{"rate":50,"per":"1s"}],"secrets":{"a":"S3CR3T"}}`

func TestPutSealsSecrets(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	a := newTestAPI(t, s, func(c *Config) {
		c.Seal = func(destination, name, value string) string {
			return "sealed " + destination + " " + name + " " + value[:1]
		}
	})
	r := do(a, "PUT", bank, strings.NewReader(sealedContract))
	if r.status != 200 && r.status != 201 || s.applied.Sealed["a"] != "sealed bank a S" || len(s.applied.Sealed) != 1 {
		t.Errorf("%d, sealed %v: %s", r.status, s.applied.Sealed, r.body)
	}
	if strings.Contains(string(r.body)+string(s.applied.Written), "S3CR3T") {
		t.Errorf("the secret is in %s or %s", r.body, s.applied.Written)
	}
	p := do(newTestAPI(t, s), "PUT", bank, strings.NewReader(sealedContract)).problem(t, job.CodeInvalid)
	if len(p.Errors) != 1 || p.Errors[0].Pointer != "/secrets" || !strings.Contains(p.Errors[0].Detail, "--seal-keys") {
		t.Errorf("without keys: %+v", p)
	}
}
