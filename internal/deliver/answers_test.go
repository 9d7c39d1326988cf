package deliver

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"tundish/internal/job"
)

// What the other side says before the request was written is no answer to it.
func TestNothingSaidBeforeTheWriteIsAnAnswer(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"} {
		srv := serveRaw(t, func(_ *rawServer, _ int, c net.Conn) {
			<-time.After(20 * time.Millisecond)
			_, _ = io.WriteString(c, said)
			_, _ = io.Copy(io.Discard, c)
		})
		s := newSender(t)
		a := attemptTo(srv.url())
		a.At = time.Now().Add(100 * time.Millisecond)
		r := s.Send(background, a)
		if r.Wrote || srv.seen() != "" {
			continue // a busy machine: the slot came first
		}
		if r.Outcome != job.OutcomeNotSent && r.Outcome != job.OutcomeConnect {
			t.Errorf("%q: outcome %s although nothing was written", said, r.Outcome)
		}
	}
}

// One answer too many must not shift all later answers to other jobs.
func TestAnswersStayWithTheirRequests(t *testing.T) {
	t.Parallel()
	second := make(chan net.Conn, 1) // connections that have had two requests
	srv := serveRaw(t, func(_ *rawServer, _ int, c net.Conn) {
		br := bufio.NewReader(c)
		for n := 0; ; n++ {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(r.Body)
			if n == 1 {
				second <- c
			}
			status := "200 OK"
			if string(body) == "no" {
				status = "500 No"
			}
			_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n")
		}
	})
	s := newSender(t)
	for i := range 30 {
		a := attemptTo(srv.url())
		want := job.OutcomeDelivered
		a.Job.Request.Body = []byte("ok")
		if i%2 == 1 {
			a.Job.Request.Body, want = []byte("no"), job.OutcomeServerError
		}
		a.At = time.Now().Add(5 * time.Millisecond)
		if got := s.Send(background, a).Outcome; got != want {
			t.Errorf("job %d: %s, want %s", i, got, want)
		}
		select {
		case c := <-second: // a timeout of a proxy, say: one answer too many, before the next request
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		default:
		}
	}
}
