package api

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// mailStore is a store whose one destination sends mail.
func mailStore() *fakeStore {
	s := newFakeStore()
	c, _, err := destination.ParseContract("bank", []byte(`{"target":{"smtp":{"host":"h","from":"shop@b.example"}},
		"queue":{"max_job_bytes":"8KiB"},"limits":[{"rate":1,"per":"1s"}]}`))
	if err != nil {
		panic(err)
	}
	s.contract = c
	return s
}

func TestEmailIsStored(t *testing.T) {
	t.Parallel()
	s := mailStore()
	a := newTestAPI(t, s)
	doc := `{"email":{"to":["Ann <ann@A.example>","b@b.example"],"cc":"c@c.example","bcc":["d@d.example"],"subject":"Hi  there","text":"t","html":"<b>t</b>",
		"headers":{"X-B":"2","X-A":"1  1","Reply-To":"Help <h@b.example>"},"attachments":[{"name":"a.pdf","content_type":"application/pdf","content_base64":"AP8="},
		{"name":"b","content_base64":""}]},"tenant":"t","timeout":"30s"}`
	if r := do(a, "POST", bankJobs, strings.NewReader(doc)); r.status != 202 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	want := &job.Email{To: []string{`"Ann" <ann@a.example>`, "<b@b.example>"}, CC: []string{"<c@c.example>"}, BCC: []string{"<d@d.example>"},
		Subject: "Hi there", Text: "t", HTML: "<b>t</b>", Headers: []job.Header{{Name: "Reply-To", Value: "Help <h@b.example>"}, {Name: "X-A", Value: "1 1"}, {Name: "X-B", Value: "2"}},
		Attachments: []job.Attachment{{Name: "a.pdf", ContentType: "application/pdf", Content: []byte{0, 255}}, {Name: "b", ContentType: "application/octet-stream", Content: []byte{}}}}
	got, err := job.DecodeEmail(&s.jobs[0].Request)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
}

func TestBadEmails(t *testing.T) {
	t.Parallel()
	many := `"a@b.example"` + strings.Repeat(`,"a@b.example"`, 100)
	for _, tc := range []struct{ name, email, pointers string }{
		{"nothing", `{}`, "/email /email"},
		{"no object", `[]`, "/email"},
		{"nobody", `{"to":[],"text":"t"}`, "/email"},
		{"nothing to read", `{"to":"a@b.example"}`, "/email"},
		{"addresses", `{"to":["a@b.example","nobody",1],"cc":"x@","bcc":[null],"text":"t"}`, "/email/to/1 /email/to/2 /email/cc /email/bcc/0"},
		{"101 addresses", `{"to":[` + many + `],"text":"t"}`, "/email"},
		{"51 and 50 addresses", `{"to":[` + strings.Repeat(`"a@b.example",`, 50) + `"a@b.example"],"cc":[` + strings.Repeat(`"a@b.example",`, 49) + `"a@b.example"],"text":"t"}`, "/email"},
		{"injection in an address", `{"to":"a@b.example\r\nRCPT TO:<x@y.example>","text":"t"}`, "/email/to"},
		{"injection in the subject", `{"to":"a@b.example","subject":"a\r\nBcc: x@y.example","text":"t"}`, "/email/subject"},
		{"NUL in the subject", `{"to":"a@b.example","subject":"a\u0000","text":"t"}`, "/email/subject"},
		{"long subject", `{"to":"a@b.example","subject":"` + strings.Repeat("s", 990) + `","text":"t"}`, "/email/subject"},
		{"headers", `{"to":"a@b.example","text":"t","headers":{"From":"x@y.example","Bcc":"x@y.example","X-A":"a\nb","X-B":1,"x-c":"1","X-C":"2","Idempotency-Key":"k","A B":"c"}}`,
			"/email/headers/From /email/headers/Bcc /email/headers/X-A /email/headers/X-B /email/headers/X-C /email/headers/Idempotency-Key /email/headers/A B"},
		{"headers are a list", `{"to":"a@b.example","text":"t","headers":[]}`, "/email/headers"},
		{"text", `{"to":"a@b.example","text":1,"html":{}}`, "/email/text /email/html"},
		{"unknown", `{"to":"a@b.example","text":"t","from":"x@y.example"}`, "/email/from"},
		{"attachments", `{"to":"a@b.example","text":"t","attachments":[{},1,{"name":"a/b","content_base64":"%"},{"name":"a","content_base64":"","content_type":"message/rfc822"},
			{"name":"a","content_base64":"","content_type":"text","size":"1"},{"name":"a\"b\r\nX: y","content_base64":""}]}`,
			"/email/attachments/0/name /email/attachments/0/content_base64 /email/attachments/1 /email/attachments/2/name /email/attachments/2/content_base64 " +
				"/email/attachments/3/content_type /email/attachments/4/content_type /email/attachments/4/size /email/attachments/5/name"},
		{"attachments are an object", `{"to":"a@b.example","text":"t","attachments":{}}`, "/email/attachments"},
		{"51 attachments", `{"to":"a@b.example","text":"t","attachments":[` + strings.Repeat(`{},`, 50) + `{}]}`, "/email/attachments"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := mailStore()
			a := newTestAPI(t, s)
			p := do(a, "POST", bankJobs, strings.NewReader(`{"email":`+tc.email+`}`)).problem(t, job.CodeInvalid)
			if p.pointers() != tc.pointers {
				t.Errorf("pointers %q, want %q: %v", p.pointers(), tc.pointers, p.Errors)
			}
			if len(s.calls) != 0 {
				t.Error("the store was called")
			}
		})
	}
}

