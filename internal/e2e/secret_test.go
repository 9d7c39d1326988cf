package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// target is a contract whose HTTP target has more fields, as JSON.
func target(url, more string) string {
	return fmt.Sprintf(`{"target":{"http":{"url":%q,%s}},"limits":[{"rate":100,"per":"1s"}],"retry":{"min_backoff":"100ms","max_backoff":"1s","max_attempts":2}}`, url, more)
}

// mount puts files under a folder as Kubernetes mounts a secret: behind a link that is swapped.
func mount(t testing.TB, dir, version string, files map[string]string) {
	t.Helper()
	steps := []error{os.MkdirAll(filepath.Join(dir, version), 0o700)}
	for name, text := range files {
		steps = append(steps, os.WriteFile(filepath.Join(dir, version, name), []byte(text), 0o600))
	}
	steps = append(steps, os.Symlink(version, filepath.Join(dir, "..tmp")), os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	for name := range files {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			steps = append(steps, os.Symlink("..data/"+name, filepath.Join(dir, name)))
		}
	}
	for _, err := range steps {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A secret that is missing holds the jobs and says so; when it comes they go, and
// when it changes the next requests carry the new one. No job is used up by that.
func TestSecretThatComesAndChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(2)
	got := make(chan received, 64)
	dir := filepath.Join(r.dir, "mounted")
	r.do(http.MethodPut, r.at("bank"), target(recorder(t, got), fmt.Sprintf(`"headers":{"Authorization":"Bearer ${file:%s/token}"}`, dir)), http.StatusCreated)
	ids := r.push("bank", 20)
	r.eventually("the destination to be shown as faulty", patience, func() bool { return r.live("bank").State == "faulty" })
	if a := r.do(http.MethodGet, r.at("bank"), "", http.StatusOK); !strings.Contains(string(a.body), "a worker cannot send: ${file:"+dir+"/token}: there is no such file") {
		t.Errorf("the destination is shown as %s", a.body)
	}
	if l := r.live("bank"); l.Depth != 20 || l.Ready+l.Leased != 20 {
		t.Errorf("%+v", l)
	}
	mount(t, dir, "v1", map[string]string{"token": "first\n"})
	r.settled("bank")
	for _, id := range ids {
		if j := r.job("bank", id); j.State != "delivered" || len(j.Attempts) != 1 {
			t.Errorf("%s: %+v", id, j)
		}
		if q := <-got; q.header.Get("Authorization") != "Bearer first" {
			t.Errorf("Authorization: %q", q.header.Get("Authorization"))
		}
	}
	r.eventually("the mark of the worker that lacked it to go", patience, func() bool { return r.live("bank").State == "running" })
	mount(t, dir, "v2", map[string]string{"token": "second"})
	r.eventually("a request with the second secret", patience, func() bool {
		r.push("bank", 1)
		select {
		case q := <-got:
			return q.header.Get("Authorization") == "Bearer second"
		case <-time.After(patience):
			return false
		}
	})
}
