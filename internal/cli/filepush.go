package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"tundish/internal/job"
)

// filePush pushes a stream of jobs in batches. Jobs refused for now wait in
// the window until the time they were told and go again with the next ones.
type filePush struct {
	s     *session
	dest  string
	file  string
	id    string // of the keys made for jobs without one
	lines *lines

	window  []*item // read and not settled, in the order of the file
	size    int     // bytes of the window as a batch
	next    *item   // read, and did not fit
	later   string  // code with which jobs were put off last
	told    string  // of those, the last that was told
	reading bool
	last    int64 // line read last
	end     int64 // bytes up to there

	from  int64
	in    io.Reader
	tally tally
	show  progress
}

// tally counts what became of the jobs.
type tally struct{ accepted, replayed, refused int64 }

// pause is the least time between two calls with jobs that were refused
// before: it keeps calls from carrying one job each.
const pause = 50 * time.Millisecond

func newFilePush(s *session, c *pushCmd, in io.Reader, size int64) *filePush {
	run := c.Run
	if run == "" {
		run = string(job.NewID())
	}
	return &filePush{
		s: s, dest: c.Destination, file: c.File, id: run, reading: true,
		in: in, from: c.fromLine, last: c.fromLine - 1, show: newProgress(s, size),
	}
}

// run pushes everything and says what became of it.
func (f *filePush) run(ctx context.Context) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	f.lines = readLines(reading, f.in, f.from, f.id)
	err := f.pushAll(ctx)
	f.show.end()
	if err := f.summary(); err != nil {
		return err
	}
	switch {
	case err != nil:
		return f.stopped(err)
	case f.tally.refused > 0:
		return &failure{exitRefused, fmt.Sprintf("%d of %d jobs refused", f.tally.refused, f.tally.refused+f.tally.accepted)}
	}
	return nil
}

func (f *filePush) pushAll(ctx context.Context) error {
	for {
		if err := f.fill(ctx); err != nil {
			return err
		}
		if len(f.window) == 0 {
			return f.readError()
		}
		part, wait := f.due()
		if len(part) == 0 {
			if f.told != f.later {
				f.told = f.later
				f.show.say("%s: %s: the jobs left go in their turn", f.dest, plain(f.later))
			}
			if f.reading && !f.held() && len(f.window) < batchJobs {
				wait = min(wait, worthSaying) // jobs of others may come before
			}
			if err := f.s.wait(ctx, max(wait, pause)); err != nil {
				return err
			}
			continue
		}
		if err := f.push(ctx, part); err != nil {
			return err
		}
		line, offset := f.settled()
		f.show.update(f.tally, line, offset)
	}
}

func (f *filePush) readError() error {
	if f.lines.err != nil {
		return fmt.Errorf("read %s: %w", f.file, f.lines.err)
	}
	return nil
}

// fill reads jobs into the window. Only an empty window waits for the first;
// from a stream that pauses it takes what there is.
func (f *filePush) fill(ctx context.Context) error {
	if f.held() {
		return nil // those behind would only be refused as well, or overtake
	}
	var quiet <-chan time.Time // nil: waits for ever
	if len(f.window) > 0 {
		quiet = time.After(f.s.linger)
	}
	for f.reading && len(f.window) < batchJobs {
		it, open, err := f.read(ctx, quiet)
		if err != nil {
			return err
		}
		if !open {
			return nil
		}
		if it == nil {
			continue
		}
		if f.size+len(it.doc)+1 > batchBytes {
			f.next = it
			return nil
		}
		if len(f.window) == 0 {
			quiet = time.After(f.s.linger)
		}
		f.window = append(f.window, it)
		f.size += len(it.doc) + 1
	}
	return nil
}

// held says whether a job waits for a place that any job would need.
func (f *filePush) held() bool {
	return slices.ContainsFunc(f.window, func(it *item) bool { return it.holds })
}

// read takes the next job; not open when there is none now or at all.
func (f *filePush) read(ctx context.Context, quiet <-chan time.Time) (it *item, open bool, err error) {
	if it, f.next = f.next, nil; it != nil {
		return it, true, nil
	}
	select {
	case it, open = <-f.lines.items:
	default:
		select {
		case it, open = <-f.lines.items:
		case <-quiet:
			return nil, false, nil
		case <-ctx.Done():
			return nil, false, why(ctx)
		}
	}
	if !open && ctx.Err() != nil {
		return nil, false, why(ctx) // that is what ended the reading
	}
	if !open {
		f.reading = false
		return nil, false, nil
	}
	f.last, f.end = it.line, it.end
	if it.doc == nil {
		return nil, true, f.refuse(it, result{Status: http.StatusRequestEntityTooLarge, Code: string(job.CodeTooLarge), Detail: errTooLong.Error()})
	}
	return it, true, nil
}

// due is the part of the window whose time has come, or how long until then.
func (f *filePush) due() (part []*item, wait time.Duration) {
	now := f.s.now()
	first := f.window[0].due
	for _, it := range f.window {
		if !it.due.After(now) {
			part = append(part, it)
		}
		if it.due.Before(first) {
			first = it.due
		}
	}
	return part, first.Sub(now)
}

// push sends one batch and sorts what came back.
func (f *filePush) push(ctx context.Context, part []*item) error {
	var body bytes.Buffer
	for _, it := range part {
		body.Write(it.doc)
		body.WriteByte('\n')
	}
	a, err := f.s.patiently(ctx, request{
		method: http.MethodPost, path: destinationPath(f.dest) + "/jobs/batch", body: body.Bytes(), kind: typeNDJSON,
	}, f.show.say)
	if err != nil {
		return err
	}
	var answers struct {
		Results []result `json:"results"`
	}
	if err := decode(a.body, &answers); err != nil {
		return err
	}
	if len(answers.Results) != len(part) {
		return fmt.Errorf("the API answered %d results for %d jobs", len(answers.Results), len(part))
	}
	settled := make(map[*item]bool, len(part))
	for i, it := range part {
		done, err := f.settle(it, answers.Results[i])
		if err != nil {
			return err
		}
		settled[it] = done
	}
	f.drop(settled)
	f.keepOrder()
	return nil
}

// drop takes what is settled out of the window.
func (f *filePush) drop(settled map[*item]bool) {
	f.window = slices.DeleteFunc(f.window, func(it *item) bool {
		if settled[it] {
			f.size -= len(it.doc) + 1
		}
		return settled[it]
	})
}

// keepOrder gives the earliest of the times told to the earliest of the jobs:
// they are about places in the queue, which is the same for all of them.
func (f *filePush) keepOrder() {
	var times []time.Time
	for _, it := range f.window {
		if it.holds {
			times = append(times, it.due)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	for _, it := range f.window {
		if it.holds {
			it.due, times = times[0], times[1:]
		}
	}
}

// settle sorts one result; false when the job goes again later.
func (f *filePush) settle(it *item, r result) (done bool, err error) {
	switch {
	case r.Status >= 200 && r.Status <= 299:
		f.tally.accepted++
		if r.Replayed != nil && *r.Replayed {
			f.tally.replayed++
		}
		return true, f.emit(it, r)
	case r.Status == http.StatusTooManyRequests, r.Status == http.StatusServiceUnavailable:
		it.due = f.s.now().Add(max(time.Duration(r.RetryAfterMS)*time.Millisecond, time.Millisecond))
		// Another tenant's jobs may fit where this one's do not.
		f.later = r.Code
		it.holds = r.Code != string(job.CodeTenantShareFull)
		return false, nil
	case r.Status >= http.StatusInternalServerError && it.tries+1 < maxFailures:
		it.tries++
		it.due = f.s.now().Add(backoff(it.tries))
		return false, nil
	}
	return true, f.refuse(it, r)
}

// settled is the first line that is not settled, and where it begins.
func (f *filePush) settled() (line, offset int64) {
	switch {
	case len(f.window) > 0:
		return f.window[0].line, f.window[0].start
	case f.next != nil:
		return f.next.line, f.next.start
	}
	return f.last + 1, f.end
}
