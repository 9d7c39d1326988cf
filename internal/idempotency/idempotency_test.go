package idempotency

import (
	"strings"
	"testing"

	"tundish/internal/destination"
	"tundish/internal/job"
)

func TestCheckKey(t *testing.T) {
	t.Parallel()
	for key, ok := range map[string]bool{
		"a": true, "8e03978e-40d5-43dd-bc93-6894a57f9324": true, "!~": true, strings.Repeat("k", 255): true,
		"": false, strings.Repeat("k", 256): false, "a b": false, "a ": false, "\t": false, "a\x00": false, "ü": false, "a\x7f": false,
	} {
		if err := CheckKey(key); (err == nil) != ok {
			t.Errorf("%q: %v", key, err)
		} else if err != nil && len(key) > 0 && strings.Contains(err.Error(), key) && len(key) > 3 {
			t.Errorf("the error repeats the key: %v", err)
		}
	}
}

func TestKeyHashKeepsProducersApart(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, in := range [][2]string{{"", "k"}, {"a", "k"}, {"b", "k"}, {"", "K"}, {"ak", ""}, {"a", "kk"}, {"ak", "k"}, {"", "k "}} {
		h := KeyHash(in[0], in[1])
		if in[1] == "" {
			if h != NoKey {
				t.Errorf("no key is %q", h)
			}
			continue
		}
		if len(h) != HashLength || h == NoKey || strings.ContainsAny(h, "|\x00 ") {
			t.Errorf("%q", h)
		}
		if before, ok := seen[h]; ok {
			t.Errorf("%v and %s hash alike", in, before)
		}
		seen[h] = strings.Join(in[:], "/")
		if KeyHash(in[0], in[1]) != h {
			t.Error("another hash at the second time")
		}
	}
}

func request() *job.Job {
	return &job.Job{Tenant: "t", Request: job.Request{Method: "POST", Path: "/p?a=1", ContentType: "text/plain",
		Headers: []job.Header{{Name: "X-A", Value: "1"}, {Name: "X-B", Value: "2"}}, Body: []byte("body")}}
}

func TestFingerprintTellsRequestsApart(t *testing.T) {
	t.Parallel()
	same := Fingerprint(request())
	if len(same) != HashLength {
		t.Errorf("%q", same)
	}
	for name, change := range map[string]func(j *job.Job){
		"tenant": func(j *job.Job) { j.Tenant = "u" }, "method": func(j *job.Job) { j.Request.Method = "PUT" },
		"path": func(j *job.Job) { j.Request.Path = "/p" }, "query": func(j *job.Job) { j.Request.Path = "/p?a=2" },
		"content type": func(j *job.Job) { j.Request.ContentType = "" }, "body": func(j *job.Job) { j.Request.Body = []byte("body ") },
		"header value":   func(j *job.Job) { j.Request.Headers[0].Value = "2" },
		"header order":   func(j *job.Job) { h := j.Request.Headers; h[0], h[1] = h[1], h[0] },
		"header dropped": func(j *job.Job) { j.Request.Headers = j.Request.Headers[:1] },
		// A field may not run over into the next.
		"boundary":      func(j *job.Job) { j.Request.Method, j.Request.Path = "POST/", "p?a=1" },
		"header bounds": func(j *job.Job) { j.Request.Headers = []job.Header{{Name: "X-A1X-B", Value: "2"}} },
		"into the body": func(j *job.Job) {
			j.Request.Headers, j.Request.Body = j.Request.Headers[:1], []byte("X-B2body")
		},
	} {
		j := request()
		change(j)
		if Fingerprint(j) == same {
			t.Errorf("another %s has the same fingerprint", name)
		}
	}
	for name, change := range map[string]func(j *job.Job){
		"id": func(j *job.Job) { j.ID = job.NewID() }, "priority": func(j *job.Job) { j.Priority = 9 }, "delay": func(j *job.Job) { j.Delay = 5 },
		"metadata": func(j *job.Job) { j.Metadata = map[string]string{"a": "b"} }, "producer": func(j *job.Job) { j.Producer = "p" },
	} {
		j := request()
		change(j)
		if Fingerprint(j) != same {
			t.Errorf("another %s has another fingerprint", name)
		}
	}
}

func TestDownstream(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		prefix              destination.Prefix
		producer, key, want string
	}{
		{destination.PrefixProducer, "shop", "k", "shop:k"}, {destination.PrefixNone, "shop", "k", "k"}, {destination.PrefixProducer, "", "k", "k"},
		{"", "shop", "k", "shop:k"}, {destination.PrefixProducer, "shop", "", "the-id"}, {destination.PrefixNone, "", "", "the-id"},
	} {
		j := &job.Job{ID: "the-id", Producer: tt.producer, IdempotencyKey: tt.key}
		if got := Downstream(tt.prefix, j); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// Hashes are stored: those of a version before must be found again.
func TestHashesAreAsTheyWere(t *testing.T) {
	t.Parallel()
	if h := KeyHash("shop", "order-77"); h != "zJtnjTEVWdhHswC0MQdYVA" {
		t.Errorf("key hash %s", h)
	}
	if f := Fingerprint(request()); f != "GXKu21xGdys46rW6EekYEg" {
		t.Errorf("fingerprint %s", f)
	}
}
