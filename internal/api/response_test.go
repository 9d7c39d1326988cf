package api

import (
	"strings"
	"testing"

	"tundish/internal/job"
	"tundish/internal/queue"
)

func TestKeptResponseIsPayload(t *testing.T) {
	t.Parallel()
	keys, err := ParseKeys([]byte(`producers:
- {name: shop, keys: [{sha256: ` + sumOf("shop") + `}], scopes: [enqueue], destinations: ["*"]}
- {name: look, keys: [{sha256: ` + sumOf("look") + `}], scopes: [read], destinations: ["*"]}
- {name: all, keys: [{sha256: ` + sumOf("all") + `}], scopes: [read, payload], destinations: ["*"]}`))
	if err != nil {
		t.Fatal(err)
	}
	store := newFakeStore()
	id := job.NewID()
	store.status = &queue.Status{ID: id, State: job.Delivered, Producer: "shop", Response: &job.Response{HTTPStatus: 201, Body: []byte("made"),
		Headers: []job.Header{{Name: "Location", Value: "/p/1"}, {Name: "X", Value: "1"}, {Name: "X", Value: "2"}}}}
	a := newTestAPI(t, store, func(c *Config) { c.Keys = keys })
	const whole = `"response":{"http_status":201,"headers":{"Location":"/p/1","X":["1","2"]},"body":"made","truncated":false}`
	for key, want := range map[string]string{"shop": whole, "all": whole, "look": `"response":{"http_status":201,"truncated":false}`} {
		r := do(a, "GET", bankJobs+"/"+string(id), nil, "Tundish-Key", key)
		if r.status != 200 || !strings.Contains(string(r.body), want) {
			t.Errorf("%s sees %s, want %s", key, r.body, want)
		}
	}
}

func TestViewResponse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body, text, base64 string
		truncated          bool
	}{
		"text":       {"grün", "grün", "", false},
		"bytes":      {"\xff\x00", "", "/wA=", false},
		"cut rune":   {"gr\xc3", "gr", "", true},
		"cut bytes":  {"\xff\xc3", "", "/8M=", true},
		"torn rune":  {"gr\xc3", "", "Z3LD", false},
		"cut at end": {"grün", "grün", "", true},
		"empty":      {"", "", "", true},
	} {
		v := viewResponse(&job.Response{Body: []byte(tc.body), Truncated: tc.truncated}, true)
		if v.Body != tc.text || v.BodyBase64 != tc.base64 {
			t.Errorf("%s: %q, %q", name, v.Body, v.BodyBase64)
		}
	}
	if viewResponse(nil, true) != nil {
		t.Error("nothing was kept and something is shown")
	}
}
