package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// answer is an HTTP answer that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// problem are the fields of an error answer that tests look at.
type problem struct {
	Code         string `json:"code"`
	RetryAfterMS int64  `json:"retry_after_ms"`
}

// try sends a request; the error is one of transport.
func (r *rig) try(method, url, body string, headers ...string) (answer, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := r.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, text}, err
}

// do sends a request that must be answered with one of the statuses.
func (r *rig) do(method, url, body string, statuses ...int) answer {
	r.Helper()
	a, err := r.try(method, url, body)
	if err != nil {
		r.Fatal(err)
	}
	for _, s := range statuses {
		if a.status == s {
			return a
		}
	}
	r.Fatalf("%s %s: status %d, want %v: %s", method, url, a.status, statuses, a.body)
	return a
}

func decode[T any](r *rig, a answer) T {
	r.Helper()
	var v T
	if err := json.Unmarshal(a.body, &v); err != nil {
		r.Fatalf("%v in %s", err, a.body)
	}
	return v
}

// contract is what tests say of a destination; the rest is default.
type contract struct {
	URL      string
	Rate     int64
	Per      string // default 1s
	Capacity int    // default 10000
	Timeout  string // default 5s
	More     string // further fields, each with a comma before it
}

func (c contract) json() string {
	if c.Per == "" {
		c.Per = "1s"
	}
	if c.Capacity == 0 {
		c.Capacity = 10_000
	}
	if c.Timeout == "" {
		c.Timeout = "5s"
	}
	return fmt.Sprintf(`{"target": {"http": {"url": %q, "timeout": %q}},
		"limits": [{"name": "tps", "algorithm": "leaky_bucket", "rate": %d, "per": %q}],
		"queue": {"capacity": %d}, "retry": {"min_backoff": "100ms", "max_backoff": "1s"}%s}`, c.URL, c.Timeout, c.Rate, c.Per, c.Capacity, c.More)
}

func (r *rig) at(destination string) string {
	return r.enqueuers[0].url + "/v1/destinations/" + destination
}

// put makes or changes a destination.
func (r *rig) put(destination string, c contract) {
	r.Helper()
	r.do(http.MethodPut, r.at(destination), c.json(), http.StatusOK, http.StatusCreated)
}

// live is the part of a destination that tests look at.
type live struct {
	State   string `json:"state"`
	Depth   int    `json:"depth"`
	Ready   int    `json:"ready"`
	Waiting int    `json:"waiting"`
	Leased  int    `json:"leased"`
	Dead    int    `json:"dead"`
	Unknown int    `json:"unknown"`
}

func (r *rig) live(destination string) live {
	r.Helper()
	return decode[struct{ Live live }](r, r.do(http.MethodGet, r.at(destination), "", http.StatusOK)).Live
}

// settled waits until the lane is empty: all results have reached Redis.
func (r *rig) settled(destination string) {
	r.Helper()
	r.eventually("an empty lane of "+destination, patience, func() bool { return r.live(destination).Depth == 0 })
}

// effective is the answer to a change: by then it holds everywhere.
func (r *rig) effective(method, url string) time.Duration {
	r.Helper()
	a := decode[struct {
		EffectiveInMS int64 `json:"effective_in_ms"`
	}](r, r.do(method, url, "", http.StatusOK))
	return time.Duration(a.EffectiveInMS) * time.Millisecond
}

func (r *rig) pause(destination string) time.Duration {
	r.Helper()
	return r.effective(http.MethodPost, r.at(destination)+"/pause")
}

func (r *rig) resume(destination string) {
	r.Helper()
	r.effective(http.MethodPost, r.at(destination)+"/resume")
}

// push pushes n small jobs in batches, all of which must be taken; it answers their ids.
func (r *rig) push(destination string, n int) []string {
	r.Helper()
	ids := make([]string, 0, n)
	for len(ids) < n {
		var body bytes.Buffer
		for i := range min(1000, n-len(ids)) {
			fmt.Fprintf(&body, `{"body":{"n":%d}}`+"\n", len(ids)+i)
		}
		ids = append(ids, r.pushBatch(destination, body.String())...)
	}
	return ids
}

type batchResult struct {
	Status int    `json:"status"`
	ID     string `json:"id"`
	Code   string `json:"code"`
}

func (r *rig) pushBatch(destination, lines string) []string {
	r.Helper()
	a, err := r.try(http.MethodPost, r.at(destination)+"/jobs/batch", lines, "Content-Type", "application/x-ndjson")
	if err != nil || a.status != http.StatusOK {
		r.Fatalf("batch: %v, status %d: %s", err, a.status, a.body)
	}
	var ids []string
	for i, b := range decode[struct{ Results []batchResult }](r, a).Results {
		if b.Status != http.StatusAccepted {
			r.Fatalf("job %d of the batch: status %d, code %s", i, b.Status, b.Code)
		}
		ids = append(ids, b.ID)
	}
	return ids
}

// jobState is a job as its page shows it.
type jobState struct {
	State    string `json:"state"`
	Outcome  string `json:"outcome"`
	Attempts []struct {
		Number     int    `json:"number"`
		HTTPStatus int    `json:"http_status"`
		Outcome    string `json:"outcome"`
	} `json:"attempts"`
}

func (r *rig) job(destination, id string) jobState {
	r.Helper()
	return decode[jobState](r, r.do(http.MethodGet, r.at(destination)+"/jobs/"+id, "", http.StatusOK))
}
