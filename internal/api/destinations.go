package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// destinationView is a destination as callers see it.
type destinationView struct {
	Name      string              `json:"name"`
	Labels    map[string]string   `json:"labels,omitempty"`
	Source    sourceView          `json:"source"`
	Version   int64               `json:"version"`
	Contract  any                 `json:"contract" doc:"As written"`
	Effective *destination.Filled `json:"effective,omitempty" doc:"Filled in, rate as granted"`
	Warnings  []string            `json:"warnings,omitempty" doc:"What is allowed and probably not meant; the answer to a PUT also says what this Redis makes of it"`
	Overrides []any               `json:"overrides"`
	Faulty    string              `json:"faulty,omitempty" doc:"Why the stored contract cannot be used"`
	Live      liveView            `json:"live"`
	// EffectiveInMS stands in the answer to a change alone.
	EffectiveInMS *int64 `json:"effective_in_ms,omitempty" doc:"After a change: by then the slots granted before have ended"`
}

type sourceView struct {
	Kind     string `json:"kind" doc:"api, file, orphaned (its file no longer names it) or demo"`
	Set      string `json:"set,omitempty"`
	Revision int64  `json:"revision,omitempty"`
}

type liveView struct {
	State         string   `json:"state" doc:"running, paused, faulty"`
	StateReasons  []string `json:"state_reasons"`
	Depth         int64    `json:"depth"`
	Ready         int64    `json:"ready"`
	Waiting       int64    `json:"waiting"`
	Leased        int64    `json:"leased"`
	Scheduled     int64    `json:"scheduled"`
	Dead          int64    `json:"dead"`
	Unknown       int64    `json:"unknown"`
	SizeBytes     int64    `json:"size_bytes"`
	OldestAgeMS   int64    `json:"oldest_age_ms"`
	DrainMS       int64    `json:"drain_ms"`
	RatePerSecond float64  `json:"rate_per_second"`
}

func viewDestination(d *queue.Destination) destinationView {
	v := destinationView{
		Name: d.Name, Version: d.Version, Faulty: d.Faulty, Overrides: []any{},
		Source: sourceView{Kind: d.Source.Kind, Set: d.Source.Set, Revision: d.Source.Revision},
		Live:   viewLive(&d.Live),
	}
	if d.Source.Kind == kindOrphaned {
		v.Live.StateReasons = append(v.Live.StateReasons, "orphaned: no file of the set "+d.Source.Set+" names it any longer; it goes on until it is deleted")
	}
	if json.Valid(d.Written) { // a faulty one may hold anything
		v.Contract = json.RawMessage(d.Written)
	}
	if d.Contract != nil {
		filled := destination.Effective(d.Contract)
		v.Labels, v.Effective, v.Warnings = d.Contract.Labels, &filled, append(destination.Warnings(d.Contract), d.Warnings...)
	}
	return v
}

func viewLive(l *queue.Live) liveView {
	reasons := append([]string{}, l.StateReasons...)
	return liveView{
		State: l.State, StateReasons: reasons,
		Depth: l.Depth, Ready: l.Ready, Waiting: l.Waiting, Leased: l.Leased, Scheduled: l.Scheduled,
		Dead: l.Dead, Unknown: l.Unknown, SizeBytes: l.SizeBytes,
		OldestAgeMS: l.OldestAge.Milliseconds(), DrainMS: l.Drain.Milliseconds(), RatePerSecond: l.RatePerSecond,
	}
}

type listInput struct {
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"500"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
	Prefix string `query:"prefix" doc:"Names that begin so"`
	// Of the contract, but not built yet: refused by name.
	Label string `query:"label" hidden:"true"`
	Class string `query:"class" hidden:"true"`
	State string `query:"state" hidden:"true"`
}

type listOutput struct {
	Body struct {
		Destinations []destinationView `json:"destinations"`
		NextCursor   string            `json:"next_cursor,omitempty"`
	}
}

func (a *API) listDestinations(ctx context.Context, in *listInput) (*listOutput, error) {
	after, err := in.check()
	if err != nil {
		return nil, newProblem(ctx, err)
	}
	sctx, cancel := storeContext(ctx)
	defer cancel()
	list, next, err := a.cfg.Store.Destinations(sctx, in.Prefix, after, in.Limit)
	if err != nil {
		return nil, a.problem(ctx, storeError(sctx, err))
	}
	out := &listOutput{}
	out.Body.Destinations = []destinationView{}
	for _, d := range list {
		if callOf(ctx).producer.sees(d.Name) {
			out.Body.Destinations = append(out.Body.Destinations, viewDestination(d))
		}
	}
	if next != "" {
		out.Body.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(next))
	}
	return out, nil
}

