package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

type jobsInput struct {
	DestinationPath
	State        string `query:"state" doc:"One state, or several with commas between; all when left out"`
	Outcome      string `query:"outcome" maxLength:"64" doc:"Of the last attempt, or why the job ended"`
	Tenant       string `query:"tenant" maxLength:"128"`
	Producer     string `query:"producer" maxLength:"128"`
	CreatedAfter string `query:"created_after" doc:"RFC 3339, with a zone"`
	Order        string `query:"order" default:"asc" enum:"asc,desc" doc:"Leased jobs by deadline, ready ones by tenant and turn, waiting ones by when they are due, others by when they ended"`
	Cursor       string `query:"cursor" maxLength:"1024" doc:"next_cursor of the page before"`
	Limit        int    `query:"limit" default:"50" minimum:"1" maximum:"500"`

	asked queue.Query
}

type jobsOutput struct {
	Body struct {
		Jobs       []jobView `json:"jobs"`
		NextCursor string    `json:"next_cursor,omitempty" doc:"There may be more; also beside a page that is not full"`
	}
}

// listJobs shows jobs. Who may only enqueue sees only what is its own.
func (a *API) listJobs(ctx context.Context, in *jobsInput) (*jobsOutput, error) {
	if destination.ValidName(in.Destination) != nil {
		return nil, newProblem(ctx, noDestination(in.Destination))
	}
	q, out := in.asked, &jobsOutput{}
	out.Body.Jobs = []jobView{}
	if p := callOf(ctx).producer; !p.may(ScopeRead) {
		if q.Producer != "" && q.Producer != p.name {
			return out, nil
		}
		q.Producer = p.name
	}
	sctx, cancel := storeContext(ctx)
	defer cancel()
	page, err := a.cfg.Store.Jobs(sctx, in.Destination, q)
	if job.CodeOf(err) == job.CodeInvalid && err != nil { // of all that was asked the store checks the cursor alone
		var f fieldErrors
		f.bad("/query/cursor", "%s", detailOf(err))
		err = invalid(f)
	}
	if err != nil {
		return nil, a.problem(ctx, storeError(sctx, err))
	}
	for _, s := range page.Jobs {
		v := viewJob(in.Destination, s)
		v.Position = nil // a list does not count them
		out.Body.Jobs = append(out.Body.Jobs, v)
	}
	if page.Next != "" {
		out.Body.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(page.Next))
	}
	return out, nil
}

// Resolve reads what huma does not check, so that all problems are told at once.
func (in *jobsInput) Resolve(huma.Context) []error {
	var f fieldErrors
	in.asked = queue.Query{Filter: queue.Filter{Outcome: in.Outcome, Tenant: in.Tenant, Producer: in.Producer}, Back: in.Order == "desc", Limit: in.Limit}
	if in.State != "" {
		in.asked.States = f.states("query.state", strings.Split(in.State, ","), job.States)
	}
	if in.CreatedAfter != "" {
		in.asked.CreatedAfter = f.after("query.created_after", in.CreatedAfter)
	}
	cursor, err := base64.RawURLEncoding.DecodeString(in.Cursor)
	if err != nil {
		f.bad("query.cursor", "is not a next_cursor of this list")
	}
	in.asked.Cursor = string(cursor)
	return toHuma(f)
}

// toHuma turns field errors into such as huma gathers.
func toHuma(f fieldErrors) []error {
	list := make([]error, len(f))
	for i, e := range f {
		list[i] = &huma.ErrorDetail{Location: e.Pointer, Message: e.Detail}
	}
	return list
}

func (f *fieldErrors) after(at, text string) time.Time {
	raw, _ := json.Marshal(text) // a string
	t, _ := f.moment(at, raw)
	return t
}

// states reads names of states of which some are allowed.
func (f *fieldErrors) states(at string, names []string, allowed []job.State) []job.State {
	list := make([]job.State, 0, len(names))
	for _, name := range names {
		if !slices.Contains(allowed, job.State(name)) {
			texts := make([]string, len(allowed))
			for i, s := range allowed {
				texts[i] = string(s)
			}
			f.bad(at, "%q is not allowed; there is %s", clip(name, 40), strings.Join(texts, ", "))
			continue
		}
		list = append(list, job.State(name))
	}
	return list
}

// filterFields read a filter in a body: the names of the list's parameters.
func filterFields(into *queue.Filter, allowed []job.State) fields {
	table := fields{
		"outcome": func(f *fieldErrors, at string, raw json.RawMessage) { f.short(at, raw, 64, &into.Outcome) },
		"tenant": func(f *fieldErrors, at string, raw json.RawMessage) {
			f.short(at, raw, job.MaxTenantBytes, &into.Tenant)
		},
		"producer": func(f *fieldErrors, at string, raw json.RawMessage) { f.short(at, raw, 128, &into.Producer) },
		"created_after": func(f *fieldErrors, at string, raw json.RawMessage) {
			into.CreatedAfter, _ = f.moment(at, raw)
		},
	}
	if len(allowed) > 0 {
		table["state"] = func(f *fieldErrors, at string, raw json.RawMessage) {
			if s, ok := f.text(at, raw); ok {
				into.States = f.states(at, []string{s}, allowed)
			}
		}
	}
	return table
}
