package deliver

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	webhook "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tundish/internal/destination"
	"tundish/internal/job"
)

const (
	signA = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	signB = "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY="
)

// held is a Secrets for tests; a name without a value cannot be resolved.
type held map[string]string

func (h held) Value(_ *destination.Contract, r destination.Reference) (string, error) {
	if v, ok := h[r.Name]; ok {
		return v, nil
	}
	return "", errors.New(r.String() + ": is not set")
}

func with(s Secrets) func(*Config) { return func(c *Config) { c.Secrets = s } }

func signed(a Attempt, secrets ...string) Attempt {
	a.Contract.Target.Sign = destination.Sign{Scheme: destination.StandardWebhooks, Secrets: secrets}
	return a
}

// The vector that the implementations of the specification share.
func TestSignVector(t *testing.T) {
	t.Parallel()
	key, err := ParseSignSecret(signA)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{"Webhook-Id": {"somebody else's"}}
	Sign(h, [][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 999), []byte(`{"test": 2432232314}`))
	for name, want := range map[string]string{"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
		"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="} {
		if got := h[name]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if len(h) != 3 {
		t.Errorf("%v", h)
	}
}

func TestSignSecrets(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "whsec_", strings.TrimPrefix(signA, "whsec_"), "whsec_!!!!", "whsec_c2hvcnQ=", signA + "\n\n ", "whsk_" + signA,
		"whsec_" + strings.Repeat("QUFB", 22)} {
		_, err := ParseSignSecret(bad)
		if err == nil || len(bad) > 10 && strings.Contains(err.Error(), bad[6:]) {
			t.Errorf("%q gives %v", bad, err)
		}
	}
}

// verifying answers 200 to what a receiver with this secret takes, and keeps the headers.
func verifying(t *testing.T, secret string, got chan<- http.Header) string {
	receiver, err := webhook.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a torn one is not verified
		if receiver.Verify(body, r.Header) != nil {
			w.WriteHeader(http.StatusForbidden)
		}
		got <- r.Header
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestReceiversVerify(t *testing.T) {
	t.Parallel()
	s := newSender(t, with(held{"a": signA, "b": signB}))
	for _, secret := range []string{signA, signB} { // old and new while the secret is being changed
		got := make(chan http.Header, 1)
		a := signed(attemptTo(verifying(t, secret, got)), "${env:a}", "${secret:b}")
		a.Job.Request.Body = []byte("{\"a\": 1.50}\n\xff")
		a.Job.Request.Headers = []job.Header{{Name: "Webhook-Signature", Value: "v1,mine"}, {Name: "webhook-id", Value: "mine"}}
		wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
		h := <-got
		if id, n := h.Get("Webhook-Id"), strings.Count(h.Get("Webhook-Signature"), "v1,"); id != string(a.Job.ID) || n != 2 {
			t.Errorf("id %q, %d signatures", id, n)
		}
	}
	got := make(chan http.Header, 1)
	r := s.Send(background, signed(attemptTo(verifying(t, signA, got)), "${env:b}"))
	wantOutcome(t, r, job.OutcomeRejected, true)
	<-got
}

// Each attempt is signed for the moment at which it may be written.
func TestEachAttemptIsSignedAnew(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 2)
	url := verifying(t, signA, got)
	s := newSender(t, with(held{"a": signA}))
	a := signed(attemptTo(url), "${env:a}")
	wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
	a.At = time.Now().Add(1100 * time.Millisecond)
	wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
	first, second := <-got, <-got
	if second.Get("webhook-timestamp") != strconv.FormatInt(a.At.Unix(), 10) || first.Get("webhook-signature") == second.Get("webhook-signature") {
		t.Errorf("first %v, second %v", first, second)
	}
	if first.Get("webhook-id") != second.Get("webhook-id") {
		t.Error("the id changed")
	}
}

func TestReferencesInHeaders(t *testing.T) {
	t.Parallel()
	srv := serveRaw(t, answering(okAnswer))
	a := attemptTo(srv.url())
	a.Contract.Target.Headers = []destination.Header{{Name: "X-Plain", Value: "p"}, {Name: "Authorization", Value: "Bearer ${env:a}"}, {Name: "X-B", Value: "${secret:b}${env:a}"}}
	s := newSender(t, with(held{"a": "s3cret", "b": "é"}))
	wantOutcome(t, s.Send(background, a), job.OutcomeDelivered, true)
	for name, want := range map[string]string{"X-Plain": "p", "Authorization": "Bearer s3cret", "X-B": "és3cret"} {
		if got := headerLines(srv.seen(), name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if a.Contract.Target.Headers[1].Value != "Bearer ${env:a}" {
		t.Error("the contract was changed")
	}
}

// What cannot be resolved is the destination's fault: nothing is written, and
// the text names references, all of them, and no value.
func TestFaults(t *testing.T) {
	t.Parallel()
	srv := serveRaw(t, answering(okAnswer))
	for name, tc := range map[string]struct {
		secrets Secrets
		want    []string
	}{
		"missing":      {held{"a": "s3cret"}, []string{"${env:b}: is not set", "${env:c}: is not set"}},
		"none at all":  {nil, []string{"${env:a}: references", "${env:b}: references", "${env:c}: references"}},
		"line break":   {held{"a": "s3cret\r\nX-Evil: 1", "b": signA, "c": signA}, []string{"headers: value of header Authorization has a control character"}},
		"no signature": {held{"a": "x", "b": "s3cret", "c": signA}, []string{"sign: secrets[0]: a signing secret is whsec_"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := signed(attemptTo(srv.url()), "${env:b}", "${env:c}")
			a.Contract.Target.Headers = []destination.Header{{Name: "Authorization", Value: "Bearer ${env:a}"}}
			a.Gate = func() error { t.Error("the gate was asked"); return nil }
			s := newSender(t, func(c *Config) { c.Secrets = tc.secrets })
			r := s.Send(background, a)
			wantOutcome(t, r, job.OutcomeNotSent, false)
			if r.Fault == nil || s.Check(a.Contract) == nil {
				t.Fatalf("no fault: %+v", r)
			}
			for _, text := range append(tc.want, r.Error[:10]) {
				if !strings.Contains(r.Fault.Error(), text) || strings.Contains(r.Fault.Error()+r.Error, "s3cret") {
					t.Errorf("fault %q, want %q in it", r.Fault, text)
				}
			}
		})
	}
	if n, _ := srv.counts(); n != 0 {
		t.Errorf("%d connections", n)
	}
}
