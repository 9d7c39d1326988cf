package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tundish/internal/job"
	"tundish/internal/queue"
)

func TestPreferences(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		values []string
		wait   seconds
		others []string
	}{
		{nil, 0, nil},
		{[]string{"wait=10"}, 10, nil},
		{[]string{"WAIT = 10 "}, 10, nil},
		{[]string{`wait="7"`}, 7, nil},
		{[]string{"wait=30"}, 30, nil},
		{[]string{"wait=31"}, 30, nil},
		{[]string{"wait=99999999999999999999999"}, 30, nil},
		{[]string{"wait=0"}, 0, nil},
		{[]string{"wait"}, 0, nil},
		{[]string{"wait="}, 0, nil},
		{[]string{"wait=-1"}, 0, nil},
		{[]string{"wait=+1"}, 0, nil},
		{[]string{"wait=1.5"}, 0, nil},
		{[]string{"wait=1s"}, 0, nil},
		{[]string{`wait="`}, 0, nil},
		{[]string{"respond-async, wait=5"}, 5, nil},
		{[]string{"wait=5; x=1"}, 5, nil},
		{[]string{"wait=3, wait=9"}, 3, nil},
		{[]string{"wait=x", "wait=9"}, 0, nil},
		{[]string{"return=representation", "wait=4"}, 4, []string{"return=representation"}},
		{[]string{`a="x, wait=9; \", y" ;b , wait=2,, c`}, 2, []string{`a="x, wait=9; \", y" ;b, c`}},
		{[]string{`a="never closed, wait=9`}, 0, []string{`a="never closed, wait=9`}},
		{[]string{"", " , "}, 0, nil},
	} {
		wait, others := preferences(tc.values)
		if wait != tc.wait || !reflect.DeepEqual(others, tc.others) {
			t.Errorf("%q: %d, %q; want %d, %q", tc.values, wait, others, tc.wait, tc.others)
		}
	}
}

// waiting is a request that waits, on a clock of its own.
type waiting struct {
	t      *testing.T
	store  *fakeStore
	api    *API
	leave  context.CancelFunc
	began  time.Time
	answer chan answer
}

// startWaiting sends a request and returns when it waits for the end of its job.
func startWaiting(t *testing.T, prefer string, headers ...string) *waiting {
	t.Helper()
	w := &waiting{t: t, store: newFakeStore(), began: time.Now(), answer: make(chan answer, 1)}
	w.api = newTestAPI(t, w.store)
	w.sendOne(prefer, headers...)
	synctest.Wait()
	return w
}

func (w *waiting) sendOne(prefer string, headers ...string) {
	ctx, leave := context.WithCancel(w.t.Context())
	w.leave = leave
	w.t.Cleanup(leave)
	r := httptest.NewRequestWithContext(ctx, "POST", bankSend+"/x", strings.NewReader(`{"a":1}`))
	r.Header.Set("Prefer", prefer)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	go func() { w.answer <- send(w.api, r) }()
}

// end ends the job; what is not given is of one that was delivered.
func (w *waiting) end(s queue.Status) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	s.ID = w.store.jobs[0].ID
	if s.State == "" {
		s.State, s.Attempts = job.Delivered, []job.Attempt{{Number: 1, HTTPStatus: 201, Outcome: job.OutcomeDelivered}}
	}
	w.store.status = &s
}

// took checks that the answer comes after d.
func (w *waiting) took(least, most time.Duration) answer {
	w.t.Helper()
	r := <-w.answer
	if took := time.Since(w.began); took < least || took > most {
		w.t.Errorf("it took %s, want %s to %s", took, least, most)
	}
	return r
}

func TestWaitEndsWithTheJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWaiting(t, "wait=10")
		if used := w.api.handler.(*entry).bodies.used; used != 0 {
			t.Errorf("a wait holds room for %d bytes", used)
		}
		<-time.After(2 * time.Second)
		w.end(queue.Status{Response: &job.Response{HTTPStatus: 201, Body: []byte("made"), Headers: []job.Header{{Name: "location", Value: "/p/1"}}}})
		r := w.took(2*time.Second, 2*time.Second+longestPause)
		if r.status != 201 || string(r.body) != "made" || r.header.Get("Location") != "/p/1" || r.header.Get("Preference-Applied") != "wait=10" ||
			r.header.Get("Tundish-Job-Id") != string(w.store.jobs[0].ID) || r.header.Get("Tundish-Response") != "kept" || r.header.Get("RateLimit") != "" {
			t.Errorf("%d %q %v", r.status, r.body, r.header)
		}
	})
}

func TestWaitForAQuickJobIsShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWaiting(t, "wait=10")
		w.end(queue.Status{})
		w.took(firstPause, firstPause)
	})
}

func TestWaitEndsWithItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWaiting(t, "wait=1000")
		r := w.took(30*time.Second, 30*time.Second)
		var got accepted
		r.into(t, &got)
		if r.status != 202 || got.ID != w.store.jobs[0].ID || r.header.Get("Preference-Applied") != "wait=30" || r.header.Get("Location") != got.StatusURL || r.header.Get("Tundish-Response") != "" {
			t.Errorf("%d %s %v", r.status, r.body, r.header)
		}
		if w.store.endLooks < 30 || w.store.endLooks > 150 {
			t.Errorf("%d looks in 30 s", w.store.endLooks)
		}
	})
}

// What ends in the last moment is still seen.
func TestWaitLooksAtItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWaiting(t, "wait=10")
		<-time.After(10*time.Second - time.Millisecond)
		w.end(queue.Status{})
		if r := w.took(10*time.Second, 10*time.Second); r.status != 201 {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}

func TestWaitEndsWithTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWaiting(t, "wait=10")
		w.api.EndWaits()
		if r := w.took(0, 0); r.status != 202 || r.header.Get("Preference-Applied") != "" || len(r.body) == 0 {
			t.Errorf("%d %s %v", r.status, r.body, r.header)
		}
		w.sendOne("wait=10") // before the server stops too
		if r := w.took(0, 0); r.status != 202 {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}

func TestWaitEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWaiting(t, "wait=10")
		w.leave()
		w.took(0, 0)
		if n := len(w.api.waiters.seats); n != 0 || len(w.store.jobs) != 1 {
			t.Errorf("%d wait, %d jobs", n, len(w.store.jobs))
		}
	})
}

func TestWaitersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWaiting(t, "wait=10")
		for range maxWaiters - 1 {
			w.api.waiters.seats <- struct{}{}
		}
		w.sendOne("wait=10")
		if r := w.took(0, 0); r.status != 202 || r.header.Get("Preference-Applied") != "" {
			t.Errorf("%d %v", r.status, r.header)
		}
		w.end(queue.Status{})
		if r := w.took(firstPause, longestPause); r.status != 201 {
			t.Errorf("the first: %d", r.status)
		}
	})
}

func TestWaitOutlastsErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWaiting(t, "wait=10")
		fail := func(err error) {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			w.store.err = err
		}
		fail(errors.New("away"))
		<-time.After(time.Second)
		fail(nil)
		w.end(queue.Status{})
		if r := w.took(time.Second, time.Second+longestPause); r.status != 201 {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}

// A repeat is answered with what became of the first job, at once.
func TestWaitForAJobOfBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWaiting(t, "wait=10", "Idempotency-Key", "k")
		w.end(queue.Status{})
		first := <-w.answer
		w.began = time.Now()
		w.sendOne("wait=10", "Idempotency-Key", "k")
		r := w.took(0, 0)
		if r.status != 201 || r.header.Get("Idempotent-Replayed") != "true" || r.header.Get("Tundish-Job-Id") != first.header.Get("Tundish-Job-Id") || len(w.store.jobs) != 1 {
			t.Errorf("%d %v, %d jobs", r.status, r.header, len(w.store.jobs))
		}
	})
}

// A job of which nothing is kept any longer was taken: no more is known.
func TestWaitForAJobThatIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := startWaiting(t, "wait=10")
		w.store.mu.Lock()
		w.store.forgotten = true
		w.store.mu.Unlock()
		if r := w.took(firstPause, firstPause); r.status != 202 {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}

