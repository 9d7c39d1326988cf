package destination

import (
	"os"
	"strings"
	"testing"

	"tundish/internal/job"
)

const withSecret = `{"target":{"http":{"url":"http://a","headers":{"Authorization":"Bearer ${secret:token}"}}},"limits":[{"rate":1,"per":"1s"}]`

func TestSecretsAreNoPartOfTheContract(t *testing.T) {
	t.Parallel()
	c, written, secrets, err := ParseBody("bank", []byte(withSecret+`,"secrets":{"token":"`+secret+`","other":null}}`))
	if err != nil || len(secrets) != 1 || secrets["token"] != secret {
		t.Fatalf("%v, %v", secrets, err)
	}
	if strings.Contains(string(written), secret) || strings.Contains(string(written), "secrets") || c.Sealed != nil {
		t.Errorf("written as %s", written)
	}
	checkRoundTrip(t, "bank", written)
	if _, _, secrets, err = ParseBody("bank", []byte(withSecret+"}")); err != nil || len(secrets) != 0 {
		t.Errorf("without secrets: %v, %v", secrets, err)
	}
}

func TestSecretsThatCannotBe(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		`{"token":7}`:                      "/secrets/token",
		`{"token":""}`:                     "/secrets/token",
		`{"token":{"a":"` + secret + `"}}`: "/secrets/token",
		`{"token":"` + secret + `\n"}`:     "/secrets/token",
		`{"to ken":"` + secret + `"}`:      "/secrets/to ken",
		`{"tokens":"` + secret + `"}`:      "/secrets/tokens", // nothing refers to it
		`"` + secret + `"`:                 "/secrets",
		`["` + secret + `"]`:               "/secrets",
		`{"token":"` + strings.Repeat(secret, maxSecretBytes) + `"}`: "/secrets/token",
	} {
		_, _, _, err := ParseBody("bank", []byte(withSecret+`,"secrets":`+doc+`}`))
		got := fields(err)
		if len(got) != 1 || got[0].Pointer != want || job.CodeOf(err) != job.CodeInvalid || strings.Contains(err.Error(), secret) {
			t.Errorf("%.60s gives %v, want a problem at %s", doc, err, want)
		}
	}
	// Stored contracts and files have none.
	_, _, err := ParseContract("bank", []byte(withSecret+`,"secrets":{"token":"`+secret+`"}}`))
	if got := fields(err); len(got) != 1 || got[0].Pointer != "/secrets" || strings.Contains(err.Error(), secret) {
		t.Errorf("in a stored contract: %v", err)
	}
}

// What docs/secrets.md shows can be written so.
func TestDocumentedSecrets(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/secrets.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string) string {
		_, rest, _ := strings.Cut(string(text), "```"+kind+"\n")
		inner, _, _ := strings.Cut(rest, "```")
		return inner
	}
	f := mustParseFile(t, "destinations:\n- name: bank\n  limits: [{rate: 1, per: 1s}]\n  "+strings.ReplaceAll(block("yaml"), "\n", "\n  "))
	if c := f.Destinations[0].Contract; len(c.References()) != 4 || c.Target.TLS.KeyFile == "" || c.Target.Keep.Body != 4096 {
		t.Errorf("%+v", c)
	}
	if _, _, secrets, err := ParseBody("bank", []byte(block("json"))); err != nil || secrets["password"] == "" {
		t.Errorf("%v, %v", secrets, err)
	}
}
