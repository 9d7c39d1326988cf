package app

import (
	"strings"
	"testing"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
)

// A password that cannot be had holds the mail; no attempt is used up.
func TestMissingSecretIsAFaultOfEitherTarget(t *testing.T) {
	t.Parallel()
	s := newSenders(&WorkerConfig{concurrency: 1}, nil)
	t.Cleanup(s.close)
	const limits = `,"limits":[{"rate":1,"per":"1s"}]}`
	for _, doc := range []string{
		`{"target":{"smtp":{"host":"mail.invalid","from":"a@example.com","username":"${env:SENDERS_TEST_NAME}","password":"${file:/nowhere/password}"}}` + limits,
		`{"target":{"http":{"url":"http://api.invalid","auth":{"basic":{"username":"${env:SENDERS_TEST_NAME}","password":"${file:/nowhere/password}"}}}}` + limits,
	} {
		c, _, err := destination.ParseContract("bank", []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		const want = "${env:SENDERS_TEST_NAME}: the variable is not set; ${file:/nowhere/password}: there is no such file"
		r := s.Send(t.Context(), deliver.Attempt{Lane: "bank", Contract: c, Job: &job.Job{ID: job.NewID()}})
		if r.Outcome != job.OutcomeNotSent || r.Fault == nil || r.Fault.Error() != want {
			t.Errorf("%s\ngives %+v, want %s", doc, r, want)
		}
		if err := s.check(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("checked: %v", err)
		}
	}
}