func TestFieldsOfTheOtherKind(t *testing.T) {
	t.Parallel()
	const email = `"email":{"to":"a@b.example","text":"t"}`
	for _, tc := range []struct {
		store         *fakeStore
		doc, pointers string
	}{
		{mailStore(), `{` + email + `,"method":"PUT","path":"/x","headers":{"A":"b"},"body":1,"body_text":"x","body_base64":"","content_type":"a/b"}`,
			"/method /path /headers /body /body_text /body_base64 /content_type"},
		{mailStore(), `{"body":1}`, "/body /email"},
		{mailStore(), `{}`, "/email"},
		{newFakeStore(), `{` + email + `}`, "/email"},
		{newFakeStore(), `{` + email + `,"body":1,"priority":10}`, "/email /priority"},
	} {
		p := do(newTestAPI(t, tc.store), "POST", bankJobs, strings.NewReader(tc.doc)).problem(t, job.CodeInvalid)
		if p.pointers() != tc.pointers {
			t.Errorf("%s: pointers %q, want %q", tc.doc, p.pointers(), tc.pointers)
		}
	}
}

func TestLargeEmailIsRefused(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t, mailStore())
	doc := `{"email":{"to":"a@b.example","text":"` + strings.Repeat("t", 8<<10) + `"}}`
	do(a, "POST", bankJobs, strings.NewReader(doc)).problem(t, job.CodeTooLarge)
}

func TestEmailSchemaNamesEveryField(t *testing.T) {
	t.Parallel()
	var named []string
	for f := range reflect.TypeFor[emailSchema]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			named = append(named, name)
		}
	}
	var read []string
	for name := range emailFields {
		read = append(read, name)
	}
	slices.Sort(named)
	slices.Sort(read)
	if !slices.Equal(named, read) {
		t.Errorf("described %v, read %v", named, read)
	}
}

func FuzzParseEmail(f *testing.F) {
	f.Add([]byte(`{"to":["Ann <a@b.example>"],"cc":"c@d.example","subject":"s","text":"t","headers":{"X-A":"b"},"attachments":[{"name":"a","content_base64":"AA=="}]}`))
	contract := mailStore().contract
	f.Fuzz(func(t *testing.T, email []byte) {
		doc := []byte(`{"email":` + string(email) + `}`)
		if checkJSON(doc) != nil {
			return
		}
		j, err := parseJob(doc, "p", contract, time.Unix(1e9, 0))
		if err != nil {
			if job.CodeOf(err) == job.CodeInternal {
				t.Fatal(err)
			}
			return
		}
		e, err := job.DecodeEmail(&j.Request)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range [][]string{e.To, e.CC, e.BCC} {
			for _, s := range list {
				if a, err := job.ParseAddress(s); err != nil || a.String() != s {
					t.Fatalf("%q is stored and read as %q, %v", s, a, err)
				}
			}
		}
		if again, err := e.Encode(); err != nil || string(again) != string(j.Request.Body) || !json.Valid(again) {
			t.Fatalf("%s became %s, %v", j.Request.Body, again, err)
		}
	})
}
