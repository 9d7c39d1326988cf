package cli

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestPushOne(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		args []string
		want string // the job
	}{
		{"JSON byte for byte", []string{"-d", `{"b": 1,"a":[1, 2.0] }`}, `{"idempotency_key":"k","body":{"b": 1,"a":[1, 2.0] }}`},
		{"text", []string{"-d", `hello "you" <b>`}, `{"idempotency_key":"k","body_text":"hello \"you\" <b>"}`},
		{"no body", []string{"-d", ""}, `{"idempotency_key":"k"}`},
		{"everything", []string{"-d", "1", "--tenant", "t", "--priority", "0", "--delay", "10s", "--method", "PUT", "--path", "/a?b=c&d",
			"--header", "X-B: 1", "--header", "X-A:x, y", "--header", "X-B: 2"},
			`{"idempotency_key":"k","tenant":"t","priority":0,"delay":"10s","method":"PUT","path":"/a?b=c&d","headers":{"X-B":["1","2"],"X-A":"x, y"},"body":1}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t, map[string]http.HandlerFunc{"POST /v1/destinations/bank/jobs": says(http.StatusAccepted,
				`{"id":"j1","state":"ready","replayed":true,"depth":3,"capacity":10,"estimated_send_at":null}`)})
			args := append([]string{"push", "bank", "--key", "k", "--server", f.URL}, c.args...)
			world{}.run(t.Context(), args...).want(t, exitDone, "state  ready (replayed: the key was used before)\ndepth  3/10\n", "")
			_, got, _ := strings.Cut(f.seen()[0], "/jobs ")
			if got != c.want {
				t.Errorf("job\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// A push without a key gets one, so that repeating it makes no second job.
func TestPushOneIsPatient(t *testing.T) {
	t.Parallel()
	answers := []http.HandlerFunc{
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		says(429, `{"code":"queue_full","detail":"the queue is full","retry_after_ms":3000}`),
		says(202, `{"id":"j1","state":"ready"}`),
	}
	n := 0
	f := newFakeAPI(t, map[string]http.HandlerFunc{"POST /v1/destinations/bank/jobs": func(w http.ResponseWriter, r *http.Request) {
		n++
		answers[n-1](w, r)
	}})
	w := world{clock: newClock()}
	w.run(t.Context(), "push", "bank", "-d", "x", "-o", "name", "--server", f.URL).want(t, exitDone, "j1\n", "queue_full: the queue is full; trying again in 3.0s\n")
	calls := f.seen()
	if len(calls) != 3 || calls[0] != calls[1] || calls[1] != calls[2] || !strings.Contains(calls[0], `{"idempotency_key":"`) {
		t.Errorf("calls %q, want three of the same job with one key", calls)
	}
	if got := w.clock.slept(); got < 3*time.Second || got > 4*time.Second {
		t.Errorf("waited %v, want the 3s told and a back-off", got)
	}
}

func TestPushOneRefused(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		answer http.HandlerFunc
		code   int
	}{
		{"invalid", says(422, problemBody("invalid", "1 problem")), exitRefused},
		{"too large", says(413, problemBody("too_large", "too large")), exitRefused},
		{"key", says(400, problemBody("idempotency_key_invalid", "no")), exitRefused},
		{"no scope", says(403, problemBody("forbidden", "enqueue")), exitNotAllowed},
		{"no destination", says(404, problemBody("destination_not_found", "none")), exitFailed},
		{"always internal", says(500, problemBody("internal", "a bug")), exitFailed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t, map[string]http.HandlerFunc{"POST /v1/destinations/bank/jobs": c.answer})
			world{}.run(t.Context(), "push", "bank", "-d", "x", "--server", f.URL).want(t, c.code, "", "tundish: ")
		})
	}
}
