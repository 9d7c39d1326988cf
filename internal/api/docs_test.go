package api

import (
	"bytes"
	"compress/gzip"
	"io"
	"regexp"
	"strings"
	"testing"

	"tundish/internal/job"
)

// The page of the API works without any other host: what it refers to is
// here, and its policy allows nothing else.
func TestDocsLoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore(), testKeys(t)) // no key is asked for
	page := do(a, "GET", "/docs", nil)
	policy := page.header.Get("Content-Security-Policy")
	if page.status != 200 || !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") || !strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") {
		t.Fatalf("%d %v", page.status, page.header)
	}
	if strings.Contains(policy, "http") || strings.Contains(policy, "*") || strings.Contains(policy, "unsafe-eval") {
		t.Errorf("the policy allows other hosts or eval: %s", policy)
	}
	if text := string(page.body); strings.Contains(text, "//") || regexp.MustCompile(`<script>|<style| on[a-z]+=`).MatchString(text) {
		t.Errorf("the page has a link to elsewhere or inline script: %s", text)
	}
	links := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(string(page.body), -1)
	kinds := map[string]string{}
	for _, link := range links {
		r := do(a, "GET", "/"+link[1], nil)
		if r.status != 200 || len(r.body) == 0 {
			t.Errorf("%s: %d", link[1], r.status)
		}
		kinds[link[1]] = r.header.Get("Content-Type")
		if strings.HasSuffix(link[1], ".css") && regexp.MustCompile(`@import|url\(["']?(https?:)?//`).Match(r.body) {
			t.Errorf("%s loads from elsewhere", link[1])
		}
	}
	for name, want := range map[string]string{"docs/swagger-ui-bundle.js": "text/javascript", "docs/swagger-ui.css": "text/css", "docs/start.js": "text/javascript",
		"docs/favicon-32x32.png": "image/png", "openapi.json": "application/openapi+json"} {
		if !strings.HasPrefix(kinds[name], want) {
			t.Errorf("%s is %q, want %s", name, kinds[name], want)
		}
	}
	start := string(do(a, "GET", "/docs/start.js", nil).body)
	if !strings.Contains(start, `url: "openapi.json"`) || !strings.Contains(start, "validatorUrl: null") {
		t.Errorf("start.js: %s", start)
	}
	do(a, "GET", "/docs/swagger-ui.css.gz", nil).problem(t, job.CodeNotFound)
}

func TestDocsAssetsAreZipped(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, newFakeStore())
	const script = "/docs/swagger-ui-bundle.js"
	plain, zipped := do(a, "GET", script, nil), do(a, "GET", script, nil, "Accept-Encoding", "br, gzip")
	if plain.header.Get("Content-Encoding") != "" || zipped.header.Get("Content-Encoding") != "gzip" || zipped.header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("%v and %v", plain.header, zipped.header)
	}
	unzip, err := gzip.NewReader(bytes.NewReader(zipped.body))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(unzip); err != nil || !bytes.Equal(data, plain.body) {
		t.Errorf("%d bytes and %d bytes: %v", len(data), len(plain.body), err)
	}
}

func TestDocsWithASlash(t *testing.T) {
	t.Parallel()
	r := do(newTestAPI(t, newFakeStore()), "GET", "/docs/", nil)
	if r.status != 301 || r.header.Get("Location") != "../docs" {
		t.Errorf("%d %v", r.status, r.header)
	}
}