func TestWaitAnswers(t *testing.T) {
	t.Parallel()
	attempt := func(status int, o job.Outcome) []job.Attempt {
		return []job.Attempt{{Number: 1, HTTPStatus: 500, Outcome: job.OutcomeServerError}, {Number: 2, HTTPStatus: status, Outcome: o}}
	}
	kept := &job.Response{HTTPStatus: 400, Body: []byte("\x00\xff no"), Truncated: true, Headers: []job.Header{
		{Name: "content-type", Value: "text/odd"}, {Name: "X-A", Value: "2"}, {Name: "X-A", Value: "1"}, {Name: "Cache-Control", Value: "max-age=5"},
		{Name: "Connection", Value: "close"}, {Name: "Transfer-Encoding", Value: "chunked"}, {Name: "Content-Length", Value: "77"}, {Name: "Tundish-Job-Id", Value: "theirs"}}}
	for name, tc := range map[string]struct {
		end      queue.Status
		status   int
		response string
	}{
		"delivered, not kept":   {queue.Status{State: job.Delivered, Attempts: attempt(204, job.OutcomeDelivered)}, 204, "status-only"},
		"rejected, kept":        {queue.Status{State: job.Dead, Attempts: attempt(400, job.OutcomeRejected), Response: kept}, 400, "truncated"},
		"throttled too often":   {queue.Status{State: job.Dead, Outcome: "throttled_too_often", Attempts: attempt(429, job.OutcomeThrottled)}, 429, "status-only"},
		"failing until dead":    {queue.Status{State: job.Dead, Attempts: attempt(503, job.OutcomeServerError)}, 503, "status-only"},
		"redirected":            {queue.Status{State: job.Dead, Attempts: attempt(302, job.OutcomeRedirect)}, 302, "status-only"},
		"doubtful, answered":    {queue.Status{State: job.Unknown, Attempts: attempt(500, job.OutcomeServerError)}, 500, "status-only"},
		"unknown":               {queue.Status{State: job.Unknown, Outcome: "connection_lost", Attempts: attempt(0, job.OutcomeReset)}, 502, ""},
		"refused until dead":    {queue.Status{State: job.Dead, Outcome: "connection_refused", Attempts: attempt(0, job.OutcomeRefused)}, 502, ""},
		"silent until dead":     {queue.Status{State: job.Dead, Outcome: "timeout", Attempts: attempt(0, job.OutcomeTimeout)}, 504, ""},
		"unreachable":           {queue.Status{State: job.Dead, Outcome: "connect_timeout", Attempts: attempt(0, job.OutcomeConnectTimeout)}, 504, ""},
		"no answer of HTTP":     {queue.Status{State: job.Dead, Outcome: "invalid_reply", Attempts: attempt(999, job.OutcomeInvalidReply)}, 502, ""},
		"expired":               {queue.Status{State: job.Expired, Outcome: "expired"}, 502, ""},
		"expired after a retry": {queue.Status{State: job.Expired, Outcome: "expired", Attempts: attempt(503, job.OutcomeServerError)}, 502, ""},
		"cancelled":             {queue.Status{State: job.Cancelled, Outcome: "cancelled"}, 502, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := startWaiting(t, "wait=10")
				w.end(tc.end)
				r := <-w.answer
				if r.status != tc.status || r.header.Get("Tundish-Response") != tc.response || r.header.Get("Preference-Applied") != "wait=10" || r.header.Get("Tundish-Job-Id") != string(w.store.jobs[0].ID) {
					t.Errorf("%d %s %v", r.status, r.body, r.header)
				}
				switch tc.response {
				case "":
					checkUnanswered(t, r, w.store.jobs[0].ID)
				case "status-only":
					if len(r.body) != 0 || len(r.header["Content-Type"]) != 0 {
						t.Errorf("%q %v", r.body, r.header)
					}
				default:
					checkKept(t, r)
				}
			})
		})
	}
}

func checkUnanswered(t *testing.T, r answer, id job.ID) {
	t.Helper()
	var p problem
	r.into(t, &p)
	if p.Status != r.status || p.Code != job.CodeUnavailable || p.ID != id || p.Retryable || p.RetryAfterMS != 0 || r.header.Get("Retry-After") != "" ||
		r.header.Get("Content-Type") != problemType || !strings.Contains(p.Detail, string(id)) {
		t.Errorf("%s %v", r.body, r.header)
	}
}

func checkKept(t *testing.T, r answer) {
	t.Helper()
	want := http.Header{"Content-Type": {"text/odd"}, "X-A": {"2", "1"}, "Cache-Control": {"max-age=5"}, "Content-Length": {"5"}, "Connection": nil, "Transfer-Encoding": nil}
	for name, values := range want {
		if !reflect.DeepEqual(r.header[name], values) {
			t.Errorf("%s: %q, want %q", name, r.header[name], values)
		}
	}
	if string(r.body) != "\x00\xff no" {
		t.Errorf("body %q", r.body)
	}
}

func TestWaitingHeadTellsTheLength(t *testing.T) {
	t.Parallel()
	o := &sendOutput{pushOutput: &pushOutput{}, method: "HEAD", attempt: &job.Attempt{HTTPStatus: 200},
		response: &job.Response{Headers: []job.Header{{Name: "Content-Length", Value: "77"}}}}
	w := httptest.NewRecorder()
	o.write(w)
	if w.Header().Get("Content-Length") != "77" {
		t.Errorf("%v", w.Header())
	}
}
