package queue

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tundish/internal/job"
)

// envelopeOf is what the push script makes of a job, in Go.
func envelopeOf(t fataler, j *job.Job, order, expiry string) []byte {
	t.Helper()
	body, err := encodeBody(j)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if expiry == "0" {
		expiry = ""
	}
	return append(fmt.Appendf(nil, "2%d%s%s|%d|-|%s\x00", j.Priority, order, expiry, len(body), j.Tenant), body...)
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func anyJob(t *rapid.T) *job.Job {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("aZ9|;:\"\\é世\x7f ")), 0, 40, 120)
	j := &job.Job{ID: job.NewID(), Destination: "bank", Producer: text.Draw(t, "producer"), Tenant: text.Draw(t, "tenant"),
		Priority: rapid.IntRange(0, 9).Draw(t, "priority"), CreatedAt: time.UnixMilli(rapid.Int64Range(1, 4e12).Draw(t, "created")).UTC(),
		Timeout: time.Duration(rapid.IntRange(0, 100000).Draw(t, "timeout")) * time.Millisecond, MaxAttempts: rapid.IntRange(0, 50).Draw(t, "attempts"),
		IdempotencyKey: text.Draw(t, "key"), DownstreamKey: text.Draw(t, "downstream"),
		Request: job.Request{Method: text.Draw(t, "method"), Path: text.Draw(t, "path"), ContentType: text.Draw(t, "type"),
			Body: rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "body")}}
	if j.DownstreamKey == "" {
		j.DownstreamKey = cmp.Or(j.IdempotencyKey, string(j.ID)) // as the store fills it in
	}
	if rapid.Bool().Draw(t, "headers") {
		j.Request.Headers = []job.Header{{Name: "A", Value: text.Draw(t, "a")}, {Name: "a", Value: ""}, {Name: "B", Value: "caf\xe9" + text.Draw(t, "b")}}
		j.Metadata = map[string]string{"order": text.Draw(t, "metadata")}
		j.DeliverAt = time.UnixMilli(rapid.Int64Range(1, 4e12).Draw(t, "deliver")).UTC()
		j.ExpiresAt = time.UnixMicro(1_790_000_000_123_456).UTC()
	}
	return j
}

func TestDecodeReadsWhatWasEncoded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j, expiry := anyJob(t), "0"
		if !j.ExpiresAt.IsZero() {
			expiry = "1790000000123456"
		}
		got, err := Decode("bank", j.ID, envelopeOf(t, j, "0617d425b08000", expiry))
		if err != nil {
			t.Fatalf("%v", err)
		}
		if !bytes.Equal(got.Request.Body, j.Request.Body) {
			t.Fatalf("body %x, want %x", got.Request.Body, j.Request.Body)
		}
		got.Request.Body, j.Request.Body = nil, nil
		if !reflect.DeepEqual(got, j) {
			t.Fatalf("got  %+v\nwant %+v", got, j)
		}
	})
}

// TestScriptMakesTheSameEnvelope on both backends, for any bytes.
func TestScriptMakesTheSameEnvelope(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, backend)
			b.apply(perSecond(50), "")
			rapid.Check(t, func(rt *rapid.T) {
				j := anyJob(rt)
				j.IdempotencyKey = "" // it stands in the header as a hash
				j.DeliverAt = time.Time{}
				if !j.ExpiresAt.IsZero() {
					j.ExpiresAt = time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
				}
				b.accept(j)
				env, err := b.db.Client().HGet(context.Background(), b.key("jobs"), string(j.ID)).Bytes()
				if err != nil {
					rt.Fatalf("%v", err)
				}
				if want := envelopeOf(rt, j, string(env[2:16]), strconv.FormatInt(micros(j.ExpiresAt), 10)); !bytes.Equal(env, want) {
					rt.Fatalf("\n%q, want\n%q", env, want)
				}
				got, err := Decode(b.lane, j.ID, env)
				if err != nil || !got.ExpiresAt.Equal(j.ExpiresAt) {
					rt.Fatalf("expires %v, want %v: %v", got.ExpiresAt, j.ExpiresAt, err)
				}
				b.turn(1, settleAll(b.turn(100).Leases, KindDelivered)...)
			})
		})
	}
}

func FuzzDecode(f *testing.F) {
	j := &job.Job{ID: job.NewID(), Tenant: "a", CreatedAt: time.UnixMilli(1), Request: job.Request{Body: []byte("x")}}
	good := string(envelopeOf(f, j, "0617d425b08000", "1790000000123456"))
	for _, s := range []string{good, good[:20], good[:len(good)-1], good + "x", "1" + good[1:], "", strings.Replace(good, "|", "", 1),
		strings.Replace(good, "{", "}", 1), strings.Replace(good, "1790", "x", 1), good[:20] + strings.Repeat("\x00", 100)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, env []byte) {
		got, err := Decode("bank", j.ID, env)
		if (got == nil) == (err == nil) {
			t.Fatalf("%v and %v", got, err)
		}
		if err != nil && len(err.Error()) > 300+2*len(env) {
			t.Errorf("an error of %d characters", len(err.Error()))
		}
		if err == nil && (got.Priority < 0 || got.Priority > 9 || len(got.Tenant) > 255) {
			t.Errorf("%+v", got)
		}
	})
}

func TestNotesKeepTheLastAttempts(t *testing.T) {
	t.Parallel()
	var n Note
	for i := range 30 {
		n.Add(job.Attempt{Number: i + 1, Outcome: job.OutcomeTimeout})
	}
	n.Response = &job.Response{HTTPStatus: 503, Headers: []job.Header{{Name: "A", Value: "b"}, {Name: "X-A", Value: "caf\xe9"}}, Body: []byte("no\x00"), Truncated: true}
	n.Created = time.UnixMilli(5).UTC()
	got := DecodeNote(n.Encode())
	if len(got.Attempts) != job.MaxAttemptsKept || got.Attempts[0].Number != 11 || !reflect.DeepEqual(got, n) {
		t.Errorf("%+v", got)
	}
	for _, damaged := range []string{"", "{", "[]", `{"a":7}`, "\xff"} {
		if got := DecodeNote([]byte(damaged)); !reflect.DeepEqual(got, Note{}) {
			t.Errorf("%q: %+v", damaged, got)
		}
	}
}
