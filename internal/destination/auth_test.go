package destination

import (
	"reflect"
	"strings"
	"testing"

	"tundish/internal/job"
)

func TestTargetWithAllFields(t *testing.T) {
	t.Parallel()
	for _, auth := range []string{
		`"auth":{"basic":{"username":"tundish","password":"${file:/run/p}"}}`,
		`"auth":{"oauth2":{"token_url":"https://id.example/token","client_id":"${env:ID}","client_secret":"${secret:s}","scopes":["pay","read:all"]}}`,
	} {
		doc := with(t, "target.http", `{"url":"https://a",`+auth+`,"tls":{"ca_file":"/etc/ca.pem","cert_file":"/c","key_file":"/k","server_name":"bank.example"},
			"sign":{"scheme":"standard_webhooks","secrets":["${env:A}","${env:B}"]},"keep_response":{"body":"4KiB","headers":["Content-Type","Location"]}}`)
		if !checkRoundTrip(t, "bank", doc) {
			t.Errorf("%s is refused", doc)
		}
		c := mustParse(t, doc)
		if c.Target.Keep.Body != 4096 || c.Target.TLS.KeyFile != "/k" || (c.Target.Auth.Basic == nil) == (c.Target.Auth.OAuth2 == nil) {
			t.Errorf("%+v", c.Target)
		}
	}
	if w := Warnings(mustParse(t, with(t, "target.http", `{"url":"http://a","auth":{"oauth2":{"token_url":"http://id","client_id":"a","client_secret":"${env:A}"}}}`))); len(w) != 2 {
		t.Errorf("credentials in the clear: %q", w)
	}
	c := mustParse(t, with(t, "target.http.auth", `{"oauth2":{"token_url":"https://id.example/token","client_id":"${env:ID}","client_secret":"${secret:s}"}}`))
	if want := []Reference{{FromEnv, "ID"}, {Sealed, "s"}}; !reflect.DeepEqual(c.References(), want) {
		t.Errorf("references %v, want %v", c.References(), want)
	}
}

func TestTargetFieldsAreChecked(t *testing.T) {
	t.Parallel()
	const oauth2 = `"token_url":"https://id/t","client_id":"a","client_secret":"${env:A}"`
	for doc, want := range map[string]string{
		`"auth":{}`:                          "auth",
		`"auth":"` + secret + `"`:            "auth",
		`"auth":{"bearer":"` + secret + `"}`: "auth auth/bearer",
		`"auth":{"basic":{}}`:                "auth/basic/password auth/basic/username",
		`"auth":{"basic":{"username":"a","password":"` + secret + `"}}`:                     "auth/basic/password",
		`"auth":{"basic":{"username":7,"password":7}}`:                                      "auth/basic/password auth/basic/username",
		`"auth":{"basic":{"username":"${x}","password":"${env:A}"}}`:                        "auth/basic/username",
		`"auth":{"basic":{"username":"a","password":"${env:A}"},"oauth2":{` + oauth2 + `}}`: "auth",
		`"auth":{"oauth2":{}}`: "auth/oauth2/client_id auth/oauth2/client_secret auth/oauth2/token_url",
		`"auth":{"oauth2":{"token_url":"https://u:` + secret + `@id/t","client_id":"a","client_secret":"` + secret + `"}}`: "auth/oauth2/client_secret auth/oauth2/token_url",
		`"auth":{"oauth2":{` + oauth2 + `,"scopes":["a b","","é",1,"c"]}}`:                                                 "auth/oauth2/scopes/0 auth/oauth2/scopes/1 auth/oauth2/scopes/2 auth/oauth2/scopes/3",
		`"auth":{"oauth2":{` + oauth2 + `}},"headers":{"authorization":"x"}`:                                               "headers/authorization",
		`"tls":{}`:                                                   "tls",
		`"tls":{"ca_file":"ca.pem"}`:                                 "tls/ca_file",
		`"tls":{"ca_file":"${env:CA}"}`:                              "tls/ca_file",
		`"tls":{"cert_file":"/a/../b"}`:                              "tls/cert_file tls/key_file",
		`"tls":{"key_file":"/k"}`:                                    "tls/cert_file",
		`"tls":{"server_name":"a b"}`:                                "tls/server_name",
		`"tls":{"server_name":"a","insecure":true}`:                  "tls/insecure",
		`"keep_response":{"body":"65KiB"}`:                           "keep_response/body",
		`"keep_response":{"body":4096}`:                              "keep_response/body",
		`"keep_response":{"headers":["a","A","b c","Set-Cookie",1]}`: "keep_response/headers/1 keep_response/headers/2 keep_response/headers/3 keep_response/headers/4",
	} {
		_, _, err := ParseContract("bank", with(t, "target.http", `{"url":"https://a",`+doc+`}`))
		var got []string
		for _, f := range fields(err) {
			got = append(got, strings.TrimPrefix(f.Pointer, "/target/http/"))
		}
		if strings.Join(got, " ") != want || job.CodeOf(err) != job.CodeInvalid {
			t.Errorf("%s gives %v\nwant problems at %s", doc, err, want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats the secret: %v", err)
		}
	}
	if _, _, err := ParseContract("bank", with(t, "target.http", `{"url":"http://a","tls":{"server_name":"a"}}`)); len(fields(err)) != 1 || fields(err)[0].Pointer != "/target/http/tls" {
		t.Errorf("tls without https gives %v", err)
	}
}
