package drain

import (
	"testing"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

func asking() *destination.Contract {
	return &destination.Contract{Delivery: destination.AtMostOnce, Retry: retries(), Verify: "/payouts/{key}?of={id}"}
}

func TestDoubtIsAskedAboutWhileAttemptsAreLeft(t *testing.T) {
	t.Parallel()
	lost := deliver.Result{Outcome: job.OutcomeReset, Wrote: true}
	for used, want := range map[int]queue.Kind{0: queue.KindDoubt, 1: queue.KindDoubt, 2: queue.KindUnknown} {
		r := decide(asking(), &granted{Lease: queue.Lease{Used: used, Slot: 5e9}}, &job.Job{}, lost, half)
		if r.Kind != want || !r.Counts || (r.Delay > 0) != (want == queue.KindDoubt) {
			t.Errorf("%d used: %+v, want %s", used, r, want)
		}
	}
	if r := decide(asking(), &granted{Lease: queue.Lease{Slot: 5e9, First: 1e9}}, &job.Job{}, lost, half); r.Kind != queue.KindUnknown {
		t.Errorf("too old: %s", r.Kind)
	}
}

func TestQuestionNamesTheJob(t *testing.T) {
	t.Parallel()
	j := &job.Job{ID: "AaIsO00BcbiWqQTBiY5RpQ", DownstreamKey: "shop:a/b&c?d#e", Request: job.Request{Method: "POST", Path: "/payouts", Body: []byte("x"),
		Headers: []job.Header{{Name: "A", Value: "b"}}, ContentType: "text/plain"}}
	q := question(asking(), j)
	if r := q.Request; r.Method != "GET" || r.Path != "/payouts/shop%3Aa%2Fb%26c%3Fd%23e?of=AaIsO00BcbiWqQTBiY5RpQ" || len(r.Body)+len(r.Headers)+len(r.ContentType) > 0 {
		t.Errorf("%+v", r)
	}
	if j.Request.Method != "POST" || q.DownstreamKey != j.DownstreamKey {
		t.Error("the job itself was changed")
	}
}

func TestAnswersToAQuestion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		res     deliver.Result
		used    int
		kind    queue.Kind
		outcome job.Outcome
	}{
		"it has it":          {deliver.Result{Outcome: job.OutcomeDelivered, HTTPStatus: 200, Wrote: true}, 2, queue.KindDelivered, job.OutcomeVerified},
		"it has it not":      {deliver.Result{Outcome: job.OutcomeRejected, HTTPStatus: 404, Wrote: true}, 1, queue.KindRetry, job.OutcomeNotArrived},
		"gone":               {deliver.Result{Outcome: job.OutcomeRejected, HTTPStatus: 410, Wrote: true}, 1, queue.KindRetry, job.OutcomeNotArrived},
		"never, at last":     {deliver.Result{Outcome: job.OutcomeRejected, HTTPStatus: 404, Wrote: true}, 2, queue.KindDead, job.OutcomeNotArrived},
		"refused":            {deliver.Result{Outcome: job.OutcomeRejected, HTTPStatus: 403, Wrote: true}, 1, queue.KindUnknown, job.OutcomeRejected},
		"it fails":           {deliver.Result{Outcome: job.OutcomeServerError, HTTPStatus: 500, Wrote: true}, 1, queue.KindDoubt, job.OutcomeServerError},
		"it fails, at last":  {deliver.Result{Outcome: job.OutcomeServerError, HTTPStatus: 500, Wrote: true}, 2, queue.KindUnknown, job.OutcomeServerError},
		"nobody there":       {deliver.Result{Outcome: job.OutcomeRefused}, 1, queue.KindDoubt, job.OutcomeRefused},
		"nobody, at last":    {deliver.Result{Outcome: job.OutcomeRefused}, 2, queue.KindUnknown, job.OutcomeRefused},
		"later":              {deliver.Result{Outcome: job.OutcomeThrottled, HTTPStatus: 429, Wrote: true}, 1, queue.KindThrottled, job.OutcomeThrottled},
		"the slot was over":  {deliver.Result{Outcome: job.OutcomeNotSent}, 1, queue.KindRelease, job.OutcomeNotSent},
		"the worker stopped": {deliver.Result{Outcome: job.OutcomeInterrupted, Wrote: true}, 1, queue.KindDoubt, job.OutcomeInterrupted},
	} {
		r := decideDoubt(asking(), &granted{Lease: queue.Lease{Used: c.used, Slot: 5e9}}, &job.Job{}, c.res, half)
		if r.Kind != c.kind || r.Outcome != string(c.outcome) {
			t.Errorf("%s: %s, %s; want %s, %s", name, r.Kind, r.Outcome, c.kind, c.outcome)
		}
	}
}
