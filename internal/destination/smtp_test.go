package destination

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"tundish/internal/job"
)

// mailContract is a contract with this smtp target and, behind it, these fields.
func mailContract(smtp, more string) []byte {
	return []byte(`{"target":{"smtp":` + smtp + `},"limits":[{"rate":1,"per":"1s"}]` + more + `}`)
}

func TestSMTPTarget(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]SMTPTarget{
		`{"host":"mx.example","from":"a@b.example"}`: {Host: "mx.example", Port: 587, From: "<a@b.example>", TLS: StartTLS, Timeout: time.Minute},
		`{"host":"10.0.0.1","from":"Shop <a@b.example>","tls":"none","timeout":"5s"}`: {Host: "10.0.0.1", Port: 25, From: `"Shop" <a@b.example>`, TLS: NoTLS,
			Timeout: 5 * time.Second},
		`{"host":"::1","port":2465,"from":"a@b.example","tls":"implicit","username":"u","password":"${env:P}"}`: {Host: "::1", Port: 2465, From: "<a@b.example>",
			TLS: ImplicitTLS, Username: "u", Password: "${env:P}", Timeout: time.Minute},
		`{"host":"h","from":"a@b","tls":"implicit","username":"${file:/run/u}","password":"${file:/run/p}"}`: {Host: "h", Port: 465, From: "<a@b>",
			TLS: ImplicitTLS, Username: "${file:/run/u}", Password: "${file:/run/p}", Timeout: time.Minute},
		`{"host":"h","from":"a@b","username":"${secret:user}","password":"${secret:password}"}`: {Host: "h", Port: 587, From: "<a@b>",
			TLS: StartTLS, Username: "${secret:user}", Password: "${secret:password}", Timeout: time.Minute},
	} {
		full := mailContract(doc, "")
		c := mustParse(t, full)
		if c.SMTP == nil || *c.SMTP != want || !reflect.DeepEqual(c.Target, HTTPTarget{}) || c.Timeout() != want.Timeout {
			t.Errorf("%s gives %+v, %+v", doc, c.SMTP, c.Target)
		}
		checkRoundTrip(t, "bank", full)
	}
}

func TestBadSMTPTarget(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ smtp, more, pointers string }{
		{`{}`, ``, "/target/smtp/from /target/smtp/host"},
		{`[]`, ``, "/target/smtp"},
		{`{"host":"smtp://h","port":0,"from":"nobody","tls":"yes","timeout":"11m"}`, ``,
			"/target/smtp/from /target/smtp/host /target/smtp/port /target/smtp/timeout /target/smtp/tls"},
		{`{"host":"h:25","from":"a@b.example, c@d.example"}`, ``, "/target/smtp/from /target/smtp/host"},
		{`{"host":"h","from":"a@b\r\nBcc: x@y"}`, ``, "/target/smtp/from"},
		{`{"host":"h","from":5}`, ``, "/target/smtp/from"},
		{`{"host":"h","from":"a@b","username":"u"}`, ``, "/target/smtp/password"},
		{`{"host":"h","from":"a@b","password":"${env:P}"}`, ``, "/target/smtp/username"},
		{`{"host":"h","from":"a@b","username":"u","password":"` + secret + `"}`, ``, "/target/smtp/password"},
		{`{"host":"h","from":"a@b","username":"u","password":"` + secret + `${env:P}"}`, ``, "/target/smtp/password"},
		{`{"host":"h","from":"a@b","username":"u","password":"${env:}"}`, ``, "/target/smtp/password"},
		{`{"host":"h","from":"a@b","username":"u","password":"${secret:no blanks}"}`, ``, "/target/smtp/password"},
		{`{"host":"h","from":"a@b","username":"x${env:U}","password":"${env:P}"}`, ``, "/target/smtp/username"},
		{`{"host":"h","from":"a@b","tls":"none","username":"u","password":"${env:P}"}`, ``, "/target/smtp/username"},
		{`{"host":"h","from":"a@b","hots":1}`, ``, "/target/smtp/hots"},
		{`{"host":"h","from":"a@b"}`, `,"idempotency":{"header":"Subject"}`, "/idempotency/header"},
		{`{"host":"h","from":"a@b"}`, `,"idempotency":{"header":"reply-to"}`, "/idempotency/header"},
		{`{"host":"h","from":"a@b"}`, `,"retry":{"max_age":"30s"}`, "/retry/max_age"},
		{`{"host":"h","from":"a@b"},"http":{"url":"http://a"}`, ``, "/target/smtp"},
	} {
		_, _, err := ParseContract("mail", mailContract(test.smtp, test.more))
		var got []string
		for _, f := range fields(err) {
			got = append(got, f.Pointer)
		}
		if strings.Join(got, " ") != test.pointers || job.CodeOf(err) != job.CodeInvalid {
			t.Errorf("%s%s gives %v", test.smtp, test.more, err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats the password: %v", err)
		}
	}
}

func TestSMTPTargetInLayers(t *testing.T) {
	t.Parallel()
	f, err := ParseFile([]byte("classes:\n  mail:\n    target: {smtp: {host: h, from: a@b}}\n    limits: [{rate: 1, per: 1s}]\n"+
		"destinations:\n  - {name: m, class: mail, target: {smtp: {from: c@d}}}\n"), "f")
	if err != nil || f.Destinations[0].Contract.SMTP.From != "<c@d>" || f.Destinations[0].Contract.SMTP.Host != "h" {
		t.Errorf("%+v, %v", f, err)
	}
}
