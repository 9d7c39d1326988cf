package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWithKey(t *testing.T) {
	t.Parallel()
	cases := []struct{ in, want string }{
		{`{}`, `{"idempotency_key":"k"}`},
		{`{ "a" : 1.0 }`, `{"idempotency_key":"k","a" : 1.0 }`},
		{`{"idempotency_key":"mine"}`, `{"idempotency_key":"mine"}`},
		{`{"idempotency_key":7}`, `{"idempotency_key":7}`}, // for the API to refuse
		{`{"a":{ "b":1 },"idempotency_key":null,"a":2}`, `{"a":{ "b":1 },"a":2,"idempotency_key":"k"}`},
		{`{"a":{"idempotency_key":"inner"}}`, `{"idempotency_key":"k","a":{"idempotency_key":"inner"}}`},
		{`[1]`, `[1]`},
		{`{"a":1} x`, `{"a":1} x`},
		{`{"a"`, `{"a"`},
	}
	for _, c := range cases {
		if got := withKey([]byte(c.in), "k"); string(got) != c.want {
			t.Errorf("withKey(%s) = %s, want %s", c.in, got, c.want)
		}
	}
}

// Whatever the job, a key changes no byte of its body.
func TestWithKeyKeepsTheBody(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(rapid.String().Draw(t, "text"))
		if err != nil {
			t.Fatal(err)
		}
		space := rapid.SampledFrom([]string{"", " ", "\t "}).Draw(t, "space")
		body := "[" + space + string(text) + "," + space + "1.50]"
		null := rapid.SampledFrom([]string{"", `"idempotency_key":null,`}).Draw(t, "null")
		var job map[string]json.RawMessage
		if err := json.Unmarshal(withKey([]byte("{"+space+null+`"body":`+body+space+"}"), `k"\`), &job); err != nil {
			t.Fatal(err)
		}
		if string(job["body"]) != body || string(job["idempotency_key"]) != `"k\"\\"` {
			t.Fatalf("body %s, key %s, want %s", job["body"], job["idempotency_key"], body)
		}
	})
}

func TestScan(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", batchBytes)
	in := "one\r\n\n  two  \n" + long + "\nthree"
	var got []string
	err := scan(strings.NewReader(in), func(it *item) bool {
		doc := string(it.doc)
		if it.doc == nil {
			doc = "too long"
		}
		if part := strings.TrimSpace(in[it.start:it.end]); it.doc != nil && part != doc {
			t.Errorf("line %d says it is %q, and is %q", it.line, part, doc)
		}
		got = append(got, string(rune('0'+it.line))+doc)
		return true
	})
	if want := "1one|3two|4too long|5three"; err != nil || strings.Join(got, "|") != want {
		t.Errorf("scan: %v, %q, want %q", err, got, want)
	}
	stopped := 0
	if err := scan(strings.NewReader("a\nb\n"), func(*item) bool { stopped++; return false }); err != nil || stopped != 1 {
		t.Errorf("scan went on after it was stopped: %d lines, %v", stopped, err)
	}
	broken := errors.New("disk")
	if err := scan(&failing{broken}, func(*item) bool { return true }); !errors.Is(err, broken) {
		t.Errorf("scan: %v, want %v", err, broken)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func TestBackoff(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 100; n++ {
		if d := backoff(n); d < minBackoff/2 || d > maxBackoff {
			t.Errorf("backoff(%d) = %v", n, d)
		}
	}
	if d := backoff(20); d < maxBackoff/2 {
		t.Errorf("backoff(20) = %v, want the most", d)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "-1": 0, "x": 0, "99999999999": 0, "Mon, 02 Jan 2006 15:04:05 GMT": 0} {
		if got := retryAfter(text); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	c := newClock()
	s := &session{stderr: &b, now: c.now, getenv: func(string) string { return "" }, flags: &flags{}}

	p := newProgress(s, 100)
	p.update(tally{accepted: 1}, 2, 10)
	if b.Len() > 0 {
		t.Errorf("said %q at once, want a line now and then", b.String())
	}
	_ = c.sleep(t.Context(), plainEvery)
	p.update(tally{accepted: 5, refused: 1}, 7, 50)
	p.end()
	if got := b.String(); got != "line 7: 5 accepted, 1 refused\n" {
		t.Errorf("said %q", got)
	}

	b.Reset()
	bar := &barProgress{plain: &plainProgress{s: s}, bar: newBar(s, 100)}
	bar.update(tally{accepted: 5, refused: 1}, 7, 50)
	bar.say("full")
	bar.refused("jobs:%d: no", 3)
	bar.end()
	for _, text := range []string{"5 accepted, 1 refused", "50%", "full\n", "jobs:3: no\n"} {
		if !strings.Contains(b.String(), text) {
			t.Errorf("the bar wrote %q, want %q in it", b.String(), text)
		}
	}

	b.Reset()
	s.flags.Quiet = true
	quiet := newProgress(s, 100)
	_ = c.sleep(t.Context(), 2*plainEvery)
	quiet.update(tally{}, 1, 1)
	quiet.say("full")
	quiet.refused("jobs:3: no")
	if got := b.String(); got != "jobs:3: no\n" {
		t.Errorf("-q said %q, want only what went wrong", got)
	}
}
