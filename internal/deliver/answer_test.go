package deliver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

var quiet = log.New(io.Discard, "", 0)

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer  string // then the connection is closed
		want    job.Outcome
		status  int
		after   time.Duration
		errText string
	}{
		"ok":                {okAnswer, job.OutcomeDelivered, 200, 0, ""},
		"no content":        {"HTTP/1.1 204 No Content\r\n\r\n", job.OutcomeDelivered, 204, 0, ""},
		"until close":       {"HTTP/1.1 200 OK\r\n\r\nhello", job.OutcomeDelivered, 200, 0, ""},
		"HTTP/1.0":          {"HTTP/1.0 200 OK\r\n\r\n", job.OutcomeDelivered, 200, 0, ""},
		"cut body, 2xx":     {"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nhel", job.OutcomeDelivered, 201, 0, ""},
		"cut body, 429":     {"HTTP/1.1 429 No\r\nRetry-After: 7\r\nContent-Length: 9\r\n\r\nhel", job.OutcomeThrottled, 429, 7 * time.Second, "HTTP 429 Too Many Requests"},
		"bad chunks":        {"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\nzz", job.OutcomeServerError, 500, 0, "HTTP 500 Internal Server Error"},
		"redirect":          {"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n", job.OutcomeRedirect, 302, 0, "HTTP 302 Found"},
		"timeout reply":     {"HTTP/1.1 408 No\r\nContent-Length: 0\r\n\r\n", job.OutcomeTimeoutReply, 408, 0, "HTTP 408 Request Timeout"},
		"too early":         {"HTTP/1.1 425 No\r\nContent-Length: 0\r\n\r\n", job.OutcomeTooEarly, 425, 0, "HTTP 425 Too Early"},
		"rejected":          {"HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n", job.OutcomeRejected, 422, 0, "HTTP 422 Unprocessable Entity"},
		"not let in":        {"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", job.OutcomeAuth, 401, 0, "HTTP 401 Unauthorized"},
		"unavailable":       {"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", job.OutcomeServerError, 503, 0, "HTTP 503 Service Unavailable"},
		"unavailable until": {"HTTP/1.1 503 No\r\nRetry-After: 2\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n", job.OutcomeThrottled, 503, 3 * time.Second, "HTTP 503 Service Unavailable"},
		"unreadable after":  {"HTTP/1.1 503 No\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n", job.OutcomeThrottled, 503, 0, "HTTP 503 Service Unavailable"},
		"early hints":       {"HTTP/1.1 103 Early Hints\r\n\r\n" + okAnswer, job.OutcomeDelivered, 200, 0, ""},
		"switching":         {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", job.OutcomeInvalidReply, 101, 0, "HTTP 101 Switching Protocols"},
		"strange status":    {"HTTP/1.1 799 What\r\nContent-Length: 0\r\n\r\n", job.OutcomeInvalidReply, 799, 0, "HTTP 799"},
		"nothing":           {"", job.OutcomeReset, 0, 0, "no answer: the other side closed the connection"},
		"cut status":        {"HTTP/1.1 20", job.OutcomeTruncated, 0, 0, "the answer broke off: the other side closed the connection"},
		"cut headers":       {"HTTP/1.1 200 OK\r\nContent-Le", job.OutcomeTruncated, 0, 0, "the answer broke off: the other side closed the connection"},
		"not HTTP":          {"SSH-2.0-OpenSSH_9.9 secret-token\r\n", job.OutcomeInvalidReply, 0, 0, "the answer is not HTTP/1.1"},
		"header flood":      {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Flood: "+strings.Repeat("x", 1000)+"\r\n", 200), job.OutcomeInvalidReply, 0, 0, "the answer's headers exceed 65536 bytes"},
		"endless line":      {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 200<<10), job.OutcomeInvalidReply, 0, 0, "the answer's headers exceed 65536 bytes"},
		"hints flood":       {strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 10000), job.OutcomeInvalidReply, 0, 0, "the answer's headers exceed 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serveRaw(t, func(s *rawServer, _ int, c net.Conn) {
				s.readRequest(bufio.NewReader(c))
				io.WriteString(c, tc.answer)
			})
			r := newSender(t).Send(background, attemptTo(srv.url()))
			wantOutcome(t, r, tc.want, true)
			if r.HTTPStatus != tc.status || r.RetryAfter != tc.after || r.Error != tc.errText {
				t.Errorf("got %d, %v, %q", r.HTTPStatus, r.RetryAfter, r.Error)
			}
			if conns, requests := srv.counts(); conns != 1 || requests != 1 {
				t.Errorf("%d connections, %d requests", conns, requests)
			}
		})
	}
}

