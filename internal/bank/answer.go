package bank

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	adminPrefix  = "/_bank/"
	acceptedBody = `{"accepted":true}` + "\n"
	refusedBody  = `{"accepted":false,"reason":"above the rate"}` + "\n"
)

// Handler answers everything: what is below /_bank/ tells about the bank, all
// else is a request to be judged.
func (b *Bank) Handler() http.Handler { return http.HandlerFunc(b.handle) }

func (b *Bank) handle(w http.ResponseWriter, r *http.Request) {
	at := stampOf(r) // first, and always: the connection hands out stamps in turn
	if strings.HasPrefix(r.URL.Path, adminPrefix) {
		b.admin.ServeHTTP(w, r)
		return
	}
	a := arrivalOf(r, at)
	n := b.seen.Add(1)
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		b.ledger.add(a) // it was sent, and is no success
		panic(http.ErrAbortHandler)
	}
	answer := b.decide(int(n), r, at)
	if !answer.HangUp {
		a.Status = answer.Status
	}
	b.ledger.add(a)
	sleep(r, answer.Delay)
	answer.write(w)
}

func arrivalOf(r *http.Request, at int64) Arrival {
	a := Arrival{Job: r.Header.Get("Tundish-Job-Id"), Key: r.Header.Get("Idempotency-Key"), At: at}
	if a.Job == "" {
		a.Job = a.Key
	}
	a.Attempt, _ = strconv.Atoi(r.Header.Get("Tundish-Attempt"))
	return a
}

// decide is what the nth request gets, with a status. Only what the bank itself
// decides takes a place in the window.
func (b *Bank) decide(n int, r *http.Request, at int64) Answer {
	answer := Answer{Delay: b.config.Latency}
	if b.config.Script != nil {
		if scripted := b.config.Script(n, r); scripted != nil {
			answer = *scripted
		}
	}
	if answer.Status != 0 || answer.HangUp {
		return answer
	}
	answer.Status = http.StatusOK
	wait, refused := b.refuses(at)
	if !refused {
		if answer.Body == "" {
			answer.Body = acceptedBody
		}
		return answer
	}
	return Answer{
		Status: http.StatusTooManyRequests,
		Header: http.Header{"Retry-After": {retryAfter(wait)}},
		Body:   refusedBody,
		Delay:  answer.Delay,
	}
}

func (b *Bank) refuses(at int64) (wait time.Duration, refused bool) {
	if !b.config.Refuse {
		return 0, false
	}
	ok, wait := b.gate.admit(at)
	return wait, !ok
}

// retryAfter is wait in whole seconds, rounded up: HTTP knows no smaller unit.
func retryAfter(wait time.Duration) string {
	return strconv.FormatInt(int64(max(1, (wait+time.Second-1)/time.Second)), 10)
}

// write sends the answer, or hangs up.
func (a *Answer) write(w http.ResponseWriter) {
	if a.HangUp {
		panic(http.ErrAbortHandler)
	}
	for name, values := range a.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Body) // the caller may be gone
}

// sleep waits as long as someone waits for the answer.
func sleep(r *http.Request, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}
