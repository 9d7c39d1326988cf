package destination

import (
	"encoding/json"
	"strings"
	"testing"

	"tundish/internal/job"
)

const secret = "S3CR3T"

func TestTargetURL(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"https://api.bank.example/v1", "http://127.0.0.1:9090/", "http://[::1]:8080", "http://a/b%20c/", "https://xn--bcher-kva.example/",
	} {
		if c := mustParse(t, with(t, "target.http.url", `"`+good+`"`)); c.Target.URL != good {
			t.Errorf("%s becomes %s", good, c.Target.URL)
		}
	}
	for _, bad := range []string{
		"", "bank.example", "/v1", "//bank.example/v1", "ftp://bank.example", "file:///etc/passwd", "unix:/tmp/s", "http:", "http://", "http:///x", "http:a",
		"http://user@h/", "http://user:" + secret + "@h/", "http://@h/", "http://h/?token=" + secret, "http://h/?", "http://h/#" + secret, "http://h/#",
		"http://h:0/", "http://h:65536/", "http://h:/", "http://h:x/", "http://h h/", " http://h/", "http://h/a b", "http://h/\u00e9", "http://h\u00e9/",
		"http://h/%zz", "http://h/../x", "http://h/a/./b", "http://h/%2e%2e/x", "http://h\\x/", "http://h/\r\nX: y", "http://h/\u2028", "http://h%00/",
		"http://h/" + strings.Repeat("a", maxURLBytes),
	} {
		quoted, _ := json.Marshal(bad)
		_, _, err := ParseContract("bank", with(t, "target.http.url", string(quoted)))
		if job.CodeOf(err) != job.CodeInvalid {
			t.Errorf("%q gives %v", bad, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats the secret: %v", err)
		}
	}
	for _, shown := range []string{"http://${env:HOST}/", "${env:URL}"} {
		if _, _, err := ParseContract("bank", with(t, "target.http.url", `"`+shown+`"`)); job.CodeOf(err) != job.CodeInvalid {
			t.Errorf("%s gives %v", shown, err)
		}
	}
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{`true`: true, `false`: false, `null`: false} {
		c := mustParse(t, with(t, "target.http", `{"url":"https://a","http2":`+value+`}`))
		if filled := Effective(c).Target.HTTP; c.Target.HTTP2 != want || filled.HTTP2 != want {
			t.Errorf("%s becomes %v, shown as %v", value, c.Target.HTTP2, filled.HTTP2)
		}
	}
	mustParse(t, with(t, "target.http", `{"url":"http://a","http2":false}`))
	for _, bad := range []string{`{"url":"http://a","http2":true}`, `{"url":"https://a","http2":"true"}`, `{"url":"https://a","http2":1}`} {
		_, _, err := ParseContract("bank", with(t, "target.http", bad))
		if got := fields(err); len(got) != 1 || got[0].Pointer != "/target/http/http2" || got[0].Code != job.CodeInvalid {
			t.Errorf("%s gives %v", bad, err)
		}
	}
}

func TestTargetHeaders(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, value string }{
		{"Connection", `"close"`}, {"keep-alive", `"1"`}, {"Proxy-Connection", `"1"`}, {"TE", `"trailers"`}, {"Trailer", `"X"`}, {"Upgrade", `"h2c"`},
		{"Transfer-Encoding", `"chunked"`}, {"Content-Length", `"1"`}, {"Host", `"evil"`}, {"Expect", `"100-continue"`}, {"Proxy-Authorization", `"Basic x"`},
		{"Idempotency-Key", `"1"`}, {"idempotency-key", `"1"`}, {"Tundish-Job-Id", `"1"`}, {"tundish-x", `"1"`}, {"Traceparent", `"1"`},
		{"Bad Name", `"1"`}, {"", `"1"`}, {"A:", `"1"`}, {"É", `"1"`}, {"X\\r\\nY", `"1"`}, {strings.Repeat("a", 129), `"1"`},
		{"X-A", `"` + secret + `\r\nX-Injected: 1"`}, {"X-A", `"` + secret + `\u0000"`}, {"X-A", `" ` + secret + `"`}, {"X-A", `"é` + secret + `"`},
		{"X-A", `1`}, {"X-A", `true`}, {"X-A", `{}`}, {"X-A", `[1]`}, {"X-A", `[["a"]]`}, {"X-A", `"` + strings.Repeat("a", maxHeaderValueBytes+1) + `"`},
	} {
		_, _, err := ParseContract("bank", with(t, "target.http.headers", `{"`+test.name+`":`+test.value+`}`))
		if job.CodeOf(err) != job.CodeInvalid {
			t.Errorf("%s: %.40s gives %v", test.name, test.value, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats the secret: %v", err)
		}
	}
	for name, doc := range map[string]string{
		"twice by case": `{"X-A":"1","x-a":"2"}`,
		"65":            `{"A":["1"` + strings.Repeat(`,"1"`, 64) + `]}`,
		"over 32 KiB":   `{"A":["` + strings.Repeat("a", 8000) + `","` + strings.Repeat("a", 8000) + `","` + strings.Repeat("a", 8000) + `","` + strings.Repeat("a", 8000) + `","` + strings.Repeat("a", 8000) + `"]}`,
	} {
		if _, _, err := ParseContract("bank", with(t, "target.http.headers", doc)); job.CodeOf(err) != job.CodeInvalid {
			t.Errorf("%s gives %v", name, err)
		}
	}
	// The writer's own x- fields are no way round: a header is a header.
	if _, _, err := ParseContract("bank", with(t, "target.http.headers", `{"x-a":"a\nb"}`)); job.CodeOf(err) != job.CodeInvalid {
		t.Errorf("a line break in x-a gives %v", err)
	}
}

func TestKeyHeaderIsFree(t *testing.T) {
	t.Parallel()
	doc := `{"target":{"http":{"url":"http://a","headers":{"X-Key":"1"}}},"limits":[{"rate":1,"per":"1s"}],"idempotency":{"header":"x-key"}}`
	_, _, err := ParseContract("bank", []byte(doc))
	if got := fields(err); len(got) != 1 || got[0].Pointer != "/idempotency/header" {
		t.Errorf("the key's header as a fixed one gives %v", err)
	}
}

func TestMisplacedSecretsAreNotRepeated(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"target", "target.http", "target.http.headers", "limits", "target.http.password", "secrets", "target.http.auth"} {
		doc := with(t, path, `"https://user:`+secret+`@bank.example/?token=`+secret+`"`)
		_, _, err := ParseContract("bank", doc)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s gives %v", path, err)
		}
	}
}

// A URL in which several things are wrong tells all of them at once.
func TestTargetURLTellsEveryFault(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][]string{
		"ftp://user:" + secret + "@h:0/../x?token=" + secret + "#f": {"scheme", "user or password", "host or port", "query", "fragment", "segments"},
		"http://h/a b?x": {"percent-encoding", "query"},
		"bank.example":   {"scheme", "no host"},
	} {
		_, _, err := ParseContract("bank", with(t, "target.http.url", `"`+url+`"`))
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%q is missing: %v", text, err)
			}
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats the secret: %v", err)
		}
	}
}