func (in *listInput) check() (after string, err error) {
	var f fieldErrors
	for name, value := range map[string]string{"label": in.Label, "class": in.Class, "state": in.State} {
		if value != "" {
			f.unsupported("/query/"+name, "filtering by %s is not built yet", name)
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(in.Cursor)
	if err != nil || len(raw) > maxCursor {
		f.bad("/query/cursor", "is not a next_cursor of this list")
	}
	return string(raw), invalid(f)
}

const maxCursor = 256

type destinationOutput struct {
	Status   int
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     destinationView
}

func (a *API) getDestination(ctx context.Context, in *DestinationPath) (*destinationOutput, error) {
	d, err := a.destination(ctx, in.Destination)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &destinationOutput{Status: http.StatusOK, ETag: etag(d.Version), Body: viewDestination(d)}, nil
}

func (a *API) destination(ctx context.Context, name string) (*queue.Destination, error) {
	if destination.ValidName(name) != nil {
		return nil, noDestination(name)
	}
	sctx, cancel := storeContext(ctx)
	defer cancel()
	d, err := a.cfg.Store.Destination(sctx, name)
	if err != nil {
		return nil, storeError(sctx, err)
	}
	return d, nil
}

type putInput struct {
	Conditions
	DryRun   bool   `query:"dry_run" doc:"Check everything and change nothing"`
	Set      string `query:"set" doc:"The contract is of this set of files and owned by it, as if an enqueuer had read it there: what the API or another set made is refused (owned_by_file)"`
	Revision int64  `query:"revision" minimum:"0" maximum:"9007199254740991" doc:"Of the file of the set; an older one than was applied is refused (version_mismatch)"`
}

// contractBytes bounds a contract.
const contractBytes = 1 << 20

func (a *API) putDestination(ctx context.Context, in *putInput) (*destinationOutput, error) {
	d, created, err := a.apply(ctx, in)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	out := &destinationOutput{Status: http.StatusOK, ETag: etag(d.Version), Body: viewDestination(d)}
	if !in.DryRun {
		ms := effectiveMS(d.EffectiveIn)
		out.Body.EffectiveInMS = &ms
	}
	if created && !in.DryRun {
		out.Status = http.StatusCreated
		out.Location = "/v1/destinations/" + in.Destination
	}
	return out, nil
}

func (a *API) apply(ctx context.Context, in *putInput) (*queue.Destination, bool, error) {
	if err := destination.ValidName(in.Destination); err != nil {
		return nil, false, job.Errorf(job.CodeInvalid, "%s", detailOf(err))
	}
	doc, _, err := readBody(ctx, contractBytes, typeJSON)
	if err != nil {
		return nil, false, err
	}
	if err := checkJSON(doc); err != nil {
		return nil, false, err
	}
	contract, written, secrets, err := destination.ParseBody(in.Destination, doc)
	if err != nil {
		return nil, false, err
	}
	sealed, err := a.seal(in.Destination, secrets)
	if err != nil {
		return nil, false, err
	}
	source, err := in.source()
	if err != nil {
		return nil, false, err
	}
	version, err := a.ifVersion(ctx, &in.Conditions)
	if err != nil {
		return nil, false, err
	}
	sctx, cancel := writeContext(ctx)
	defer cancel()
	d, created, err := a.cfg.Store.Apply(sctx, queue.ApplyRequest{
		Name: in.Destination, Contract: contract, Written: written, Source: source, Sealed: sealed,
		IfVersion: version, IfNone: in.IfNoneMatch != "", DryRun: in.DryRun,
	})
	a.contracts.forget(in.Destination)
	if err != nil {
		return nil, false, storeError(sctx, err)
	}
	return d, created, nil
}

type deleteInput struct {
	DestinationPath
	IfMatch    string `header:"If-Match" doc:"ETag the destination must have"`
	CancelJobs bool   `query:"cancel_jobs" doc:"End its jobs as cancelled; without it the destination must be empty"`
	Set        string `query:"set" doc:"Delete what this set of files owns or let go, and nothing else (owned_by_file); without it a file's destination is refused"`
}

// changeOutput answers a change of what may be sent.
type changeOutput struct {
	Body struct {
		Destination   string `json:"destination"`
		EffectiveInMS int64  `json:"effective_in_ms" doc:"By then the slots granted before have ended"`
	}
}

func changed(name string, effective time.Duration) *changeOutput {
	out := &changeOutput{}
	out.Body.Destination = name
	out.Body.EffectiveInMS = effectiveMS(effective)
	return out
}

// effectiveMS rounds up: what is told must not be too early.
func effectiveMS(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

func (a *API) deleteDestination(ctx context.Context, in *deleteInput) (*changeOutput, error) {
	if destination.ValidName(in.Destination) != nil {
		return nil, newProblem(ctx, noDestination(in.Destination))
	}
	if err := checkSet(in.Set); err != nil {
		return nil, newProblem(ctx, err)
	}
	version, err := a.ifVersion(ctx, &Conditions{DestinationPath: in.DestinationPath, IfMatch: in.IfMatch})
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	sctx, cancel := writeContext(ctx)
	defer cancel()
	effective, err := a.cfg.Store.DeleteOf(sctx, in.Set, in.Destination, version, in.CancelJobs)
	a.contracts.forget(in.Destination)
	if err != nil {
		return nil, a.problem(ctx, storeError(sctx, err))
	}
	return changed(in.Destination, effective), nil
}

func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }
