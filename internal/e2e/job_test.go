package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// received is a request as the bank got it.
type received struct {
	method, uri, body string
	header            http.Header
	length            int64
	chunked           bool
}

// recorder keeps the requests that come.
func recorder(t testing.TB, got chan<- received) string {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body) // a torn one shows in what is kept
		got <- received{q.Method, q.RequestURI, string(body), q.Header.Clone(), q.ContentLength, len(q.TransferEncoding) > 0}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestOneJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(1)
	got := make(chan received, 8)
	r.put("bank", contract{URL: recorder(t, got) + "/v1", Rate: 50})

	// Bytes that a decoder would change: order, blanks, escapes, numbers.
	const body = `{"b": 1.50,"a":"\u00e9é",  "n":12345678901234567890}`
	a, err := r.try(http.MethodPost, r.at("bank")+"/jobs",
		`{"method":"PUT","path":"/payouts?mode=fast&x=%2F","headers":{"X-Ref":"a1","Accept":["a","b"]},"body":`+body+`}`,
		"Idempotency-Key", "order-77", "Authorization", "Bearer secret", "Cookie", "c=1")
	if err != nil || a.status != http.StatusAccepted {
		t.Fatalf("push: %v, %d: %s", err, a.status, a.body)
	}
	id := a.header.Get("Tundish-Job-Id")
	if want := "/v1/destinations/bank/jobs/" + id; id == "" || a.header.Get("Location") != want {
		t.Errorf("Location %q, want %q", a.header.Get("Location"), want)
	}

	var q received
	select {
	case q = <-got:
	case <-time.After(patience):
		t.Fatal("nothing arrived at the bank")
	}
	if q.method != http.MethodPut || q.uri != "/v1/payouts?mode=fast&x=%2F" || q.body != body {
		t.Errorf("got %s %s %q", q.method, q.uri, q.body)
	}
	if q.length != int64(len(body)) || q.chunked {
		t.Errorf("Content-Length %d, chunked %v, want %d", q.length, q.chunked, len(body))
	}
	for name, want := range map[string]string{
		"Idempotency-Key": `^\S+$`, "Tundish-Job-Id": "^" + regexp.QuoteMeta(id) + "$", "Tundish-Attempt": "^1$",
		"Traceparent": `^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$`, "X-Ref": "^a1$", "Accept": "^a, b$",
		"Content-Type": "^application/json$", "Authorization": "^$", "Cookie": "^$",
	} {
		if value := strings.Join(q.header.Values(name), ", "); !regexp.MustCompile(want).MatchString(value) {
			t.Errorf("%s: %q, want %s", name, value, want)
		}
	}

	r.settled("bank")
	j := r.job("bank", id)
	if j.State != "delivered" || len(j.Attempts) != 1 || j.Attempts[0].HTTPStatus != http.StatusOK {
		t.Errorf("status %+v, want delivered by one attempt with 200", j)
	}
	if len(got) > 0 {
		t.Error("it was sent again")
	}
}
