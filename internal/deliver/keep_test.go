package deliver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"tundish/internal/destination"
	"tundish/internal/job"
)

func TestKeepResponse(t *testing.T) {
	t.Parallel()
	answer := func(status, length int, headers, body string) string {
		return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n%s", status, length, headers, body)
	}
	const headers = "Content-Type: text/plain\r\nX-Ref: a\r\nX-Ref: b\r\nSet-Cookie: s3cret\r\n"
	for name, tc := range map[string]struct {
		keep   destination.KeepResponse
		answer string
		want   string
	}{
		"off":          {destination.KeepResponse{}, answer(200, 2, headers, "ok"), "nothing"},
		"whole":        {destination.KeepResponse{Body: 10}, answer(200, 2, headers, "ok"), `200 [] "ok" false`},
		"just fits":    {destination.KeepResponse{Body: 2}, answer(200, 2, headers, "ok"), `200 [] "ok" false`},
		"cut":          {destination.KeepResponse{Body: 3}, answer(422, 7, headers, "problem"), `422 [] "pro" true`},
		"headers":      {destination.KeepResponse{Headers: []string{"x-ref", "Content-Type", "None"}}, answer(503, 2, headers, "no"), `503 [{X-Ref a} {X-Ref b} {Content-Type text/plain}] "" false`},
		"no body":      {destination.KeepResponse{Body: 10}, "HTTP/1.1 204 X\r\n\r\n", `204 [] "" false`},
		"broke off":    {destination.KeepResponse{Body: 10}, answer(200, 9, headers, "ok"), `200 [] "ok" true`},
		"large":        {destination.KeepResponse{Body: 4}, answer(200, 1<<20, "", strings.Repeat("x", 1<<20)), `200 [] "xxxx" true`},
		"large header": {destination.KeepResponse{Headers: []string{"X-L"}}, answer(200, 2, "X-L: "+strings.Repeat("x", maxKeptHeaderBytes+1)+"\r\n", "ok"), `200 [] "" true`},
		"redirect":     {destination.KeepResponse{Headers: []string{"Location"}}, answer(302, 0, "Location: /a\r\n", ""), `302 [{Location /a}] "" false`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serveRaw(t, func(s *rawServer, _ int, c net.Conn) {
				if _, _, err := s.readRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, tc.answer) // who has read enough hangs up
				}
			})
			a := attemptTo(srv.url())
			a.Contract.Target.Keep = tc.keep
			r := newSender(t).Send(background, a)
			got := "nothing"
			if k := r.Response; k != nil {
				got = fmt.Sprintf("%d %v %q %v", k.HTTPStatus, k.Headers, k.Body, k.Truncated)
			}
			if got != tc.want || !r.Wrote || r.HTTPStatus == 0 {
				t.Errorf("kept %s, want %s (%+v)", got, tc.want, r)
			}
		})
	}
	// An answer that repeats its request is kept without the secrets of it.
	const secret = "S3CR3T-of-some-length"
	for name, tc := range map[string]struct {
		most         int64
		before, want string
	}{
		"whole":   {1000, "you sent ", `"you sent ${env:a}, ${env:a}" false`},
		"shorter": {18, "you sent ", `"you sent ${env:a}," true`},
		"cut":     {12, "you sent ", `"you sent ${e" true`},
		"behind":  {3, "you sent ", `"you" true`},
		"one":     {1, "", `"$" true`},
	} {
		text := tc.before + secret + ", " + secret
		srv := serveRaw(t, answering(answer(200, len(text), "X-Echo: "+secret+"\r\n", text)))
		a := attemptTo(srv.url())
		a.Contract.Target.Headers = []destination.Header{{Name: "X", Value: "${env:a}"}}
		a.Contract.Target.Keep = destination.KeepResponse{Body: tc.most, Headers: []string{"X-Echo"}}
		k := newSender(t, with(held{"a": secret})).Send(background, a).Response
		if got := fmt.Sprintf("%q %v", k.Body, k.Truncated); got != tc.want || k.Headers[0].Value != "${env:a}" {
			t.Errorf("%s: kept %s, %v, want %s", name, got, k.Headers, tc.want)
		}
	}
	// What is kept does not cost the connection.
	srv := serveRaw(t, answering(answer(200, 7, headers, "problem")))
	s := newSender(t)
	for range 3 {
		a := attemptTo(srv.url())
		a.Contract.Target.Keep = destination.KeepResponse{Body: 3}
		wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
	}
	if conns, requests := srv.counts(); conns != 1 || requests != 3 {
		t.Errorf("%d connections for %d requests", conns, requests)
	}
}

// However often an answer repeats a secret, and whichever secret begins with
// another: nothing of one is kept, and what is left out is told.
func TestSecretsAreHiddenInLongAnswers(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	long := "S3CR3T-" + strings.Repeat("abcdefgh", 127)
	for name, text := range map[string]string{
		"beyond the bound": strings.Repeat("x", 100) + strings.Repeat(long, 80),
		"one in another":   "you sent " + long,
	} {
		srv := serveRaw(t, answering(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)))
		a := attemptTo(srv.url())
		a.Contract.Target.Headers = []destination.Header{{Name: "A", Value: "${env:SHORT}"}, {Name: "B", Value: "${env:LONG}"}}
		a.Contract.Target.Keep = destination.KeepResponse{Body: most}
		k := newSender(t, with(held{"SHORT": long[:7], "LONG": long})).Send(background, a).Response
		if strings.ContainsAny(string(k.Body), "3abcd") || k.Truncated != (len(text) > most) {
			t.Errorf("%s: kept %d bytes, truncated %v: %.60q", name, len(k.Body), k.Truncated, k.Body)
		}
	}
}
