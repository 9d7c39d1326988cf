package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
)

// filterFlags choose jobs.
type filterFlags struct {
	Outcome      string `placeholder:"OUTCOME" help:"Of the last attempt, or why the job ended."`
	Tenant       string `help:"Only of this tenant."`
	Producer     string `help:"Only of this producer."`
	CreatedAfter string `name:"created-after" placeholder:"TIME" help:"Only later ones; RFC 3339 with a zone."`
}

func (f *filterFlags) fields() map[string]string {
	m := map[string]string{}
	for name, value := range map[string]string{"outcome": f.Outcome, "tenant": f.Tenant, "producer": f.Producer, "created_after": f.CreatedAfter} {
		if value != "" {
			m[name] = value
		}
	}
	return m
}

type jobsCmd struct {
	remote
	filterFlags
	Destination string `arg:"" help:"The destination."`
	State       string `placeholder:"STATE,…" help:"Only in these states: scheduled, ready, leased, waiting, delivered, dead, unknown, expired, cancelled."`
	Order       string `default:"asc" placeholder:"ORDER" help:"asc or desc. Default: ${default}."`
	Limit       string `default:"50" placeholder:"N" help:"Jobs at most. Default: ${default}."`

	limit int64
}

func (c *jobsCmd) check(p *problems) {
	checkName(p, c.Destination)
	if c.Order != "asc" && c.Order != "desc" {
		p.add("--order: %q is not allowed; give asc or desc", c.Order)
	}
	c.limit = p.whole("--limit", c.Limit, 1, 1_000_000)
}

const mostJobs = 500 // of one page

// run asks for pages until there are as many jobs as wanted: a page may hold
// fewer than asked for where others follow.
func (c *jobsCmd) run(ctx context.Context, s *session) error {
	query := url.Values{"order": {c.Order}}
	for name, value := range c.fields() {
		query.Set(name, value)
	}
	if c.State != "" {
		query.Set("state", c.State)
	}
	all, more := []json.RawMessage{}, true
	for more && int64(len(all)) < c.limit {
		query.Set("limit", strconv.FormatInt(min(mostJobs, c.limit-int64(len(all))), 10))
		a, err := s.api.do(ctx, request{method: http.MethodGet, path: destinationPath(c.Destination) + "/jobs?" + query.Encode()})
		if err != nil {
			return err
		}
		var one struct {
			Jobs       []json.RawMessage `json:"jobs"`
			NextCursor string            `json:"next_cursor"`
		}
		if err := decode(a.body, &one); err != nil {
			return err
		}
		all = append(all, one.Jobs...)
		more = one.NextCursor != "" && one.NextCursor != query.Get("cursor")
		query.Set("cursor", one.NextCursor)
	}
	if more {
		s.talk("there may be more; see them with a larger --limit")
	}
	return s.showJobs(all)
}

func (s *session) showJobs(raw []json.RawMessage) error {
	docs, names := make([]jobDoc, len(raw)), make([]string, len(raw))
	for i := range raw {
		if err := decode(raw[i], &docs[i]); err != nil {
			return err
		}
		names[i] = docs[i].ID
	}
	if len(docs) == 0 {
		s.talk("no such jobs")
	}
	return s.show(output{json: encode(map[string]any{"jobs": raw}), names: names, table: func(t *table) {
		if len(docs) == 0 {
			return
		}
		t.row("ID", "STATE", "OUTCOME", "ATTEMPTS", "REDRIVES", "CREATED", "TENANT")
		for i := range docs {
			d := &docs[i]
			t.row(d.ID, d.State, d.Outcome, strconv.Itoa(len(d.Attempts)), strconv.Itoa(d.Redrives), d.CreatedAt, d.Tenant)
		}
	}})
}

type cancelCmd struct {
	remote
	Destination string `arg:"" help:"The destination."`
	ID          string `arg:"" help:"The job."`
}

func (c *cancelCmd) check(p *problems) { checkJob(p, c.Destination, c.ID) }

func (c *cancelCmd) run(ctx context.Context, s *session) error {
	return s.onJob(ctx, request{method: http.MethodPost, path: jobPath(c.Destination, c.ID) + "/cancel"})
}

type resolveCmd struct {
	remote
	Destination string `arg:"" help:"The destination."`
	ID          string `arg:"" help:"The job, which is unknown."`
	Delivered   bool   `help:"It arrived."`
	Retry       bool   `help:"It is to be sent again."`
	Reason      string `help:"Shown beside the job."`
}

func (c *resolveCmd) check(p *problems) {
	checkJob(p, c.Destination, c.ID)
	if c.Delivered == c.Retry {
		p.add("give one of --delivered and --retry")
	}
}

func (c *resolveCmd) run(ctx context.Context, s *session) error {
	body := map[string]string{"verdict": "delivered"}
	if c.Retry {
		body["verdict"] = "retry"
	}
	if c.Reason != "" {
		body["reason"] = c.Reason
	}
	return s.onJob(ctx, request{method: http.MethodPost, path: jobPath(c.Destination, c.ID) + "/resolve", body: compact(body)})
}

type eraseCmd struct {
	remote
	Destination string `arg:"" help:"The destination."`
	ID          string `arg:"" help:"The job, which has ended."`
}

func (c *eraseCmd) check(p *problems) { checkJob(p, c.Destination, c.ID) }

func (c *eraseCmd) run(ctx context.Context, s *session) error {
	if err := s.confirm(ctx, "erase job "+plain(c.ID)+" of "+c.Destination); err != nil {
		return err
	}
	a, err := s.api.do(ctx, request{method: http.MethodDelete, path: jobPath(c.Destination, c.ID)})
	if err != nil {
		return err
	}
	return s.show(output{json: a.body, names: []string{c.ID}, table: func(t *table) { t.line("%s erased", c.ID) }})
}

// onJob makes a call that answers a job, and tells where that stands.
func (s *session) onJob(ctx context.Context, r request) error {
	a, err := s.api.do(ctx, r)
	if err != nil {
		return err
	}
	var j jobDoc
	if err := decode(a.body, &j); err != nil {
		return err
	}
	return s.show(output{json: a.body, names: []string{j.ID}, table: func(t *table) { t.line("%s %s", j.ID, j.State) }})
}
