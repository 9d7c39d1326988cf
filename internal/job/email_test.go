package job

import (
	"bytes"
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a@b.example":                          "<a@b.example>",
		" a@B.Example ":                        "<a@b.example>",
		"Ann B <a@b.example>":                  `"Ann B" <a@b.example>`,
		`"Ann,  B" <a@b.example>`:              `"Ann, B" <a@b.example>`,
		"Jürgen <j@xn--bcher-kva.example>":     "=?utf-8?q?J=C3=BCrgen?= <j@xn--bcher-kva.example>",
		"jürgen@b.example":                     "<jürgen@b.example>",
		`"odd local"@b.example`:                `<"odd local"@b.example>`,
		"root@localhost":                       "<root@localhost>",
		strings.Repeat("a", 64) + "@b.example": "<" + strings.Repeat("a", 64) + "@b.example>",
	} {
		a, err := ParseAddress(in)
		if err != nil || a.String() != want {
			t.Errorf("%q: %q, %v; want %q", in, a, err, want)
			continue
		}
		if again, err := ParseAddress(a.String()); err != nil || again != a {
			t.Errorf("%q read again is %#v, %v", a, again, err)
		}
	}
	for _, bad := range []string{
		"", "a", "a@", "@b.example", "a@b@c", "a@b.example, c@d.example", "a b@c.example", "a@b..example", "a@-b.example", "a@b_c.example",
		"a@[127.0.0.1]", "a@bücher.example", "a@b.example\r\nRCPT TO:<x@y.example>", "a\x00@b.example", "A\n <a@b.example>",
		"=?utf-8?q?a=0D=0AX=3A?= <a@b.example>", strings.Repeat("a", 65) + "@b.example", "a@" + strings.Repeat("b", 64) + ".example",
		strings.Repeat("n", 257) + " <a@b.example>",
	} {
		if a, err := ParseAddress(bad); err == nil {
			t.Errorf("%q is taken as %q", bad, a)
		} else if len(bad) > 20 && strings.Contains(err.Error(), bad) {
			t.Errorf("the error repeats %q", bad)
		}
	}
}

func TestCheckEmailHeader(t *testing.T) {
	t.Parallel()
	for _, good := range [][2]string{{"X-Tag", "a b"}, {"Reply-To", "Ann <a@b.example>"}, {"List-Unsubscribe", "<https://a.example/u>"}, {"X-Tag", "gr\u00fc\u00dfe"}, {"X-Tag", ""}} {
		if err := CheckEmailHeader(good[0], good[1], "Idempotency-Key"); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, bad := range [][2]string{
		{"From", "a@b.example"}, {"sender", "a"}, {"To", "a"}, {"Cc", "a"}, {"BCC", "a"}, {"Subject", "a"}, {"Date", "a"}, {"Message-ID", "a"},
		{"message-id", "a"}, {"MIME-Version", "1.0"}, {"Content-Type", "a"}, {"content-transfer-encoding", "a"}, {"Return-Path", "a"}, {"Received", "a"},
		{"Resent-From", "a"}, {"Tundish-Job-Id", "a"}, {"idempotency-key", "a"}, {"", "a"}, {"A B", "a"}, {"A:", "a"}, {"\u00c4", "a"}, {"X\r\nY", "a"},
		{"X-A", "a\r\nBcc: x@y.example"}, {"X-A", "a\nb"}, {"X-A", "a\x00"}, {"X-A", strings.Repeat("a", 994)}, {"Reply-To", "nobody"},
	} {
		if CheckEmailHeader(bad[0], bad[1], "Idempotency-Key") == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestEmailIsStoredAndReadAgain(t *testing.T) {
	t.Parallel()
	e := &Email{To: []string{"<a@b.example>"}, Subject: "<1 & 2>", Text: "t", Headers: []Header{{"X-A", "b"}},
		Attachments: []Attachment{{Name: "a.bin", ContentType: "a/b", Content: []byte{0, 255}}}}
	body, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeEmail(&Request{ContentType: EmailType, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	again, err := got.Encode()
	if err != nil || !bytes.Equal(again, body) {
		t.Errorf("%s became %s, %v", body, again, err)
	}
	for _, bad := range []Request{{Body: body}, {ContentType: EmailType, Body: []byte("{")}} {
		if _, err := DecodeEmail(&bad); err == nil {
			t.Errorf("%s is read as an email", bad.Body)
		}
	}
}
