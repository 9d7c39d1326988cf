package app

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/queue"
	"tundish/internal/redistest"
)

// pushAs pushes to bank under a Host and gives the status and the body of the answer.
func pushAs(t *testing.T, e *Enqueuer, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+e.Addr()+"/v1/destinations/bank/jobs", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// Redis loses its memory: no push to a destination of the file is told that
// there is none.
func TestDestinationsOfTheFileAreNeverUnknown(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	c := enqueuerConfig(common(t, redis.URL()))
	c.Destinations = bankAt50(t)
	e := startEnqueuer(t, c)
	if status, body := pushAs(t, e, ""); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, body)
	}
	if err := redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	refused := 0
	eventually(t, "the file is applied again", func() bool {
		status, body := pushAs(t, e, "")
		if status != http.StatusAccepted {
			refused++
			if status != http.StatusServiceUnavailable || !strings.Contains(body, `"retryable":true`) {
				t.Errorf("%d %s", status, body)
			}
		}
		return status == http.StatusAccepted
	})
	if refused == 0 {
		t.Error("the memory was not lost")
	}
}

// Without keys a page of another site, whose name leads here, is not answered,
// unless everybody may push.
func TestForeignNamesNeedAuth(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{false, true} {
		c := enqueuerConfig(common(t, redistest.Shared(t).URL()))
		c.InsecureNoAuth = open
		e := startEnqueuer(t, c)
		want := http.StatusForbidden
		if open {
			want = http.StatusNotFound
		}
		if status, body := pushAs(t, e, "evil.example"); status != want {
			t.Errorf("open to all %v: %d %s", open, status, body)
		}
		if status, body := pushAs(t, e, "localhost:8080"); status != http.StatusNotFound {
			t.Errorf("open to all %v, by its own name: %d %s", open, status, body)
		}
	}
}

// Each look at the fleet tells which destinations there are; one that failed tells nothing.
func TestLooksTellWhichDestinationsThereAre(t *testing.T) {
	t.Parallel()
	store := &fakeFleet{lanes: []queue.Lane{{Name: "a", State: "running"}, {Name: "c", State: "running"}}, senders: 1}
	var told []string
	reg := prometheus.NewRegistry()
	reg.MustRegister(newFleet(surveyed{store, func(exists func(string) bool) {
		for _, name := range []string{"", "a", "b", "c", "d"} {
			if exists(name) {
				told = append(told, name)
			}
		}
	}}, 1))
	series(t, reg)
	if !slices.Equal(told, []string{"a", "c"}) {
		t.Errorf("told %q", told)
	}
	told = nil
	if _, err := (surveyed{&fakeFleet{err: fmt.Errorf("away")}, func(func(string) bool) { told = append(told, "anything") }}).Survey(t.Context()); err == nil || told != nil {
		t.Errorf("a look that failed: %v, told %q", err, told)
	}
}