// drip writes endlessly, a piece at a time, until the connection ends.
func drip(c net.Conn, piece string, every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for range t.C {
		if _, err := io.WriteString(c, piece); err != nil {
			return
		}
	}
}

func TestSlowAnswersAreBounded(t *testing.T) {
	t.Parallel()
	const timeout = 150 * time.Millisecond
	for name, tc := range map[string]struct {
		serve func(net.Conn)
		want  job.Outcome
		bound time.Duration
	}{
		"hangs":        {func(c net.Conn) { io.Copy(io.Discard, c) }, job.OutcomeTimeout, timeout},
		"header drips": {func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nX: "); drip(c, "x", 10*time.Millisecond) }, job.OutcomeTimeout, timeout},
		"status drips": {func(c net.Conn) { drip(c, "HTTP/1.1 100 Continue\r\n\r\n", 10*time.Millisecond) }, job.OutcomeTimeout, timeout},
		"body drips":   {func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); drip(c, "x", 10*time.Millisecond) }, job.OutcomeDelivered, timeout},
		"body never": {func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\n")
			io.Copy(io.Discard, c)
		}, job.OutcomeServerError, timeout},
		"body is endless": {func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			for block := strings.Repeat("x", 32<<10); ; {
				if _, err := io.WriteString(c, block); err != nil {
					return
				}
			}
		}, job.OutcomeDelivered, timeout},
		"body is declared large": {func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
			io.Copy(io.Discard, c)
		}, job.OutcomeDelivered, timeout / 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serveRaw(t, func(s *rawServer, _ int, c net.Conn) {
				s.readRequest(bufio.NewReader(c))
				tc.serve(c)
			})
			a := attemptTo(srv.url())
			a.Timeout = timeout
			begin := time.Now()
			r := newSender(t).Send(background, a)
			wantOutcome(t, r, tc.want, true)
			// Wide, for a busy machine; without a bound it would be for ever.
			if took := time.Since(begin); took > tc.bound+time.Second {
				t.Errorf("took %v, bound %v", took, tc.bound)
			}
		})
	}
}

// A destination that does not read blocks the write; the timeout covers it.
func TestServerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	srv := serveRaw(t, func(*rawServer, int, net.Conn) { <-end })
	t.Cleanup(func() { close(end) })
	a := attemptTo(srv.url())
	a.Timeout = 100 * time.Millisecond
	a.Job.Request.Body = make([]byte, 32<<20)
	wantOutcome(t, newSender(t).Send(background, a), job.OutcomeTimeout, true)
}

func TestCancelAfterTheWrite(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cause error
		want  job.Outcome
	}{
		"stop":     {ErrStopped, job.OutcomeInterrupted},
		"cancel":   {nil, job.OutcomeInterrupted},
		"deadline": {context.DeadlineExceeded, job.OutcomeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(background)
			srv := serveRaw(t, func(s *rawServer, _ int, c net.Conn) {
				br := bufio.NewReader(c)
				s.readRequest(br)
				cancel(tc.cause)
				br.ReadByte()
			})
			wantOutcome(t, newSender(t).Send(ctx, attemptTo(srv.url())), tc.want, true)
		})
	}
}

func TestRedirectsAndCookiesAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"301", "302", "303", "307", "308"} {
		srv := serveRaw(t, answering("HTTP/1.1 "+status+" Go\r\nLocation: /elsewhere\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"))
		s := newSender(t)
		for range 2 {
			wantOutcome(t, s.Send(background, attemptTo(srv.url())), job.OutcomeRedirect, true)
		}
		if got := srv.seen(); strings.Contains(got, "elsewhere") || strings.Contains(got, "Cookie") {
			t.Errorf("%s: %q", status, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, tc := range []struct {
		values []string
		date   string
		want   time.Duration
	}{
		{nil, "", 0},
		{[]string{"120"}, "", 2 * time.Minute},
		{[]string{" 1.5 "}, "", 1500 * time.Millisecond},
		{[]string{"0"}, "", 0},
		{[]string{"-5"}, "", 0},
		{[]string{"."}, "", 0},
		{[]string{""}, "", 0},
		{[]string{"1.2.3"}, "", 0},
		{[]string{"NaN"}, "", 0},
		{[]string{"Inf"}, "", 0},
		{[]string{"soon", "3", "2"}, "", 3 * time.Second},
		{[]string{"99999999999999999999"}, "", MaxRetryAfter},
		{[]string{strings.Repeat("9", 400)}, "", MaxRetryAfter},
		{[]string{"9223372037"}, "", MaxRetryAfter}, // seconds that overflow when they become nanoseconds
		{[]string{"9223372036854775807"}, "", MaxRetryAfter},
		{[]string{"18446744073709551616"}, "", MaxRetryAfter},
		{[]string{"86400"}, "", MaxRetryAfter},
		{[]string{"+3"}, "", 0},
		{[]string{"0x10"}, "", 0},
		{[]string{"1e3"}, "", 0},
		{[]string{"3,5"}, "", 0},
		{[]string{"3;q=1"}, "", 0},
		{[]string{"3\x00"}, "", 0},
		{[]string{"1", "30"}, "", 30 * time.Second},
		{[]string{strings.Repeat("9", 300_000)}, "", MaxRetryAfter},
		{[]string{now.Add(90 * time.Second).Format("Monday, 02-Jan-06 15:04:05 GMT")}, "", 90 * time.Second},
		{[]string{now.Add(90 * time.Second).Format(time.ANSIC)}, "", 90 * time.Second},
		{[]string{"Tue, 01 Dec 2026 09:00:60 GMT"}, "", 0},
		{[]string{"Mon, 99 Foo 2026 00:00:00 GMT"}, "", 0},
		{[]string{"Fri, 31 Dec 9999 23:59:59 GMT"}, "", MaxRetryAfter},
		{[]string{at(time.Minute)}, "", time.Minute},
		{[]string{at(-time.Minute)}, "", 0},
		{[]string{at(time.Hour)}, at(time.Hour - 10*time.Second), 10 * time.Second},
		{[]string{at(48 * time.Hour)}, "", MaxRetryAfter},
		{[]string{at(time.Minute)}, "nonsense", time.Minute},
	} {
		if got := retryAfter(tc.values, tc.date, now); got != tc.want {
			t.Errorf("retryAfter(%q, %q) = %v, want %v", tc.values, tc.date, got, tc.want)
		}
	}
}

func TestWaitUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := waitUntil(background, begin.Add(time.Second), nil); err != nil || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		closed := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(closed) })
		if err := waitUntil(background, time.Now().Add(time.Hour), closed); !errors.Is(err, errStale) {
			t.Errorf("closed: %v", err)
		}
		ctx, cancel := context.WithCancelCause(background)
		cancel(ErrStopped)
		if err := waitUntil(ctx, time.Time{}, nil); !errors.Is(err, ErrStopped) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestShort(t *testing.T) {
	t.Parallel()
	if got := short("a\r\nb\x00"); got != "a  b " {
		t.Errorf("%q", got)
	}
	got := short(strings.Repeat("ü", maxErrorBytes))
	if len(got) > maxErrorBytes+len("…") || !strings.HasSuffix(got, "ü…") {
		t.Errorf("%d bytes, %q", len(got), got)
	}
}

// A contract's credentials that are refused are every job's trouble, and a job's own
// are its own: those end it, and do not make the destination look ill.
func TestRefusedCredentialsBlameWhoGaveThem(t *testing.T) {
	t.Parallel()
	d := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(d.Close)
	s := newSender(t)
	of := []destination.Header{{Name: "Authorization", Value: "Bearer old"}}
	own := []job.Header{{Name: "authorization", Value: "Bearer mine"}}
	for name, tc := range map[string]struct {
		contract []destination.Header
		job      []job.Header
		want     job.Outcome
	}{
		"none":           {nil, nil, job.OutcomeAuth},
		"the contract's": {of, nil, job.OutcomeAuth},
		"the job's":      {nil, own, job.OutcomeRejected},
		"both":           {of, own, job.OutcomeAuth}, // the job's is not sent
	} {
		a := attemptTo(d.URL)
		a.Contract.Target.Headers, a.Job.Request.Headers = tc.contract, tc.job
		if r := s.Send(background, a); r.Outcome != tc.want || r.HTTPStatus != http.StatusUnauthorized {
			t.Errorf("%s: %+v, want %s", name, r, tc.want)
		}
	}
}
