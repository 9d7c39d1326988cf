package destination

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"tundish/internal/job"
)

func TestReferencesAreKept(t *testing.T) {
	t.Parallel()
	c := mustParse(t, with(t, "target.http", `{"url":"http://a","headers":{"Authorization":"Bearer ${env:A_1}","X":["${file:/run/secrets/x}-${secret:a.b-c}","plain $ {x}"]},
		"sign":{"scheme":"standard_webhooks","secrets":["${file:/run/secrets/new}","${env:A_1}"]}}`))
	_, written, _ := ParseContract("bank", with(t, "target.http", `{"url":"http://a","sign":{"scheme":"standard_webhooks","secrets":["${file:/run/secrets/new}"]}}`))
	checkRoundTrip(t, "bank", written)
	want := []Reference{{FromEnv, "A_1"}, {FromFile, "/run/secrets/x"}, {Sealed, "a.b-c"}, {FromFile, "/run/secrets/new"}}
	if got := c.References(); !reflect.DeepEqual(got, want) {
		t.Errorf("references %v, want %v", got, want)
	}
	if got := c.Target.Headers[0].Value; got != "Bearer ${env:A_1}" {
		t.Errorf("the header became %q", got)
	}
}

func TestMalformedReferences(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"${", "${}", "${env}", "${env:}", "${env:A", "a ${env:A} ${env:B", "${env:A-B}", "${env:1A}", "${env:TUNDISH_REDIS_URL}", "${ENV:A}", "${vault:" + secret + "}",
		"${file:a}", "${file:}", "${file:/a/../b}", "${file:/a/}", "${file:" + strings.Repeat("/a", 600) + "}", "${secret:}", "${secret:a b}", "${" + secret + "}",
	} {
		for path, doc := range map[string]string{
			"/target/http/headers/Authorization": `{"url":"http://a","headers":{"Authorization":"B"}}`,
			"/target/http/sign/secrets/0":        `{"url":"http://a","sign":{"scheme":"standard_webhooks","secrets":["B"]}}`,
		} {
			text, _ := json.Marshal("x" + bad)
			_, _, err := ParseContract("bank", with(t, "target.http", strings.Replace(doc, `"B"`, string(text), 1)))
			got := fields(err)
			if len(got) != 1 || got[0].Pointer != path || got[0].Code != job.CodeInvalid || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %q gives %v", path, bad, err)
			}
		}
	}
}

func TestAllReferenceProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, _, err := ParseContract("bank", with(t, "target.http", `{"url":"http://a/${env:A}","headers":{"A":"${env:","B":["ok","${x}"]},"sign":{"scheme":"sha1","secrets":["whsec_`+secret+`","${env:-}",7]}}`))
	var got []string
	for _, f := range fields(err) {
		got = append(got, strings.TrimPrefix(f.Pointer, "/target/http/"))
	}
	if want := []string{"headers/A", "headers/B/1", "sign/scheme", "sign/secrets/0", "sign/secrets/1", "sign/secrets/2", "url"}; !reflect.DeepEqual(got, want) {
		t.Errorf("problems at %v, want %v", got, want)
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("the error repeats the secret: %v", err)
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	value := func(r Reference) (string, error) {
		if r.Name == "bad" {
			return "", errors.New("no")
		}
		return "<" + r.Name + "${env:x}>", nil // what a secret holds is no reference
	}
	for in, want := range map[string]string{"": "", "a": "a", "${env:A}": "<A${env:x}>", "a${env:A}b${secret:c}d": "a<A${env:x}>b<c${env:x}>d"} {
		if got, err := Expand(in, value); got != want || err != nil {
			t.Errorf("%q becomes %q, %v, want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{"a${env:bad}", "a${env:A}${x}"} {
		if got, err := Expand(bad, value); err == nil || got != "" {
			t.Errorf("%q becomes %q, %v", bad, got, err)
		}
	}
}

func TestSign(t *testing.T) {
	t.Parallel()
	for _, bad := range []struct{ doc, pointer string }{
		{`{}`, "sign/scheme"}, {`{"scheme":"standard_webhooks"}`, "sign/secrets"}, {`{"scheme":"standard_webhooks","secrets":[]}`, "sign/secrets"},
		{`{"scheme":"hmac","secrets":["${env:A}"]}`, "sign/scheme"}, {`{"scheme":"standard_webhooks","secrets":"${env:A}"}`, "sign/secrets"},
		{`{"scheme":"standard_webhooks","secrets":["${env:A}","${env:A}","${env:A}","${env:A}","${env:A}","${env:A}"]}`, "sign/secrets"},
		{`{"scheme":"standard_webhooks","secrets":["${env:A}"],"key":1}`, "sign/key"}, {`"x"`, "sign"},
	} {
		_, _, err := ParseContract("bank", with(t, "target.http.sign", bad.doc))
		if got := fields(err); len(got) == 0 || got[0].Pointer != "/target/http/"+bad.pointer || job.CodeOf(err) != job.CodeInvalid {
			t.Errorf("%s gives %v, want a problem at %s", bad.doc, err, bad.pointer)
		}
	}
	doc := `{"target":{"http":{"url":"http://a","headers":{"webhook-id":"1"},"sign":{"scheme":"standard_webhooks","secrets":["${env:A}"]}}},"limits":[{"rate":1,"per":"1s"}],"idempotency":{"header":"Webhook-Signature"}}`
	_, _, err := ParseContract("bank", []byte(doc))
	if got := fields(err); len(got) != 2 || got[0].Pointer != "/idempotency/header" || got[1].Pointer != "/target/http/headers/webhook-id" {
		t.Errorf("headers where the signature goes give %v", err)
	}
}
