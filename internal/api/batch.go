package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// The bounds of a batch.
const (
	batchJobs  = 1000
	batchBytes = 8 << 20
)

type batchOutput struct {
	Quota
	Body struct {
		Results []batchResult `json:"results" doc:"One for each job, in order"`
	}
}

func (o *batchOutput) write(w http.ResponseWriter) {
	o.set(w.Header())
	writeJSON(w, http.StatusOK, typeJSON, &o.Body)
}

// batchResult is the answer to one job of a batch.
type batchResult struct {
	Status       int            `json:"status" doc:"What a push of this job alone would have answered"`
	ID           job.ID         `json:"id,omitempty"`
	State        job.State      `json:"state,omitempty"`
	Replayed     *bool          `json:"replayed,omitempty"`
	Code         job.Code       `json:"code,omitempty"`
	Detail       string         `json:"detail,omitempty"`
	RetryAfterMS int64          `json:"retry_after_ms,omitempty"`
	Errors       []problemField `json:"errors,omitempty"`
}

// batchSchema describes the JSON form of a batch to readers.
type batchSchema struct {
	_ struct{} `json:"-" additionalProperties:"false"`

	Jobs []jobSchema `json:"jobs" maxItems:"1000" minItems:"1"`
}

func (a *API) pushBatch(ctx context.Context, name string) (output, error) {
	contract, err := a.contract(ctx, name)
	if err != nil {
		a.metrics.rejectedUnknown(job.CodeOf(err))
		return nil, newProblem(ctx, err)
	}
	docs, err := readBatch(ctx)
	if err != nil {
		a.metrics.rejected(contract.Name, job.CodeOf(err))
		return nil, newProblem(ctx, err)
	}
	b := &batch{api: a, contract: contract, results: make([]batchResult, len(docs))}
	b.parse(docs, producerName(ctx))
	if err := b.push(ctx); err != nil {
		a.metrics.rejected(contract.Name, job.CodeOf(err))
		return nil, a.problem(ctx, err)
	}
	out := &batchOutput{Quota: b.quota}
	out.Body.Results = b.results
	return out, nil
}

// readBatch reads the jobs of a request, each as JSON not yet looked at.
func readBatch(ctx context.Context) ([]json.RawMessage, error) {
	if len(callOf(ctx).r.Header.Values(keyHeader)) > 0 {
		return nil, badKey("a batch takes the keys inside its jobs, as idempotency_key")
	}
	data, kind, err := readBody(ctx, batchBytes, typeJSON, typeNDJSON)
	if err != nil {
		return nil, err
	}
	var docs []json.RawMessage
	if kind == typeNDJSON {
		docs = lines(data)
	} else if docs, err = jobsOf(data); err != nil {
		return nil, err
	}
	switch n := len(docs); {
	case n == 0:
		return nil, invalid([]job.FieldError{{Pointer: "/jobs", Detail: "there is no job", Code: job.CodeInvalid}})
	case n > batchJobs:
		return nil, tooLarge("the batch has %d jobs, at most %d are taken", n, batchJobs)
	}
	return docs, nil
}

// lines cuts NDJSON; empty lines, such as the last, are no jobs.
func lines(data []byte) []json.RawMessage {
	var docs []json.RawMessage
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			docs = append(docs, json.RawMessage(line))
		}
	}
	return docs
}

func jobsOf(data []byte) ([]json.RawMessage, error) {
	if err := checkJSON(data); err != nil {
		return nil, err
	}
	var f fieldErrors
	list, ok := members(data)
	if !ok {
		f.bad("", `give an object {"jobs": […]}, or send NDJSON as Content-Type: %s`, typeNDJSON)
	}
	var docs []json.RawMessage
	f.once("", list, func(m member) {
		if m.name != "jobs" {
			f.bad(token(m.name), "unknown field; a batch has jobs")
			return
		}
		if docs, ok = elements(m.value); !ok {
			f.bad("/jobs", "give a list of jobs")
		}
	})
	return docs, invalid(f)
}

// batch is a batch on its way: what fits is taken, the rest is answered job
// by job.
type batch struct {
	api      *API
	contract *destination.Contract
	results  []batchResult
	jobs     []*job.Job
	places   []int // of jobs in results
	quota    Quota
}

func (b *batch) parse(docs []json.RawMessage, producer string) {
	for i, doc := range docs {
		err := checkJSON(doc)
		var j *job.Job
		if err == nil {
			j, err = parseJob(doc, producer, b.contract, b.api.cfg.Now())
		}
		if err == nil {
			err = checkExpiry(j, b.api.cfg.Now())
		}
		if err != nil {
			b.refuse(i, err)
			continue
		}
		fixKey(j, b.contract)
		b.jobs, b.places = append(b.jobs, j), append(b.places, i)
	}
}

func (b *batch) refuse(i int, err error) {
	b.api.metrics.rejected(b.contract.Name, job.CodeOf(err))
	p := newProblem(context.Background(), err)
	b.results[i] = batchResult{Status: p.Status, Code: p.Code, Detail: p.Detail, RetryAfterMS: p.RetryAfterMS, Errors: p.Errors}
}

// push sends the jobs in order, in parts that fit a call. When a call fails
// the rest is not tried; when the first fails nothing was taken, and the
// error is the answer to the whole request.
func (b *batch) push(ctx context.Context) error {
	done := 0
	for _, part := range split(b.jobs) {
		results, err := b.api.commit.push(ctx, b.contract, part)
		if err != nil && done == 0 {
			return err
		}
		if err != nil {
			for _, i := range b.places[done:] {
				b.refuse(i, err)
			}
			return nil
		}
		for n, r := range results {
			if err := b.api.verdict(b.contract, r); err != nil {
				b.refuse(b.places[done+n], err)
				continue
			}
			replayed := acceptedOf(b.contract.Name, r).Replayed
			b.results[b.places[done+n]] = batchResult{Status: http.StatusAccepted, ID: r.ID, State: r.State, Replayed: &replayed}
		}
		last := results[len(results)-1]
		b.quota = quotaOf(last.Capacity, last.Depth, 0)
		done += len(results)
	}
	return nil
}
