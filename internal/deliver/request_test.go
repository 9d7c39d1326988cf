package deliver

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// onTheWire sends one attempt and returns the bytes the destination read.
func onTheWire(t *testing.T, change func(*Attempt)) string {
	t.Helper()
	srv := serveRaw(t, answering(okAnswer))
	a := attemptTo(srv.url() + "/v1")
	change(&a)
	wantOutcome(t, newSender(t).Send(background, a), job.OutcomeDelivered, true)
	return srv.seen()
}

// headerLines returns the values of a header as written, with the name's case ignored.
func headerLines(wire, name string) []string {
	head, _, _ := strings.Cut(wire, "\r\n\r\n")
	var values []string
	for line := range strings.SplitSeq(head, "\r\n") {
		if n, v, ok := strings.Cut(line, ": "); ok && strings.EqualFold(n, name) {
			values = append(values, v)
		}
	}
	return values
}

func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	wire := onTheWire(t, func(a *Attempt) {
		a.Number = 3
		a.Contract.Target.Headers = []destination.Header{
			{Name: "Authorization", Value: "Bearer s3cret"},
			{Name: "X-Team", Value: "contract"}, {Name: "X-Kept", Value: "yes"},
			{Name: "Host", Value: "virtual.example"},
		}
		a.Job.ID = "0123456789abcdefghijkl"
		a.Job.Request = job.Request{
			Path: "/payouts/a%2Fb;v=1?mode=fast&q=%zz+[x]", ContentType: "application/json", Body: []byte(`{"a":1}`),
			Headers: []job.Header{
				{Name: "X-A", Value: "1"}, {Name: "Accept", Value: "a"}, {Name: "x-a", Value: "2"}, {Name: "Accept", Value: "b"},
				{Name: "x-team", Value: "job"}, {Name: "authorization", Value: "Bearer other"}, {Name: "X-Uni", Value: "grün"},
			},
		}
	})
	if line, _, _ := strings.Cut(wire, "\r\n"); line != "POST /v1/payouts/a%2Fb;v=1?mode=fast&q=%zz+[x] HTTP/1.1" {
		t.Errorf("request line %q", line)
	}
	for name, want := range map[string][]string{
		"Host":              {"virtual.example"},
		"Authorization":     {"Bearer s3cret"},
		"X-Team":            {"job"},
		"X-Kept":            {"yes"},
		"X-A":               {"1", "2"},
		"Accept":            {"a", "b"},
		"X-Uni":             {"grün"},
		"Content-Type":      {"application/json"},
		"Content-Length":    {"7"},
		"Idempotency-Key":   {"shop:order-77"},
		"Tundish-Job-Id":    {"0123456789abcdefghijkl"},
		"Tundish-Attempt":   {"3"},
		"User-Agent":        {"tundish"},
		"Accept-Encoding":   nil,
		"Transfer-Encoding": nil,
		"Connection":        nil,
	} {
		if got := headerLines(wire, name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if !strings.HasSuffix(wire, "\r\n\r\n"+`{"a":1}`) {
		t.Errorf("body: %q", wire)
	}
	if tp := headerLines(wire, "Traceparent"); len(tp) != 1 || !regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-00$`).MatchString(tp[0]) {
		t.Errorf("traceparent %q", tp)
	}
}

func TestHeadersThatMayBeReplaced(t *testing.T) {
	t.Parallel()
	wire := onTheWire(t, func(a *Attempt) {
		a.Key, a.Traceparent = "", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		a.Job.Request.ContentType = "application/json"
		a.Job.Request.Headers = []job.Header{
			{Name: "Authorization", Value: "mine"}, {Name: "User-Agent", Value: "shop"}, {Name: "Content-Type", Value: "text/x"},
		}
	})
	if got := headerLines(wire, "Idempotency-Key"); len(got) != 1 || len(got[0]) != job.IDLength {
		t.Errorf("without a key the job's id stands in: %q", got)
	}
	for name, want := range map[string]string{
		"Authorization": "mine", "User-Agent": "shop", "Content-Type": "text/x",
		"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	} {
		if got := headerLines(wire, name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Always a Content-Length where a body may be, never chunked.
func TestContentLength(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, body string
		want         []string
	}{
		{"POST", "", []string{"0"}}, {"PUT", "", []string{"0"}}, {"PATCH", "", []string{"0"}},
		{"DELETE", "", []string{"0"}}, {"PURGE", "", []string{"0"}},
		{"GET", "", nil}, {"HEAD", "", nil}, {"OPTIONS", "", nil},
		{"POST", "x", []string{"1"}}, {"GET", "xy", []string{"2"}}, {"DELETE", "xyz", []string{"3"}},
		{"", "abcd", []string{"4"}},
	} {
		t.Run(tc.method+tc.body, func(t *testing.T) {
			t.Parallel()
			answer := okAnswer
			if tc.method == "HEAD" {
				answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
			}
			srv := serveRaw(t, answering(answer))
			s := newSender(t)
			a := attemptTo(srv.url())
			a.Job.Request.Method, a.Job.Request.Body = tc.method, []byte(tc.body)
			for range 2 {
				wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
			}
			wire := srv.seen()
			if got := headerLines(wire, "Content-Length"); !slices.Equal(got, tc.want) {
				t.Errorf("Content-Length %q, want %q in %q", got, tc.want, wire)
			}
			if te := headerLines(wire, "Transfer-Encoding"); te != nil {
				t.Errorf("Transfer-Encoding %q", te)
			}
			if conns, requests := srv.counts(); conns != 1 || requests != 2 {
				t.Errorf("%d connections, %d requests", conns, requests)
			}
		})
	}
}

// A small request is one packet: headers and body leave in one write.
func TestOneWrite(t *testing.T) {
	t.Parallel()
	first := make(chan int, 1)
	srv := serveRaw(t, func(_ *rawServer, _ int, c net.Conn) {
		b := make([]byte, 64<<10)
		n, _ := c.Read(b)
		first <- n
		r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(string(b[:n])), c)))
		if err == nil {
			io.Copy(io.Discard, r.Body)
			io.WriteString(c, okAnswer)
		}
	})
	a := attemptTo(srv.url())
	a.Job.Request.Body = make([]byte, 5000)
	wantOutcome(t, newSender(t).Send(background, a), job.OutcomeDelivered, true)
	if n := <-first; n < 5000 {
		t.Errorf("the first read saw %d bytes", n)
	}
}

// What cannot be sent is not sent, and never comes back.
func TestUnsendable(t *testing.T) {
	t.Parallel()
	srv := serveRaw(t, answering(okAnswer))
	s := newSender(t)
	for name, change := range map[string]func(*Attempt){
		"no contract":     func(a *Attempt) { a.Contract = nil },
		"no job":          func(a *Attempt) { a.Job = nil },
		"method":          func(a *Attempt) { a.Job.Request.Method = "GE T" },
		"connect":         func(a *Attempt) { a.Job.Request.Method = "CONNECT" },
		"header name":     func(a *Attempt) { a.Job.Request.Headers = []job.Header{{Name: "Bad Name", Value: "x"}} },
		"header value":    func(a *Attempt) { a.Job.Request.Headers = []job.Header{{Name: "X", Value: "a\r\nX-Injected: s3cret"}} },
		"hop by hop":      func(a *Attempt) { a.Job.Request.Headers = []job.Header{{Name: "te", Value: "s3cret"}} },
		"content type":    func(a *Attempt) { a.Job.Request.ContentType = "a\nb" },
		"key":             func(a *Attempt) { a.Key = "a\nb" },
		"id":              func(a *Attempt) { a.Job.ID = "a\nb" },
		"path":            func(a *Attempt) { a.Job.Request.Path = "/../x?token=s3cret" },
		"query":           func(a *Attempt) { a.Job.Request.Path = "/x?token=s3cret y" },
		"target":          func(a *Attempt) { a.Contract.Target.URL = "ftp://h/" },
		"target's user":   func(a *Attempt) { a.Contract.Target.URL = "http://u:s3cret@h/" },
		"contract header": func(a *Attempt) { a.Contract.Target.Headers = []destination.Header{{Name: "X", Value: "s3cret\x00"}} },
	} {
		a := attemptTo(srv.url())
		change(&a)
		r := s.Send(background, a)
		wantOutcome(t, r, job.OutcomeBadRequest, false)
		if r.Error == "" || strings.Contains(r.Error, "s3cret") {
			t.Errorf("%s: error %q", name, r.Error)
		}
	}
	if seen := srv.seen(); seen != "" {
		t.Errorf("bytes arrived: %q", seen)
	}
}

func TestValidateHeader(t *testing.T) {
	t.Parallel()
	for _, h := range [][2]string{{"X-Keep", "1"}, {"Accept", ""}, {"x_y", "a\tb"}, {"Content-Type", "a/b"}, {"Cookie", "a=b"}, {"Te-x", "1"}} {
		if err := ValidateHeader(h[0], h[1]); err != nil {
			t.Errorf("%q: %v", h, err)
		}
	}
	for _, h := range [][2]string{
		{"", "x"}, {"Bad Name", "x"}, {"X:", "x"}, {"X\r\nY", "x"}, {"Ü", "x"},
		{"X", "a\r\nb"}, {"X", "a\nb"}, {"X", "a\x00"}, {"X", "\x7f"},
		{"connection", "keep-alive"}, {"Keep-Alive", "x"}, {"TE", "trailers"}, {"trailer", "x"}, {"Transfer-encoding", "chunked"},
		{"UPGRADE", "h2c"}, {"Proxy-Authorization", "x"}, {"proxy-connection", "x"}, {"Expect", "100-continue"},
		{"Host", "h"}, {"Content-Length", "1"}, {"content-length", "1"}, {"Idempotency-Key", "k"}, {"tundish-job-id", "x"}, {"TraceParent", "x"},
	} {
		if err := ValidateHeader(h[0], h[1]); err == nil {
			t.Errorf("%q passed", h)
		}
	}
}

func TestValidatePath(t *testing.T) {
	t.Parallel()
	const base = "https://bank.example/v1"
	for path, want := range map[string]string{
		"":                        "/v1",
		"/":                       "/v1/",
		"?a=b":                    "/v1?a=b",
		"?":                       "/v1?",
		"payouts":                 "/v1/payouts",
		"/payouts?mode=fast":      "/v1/payouts?mode=fast",
		"/a%2Fb/c%20d":            "/v1/a%2Fb/c%20d",
		"/a//b/":                  "/v1/a//b/",
		"/...":                    "/v1/...",
		"/a..b/..c":               "/v1/a..b/..c",
		"/x?next=../..//h&u=a\\b": "/v1/x?next=../..//h&u=a\\b",
		"/a:b/@c":                 "/v1/a:b/@c",
		"/100%25":                 "/v1/100%25",
	} {
		u, err := join(base, path)
		if err != nil || u.RequestURI() != want || u.Host != "bank.example" {
			t.Errorf("%q: %v, %v, want %s", path, u, err, want)
		}
	}
	for _, path := range []string{
		"/..", "/a/../b", "..", "/%2e%2e/b", "/.%2E/b", "/%2E./", "/%252e%252e/b", "/%25252e./b", "/%252e%252e/100%25", "/100%25/%252e%252e", "/a/..;x/b", "/a%2f..%2fb", "/..%2f",
		"//evil.example/x", "http://evil.example", "https:evil", "/a\\b", "/a%5cb", "/a%5C..%5Cb", "/a%255cb",
		"/a b", "/a\nb", "/a%0ab", "/a%00", "/a%7f", "/ü", "/a|b", "/%", "/%zz", "/#x", "/x?a=b#c", "/x?a b", "/x?\r\nHost: h", "/x?ü",
		"/" + strings.Repeat("a", job.MaxPathBytes),
	} {
		err := ValidatePath(base, path)
		if err == nil {
			t.Errorf("%q passed", path)
		} else if strings.Contains(err.Error(), "evil") {
			t.Errorf("%q is quoted in %v", path, err)
		}
	}
	for _, target := range []string{"", "/x", "ftp://h", "http://", "http://u@h", "http://h?x=1", "http://h/#f", "://"} {
		if ValidatePath(target, "/") == nil {
			t.Errorf("target %q passed", target)
		}
	}
	if u, _ := join("http://h", ""); u.RequestURI() != "/" {
		t.Errorf("empty target path gives %q", u.RequestURI())
	}
}

// Whatever passes is sent as it was written, below the target, on one line.
func TestAnyPathStaysBelow(t *testing.T) {
	t.Parallel()
	gen := rapid.StringOf(rapid.SampledFrom([]rune(`/.%2eEfF5cC;\ ?#:@a` + "\n")))
	rapid.Check(t, func(t *rapid.T) {
		path := gen.Draw(t, "path")
		u, err := join("http://h/v1", path)
		if err != nil {
			return
		}
		uri := u.RequestURI()
		if u.Host != "h" || !strings.HasPrefix(uri, "/v1") || !strings.HasSuffix(uri, path) || strings.ContainsAny(uri, " \r\n#") {
			t.Fatalf("%q became %q", path, uri)
		}
		if clean := u.JoinPath(); !strings.HasPrefix(clean.Path, "/v1") {
			t.Fatalf("%q leaves the target: %q", path, clean.Path)
		}
	})
}
