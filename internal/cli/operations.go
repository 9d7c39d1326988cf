package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const operationsPath = "/v1/operations"

// manyFlags are those of the commands that change many jobs.
type manyFlags struct {
	filterFlags
	Max    string `placeholder:"N" help:"Jobs at most. Default: all."`
	DryRun bool   `name:"dry-run" help:"Count only, and wait for the count."`
	Wait   bool   `help:"Wait for the end."`

	max int64
}

func (f *manyFlags) check(p *problems) {
	if f.Max != "" {
		f.max = p.whole("--max", f.Max, 1, 1_000_000_000)
	}
}

// body is the request of an operation.
func (f *manyFlags) body(filter map[string]string, more map[string]any) []byte {
	if len(filter) > 0 {
		more["filter"] = filter
	}
	if f.max > 0 {
		more["max"] = f.max
	}
	if f.DryRun {
		more["dry_run"] = true
	}
	return compact(more)
}

type redriveCmd struct {
	remote
	manyFlags
	Destination string  `arg:"" help:"The destination."`
	ID          *string `arg:"" optional:"" help:"One job; without it, all that are dead and that the flags choose."`
	State       string  `placeholder:"STATE" help:"dead or unknown. Default: dead."`
}

func (c *redriveCmd) check(p *problems) {
	checkName(p, c.Destination)
	c.manyFlags.check(p)
	if c.State != "" && c.State != "dead" && c.State != "unknown" {
		p.add("--state: %q is not allowed; give dead or unknown", c.State)
	}
	if c.ID != nil {
		checkID(p, *c.ID)
	}
	if c.ID != nil && (c.State != "" || c.Max != "" || c.DryRun || c.Wait || len(c.fields()) > 0) {
		p.add("give either the id of a job or flags that choose jobs")
	}
}

func (c *redriveCmd) run(ctx context.Context, s *session) error {
	if c.ID != nil {
		return s.onJob(ctx, request{method: http.MethodPost, path: jobPath(c.Destination, *c.ID) + "/redrive"})
	}
	filter := c.fields()
	state := "dead"
	if c.State != "" {
		state, filter["state"] = c.State, c.State
	}
	if !c.DryRun {
		if err := s.confirm(ctx, "send "+state+" jobs of "+c.Destination+" again"); err != nil {
			return err
		}
	}
	return s.operate(ctx, destinationPath(c.Destination)+"/redrive", c.body(filter, map[string]any{}), c.Wait || c.DryRun)
}

type purgeCmd struct {
	remote
	manyFlags
	Destination string `arg:"" help:"The destination."`
	States      string `required:"" placeholder:"STATE,…" help:"scheduled, ready and waiting jobs end as cancelled; what is kept of delivered, dead, unknown, expired and cancelled ones is erased."`
}

func (c *purgeCmd) check(p *problems) {
	checkName(p, c.Destination)
	c.manyFlags.check(p)
	if strings.Trim(c.States, ", ") == "" {
		p.add("--states: give some, with commas between")
	}
}

func (c *purgeCmd) run(ctx context.Context, s *session) error {
	if !c.DryRun {
		if err := s.confirm(ctx, "purge "+plain(c.States)+" jobs of "+c.Destination+" for good"); err != nil {
			return err
		}
	}
	body := c.body(c.fields(), map[string]any{"confirm": c.Destination, "states": strings.Split(c.States, ",")})
	return s.operate(ctx, destinationPath(c.Destination)+"/purge", body, c.Wait || c.DryRun)
}

// operate begins an operation, and waits for its end when it is to.
func (s *session) operate(ctx context.Context, path string, body []byte, wait bool) error {
	a, err := s.api.do(ctx, request{method: http.MethodPost, path: path, body: body})
	if err != nil {
		return err
	}
	op, err := readOperation(a)
	if err != nil {
		return err
	}
	if wait {
		if a, op, err = s.await(ctx, op.ID); err != nil {
			return err
		}
	} else {
		s.talk("follow it with: tundish operations %s", plain(op.ID))
	}
	if err := s.showOperation(a, op); err != nil {
		return err
	}
	return op.verdict()
}

// verdict is what an operation that has ended is to its caller.
func (op *operationDoc) verdict() error {
	switch {
	case op.State == "failed" || op.State == "cancelled":
		return &failure{exitFailed, "the operation " + op.State + op.why()}
	case op.Failed > 0:
		return &failure{exitRefused, fmt.Sprintf("%d jobs could not be changed", op.Failed)}
	}
	return nil
}

// awaitEvery is how often the end of an operation is looked for.
const awaitEvery = time.Second

func (s *session) await(ctx context.Context, id string) (*answer, operationDoc, error) {
	told := ""
	for {
		a, err := s.api.do(ctx, request{method: http.MethodGet, path: operationsPath + "/" + url.PathEscape(id)})
		if err != nil {
			return nil, operationDoc{}, err
		}
		op, err := readOperation(a)
		if err != nil || op.FinishedAt != "" {
			return a, op, err
		}
		if now := op.progress(); now != told {
			s.talk("%s: %s", op.State, now)
			told = now
		}
		if err := s.sleep(ctx, awaitEvery); err != nil {
			return nil, op, why(ctx)
		}
	}
}

// operationDoc is an operation of the API as far as it is shown.
type operationDoc struct {
	ID          string           `json:"id"`
	Kind        string           `json:"kind"`
	Destination string           `json:"destination"`
	State       string           `json:"state"`
	DryRun      bool             `json:"dry_run"`
	Total       int64            `json:"total"`
	Seen        int64            `json:"seen"`
	Matched     int64            `json:"matched"`
	Done        int64            `json:"done"`
	Failed      int64            `json:"failed"`
	Failures    map[string]int64 `json:"failures"`
	Error       string           `json:"error"`
	CreatedBy   string           `json:"created_by"`
	CreatedAt   string           `json:"created_at"`
	FinishedAt  string           `json:"finished_at"`
}

func readOperation(a *answer) (op operationDoc, err error) {
	err = decode(a.body, &op)
	return op, err
}

func (op *operationDoc) progress() string {
	return fmt.Sprintf("%d of %d looked at, %d chosen, %d done, %d failed", op.Seen, op.Total, op.Matched, op.Done, op.Failed)
}

func (op *operationDoc) why() string {
	if op.Error == "" {
		return ""
	}
	return ": " + op.Error
}

func (op *operationDoc) kind() string {
	if op.DryRun {
		return op.Kind + " (dry run)"
	}
	return op.Kind
}

func (s *session) showOperation(a *answer, op operationDoc) error {
	return s.show(output{json: a.body, names: []string{op.ID}, table: func(t *table) {
		t.field("id", "%s", op.ID)
		t.field("kind", "%s", op.kind())
		t.field("destination", "%s", op.Destination)
		t.field("state", "%s", op.State)
		t.field("progress", "%s", op.progress())
		for _, reason := range []string{"expired", "unreadable", "too_large"} {
			if n := op.Failures[reason]; n > 0 {
				t.field("failed", "%d %s", n, reason)
			}
		}
		t.field("error", "%s", op.Error)
		t.field("by", "%s", op.CreatedBy)
		t.field("created", "%s", op.CreatedAt)
		t.field("finished", "%s", op.FinishedAt)
	}})
}

type operationsCmd struct {
	remote
	ID     *string `arg:"" optional:"" help:"One operation; without it, all that are kept."`
	Cancel bool    `help:"End it; what it has done stays done."`
	Wait   bool    `help:"Wait for its end."`
}

func (c *operationsCmd) check(p *problems) {
	switch {
	case c.ID != nil:
		checkID(p, *c.ID)
	case c.Cancel || c.Wait:
		p.add("give the id of an operation")
	}
	if c.Cancel && c.Wait {
		p.add("give one of --cancel and --wait")
	}
}

func (c *operationsCmd) run(ctx context.Context, s *session) error {
	if c.ID == nil {
		return s.listOperations(ctx)
	}
	r := request{method: http.MethodGet, path: operationsPath + "/" + url.PathEscape(*c.ID)}
	if c.Cancel {
		r = request{method: http.MethodPost, path: r.path + "/cancel"}
	}
	a, err := s.api.do(ctx, r)
	if err != nil {
		return err
	}
	op, err := readOperation(a)
	if err == nil && c.Wait {
		a, op, err = s.await(ctx, op.ID)
	}
	if err != nil {
		return err
	}
	if err := s.showOperation(a, op); err != nil || !c.Wait {
		return err
	}
	return op.verdict()
}

func (s *session) listOperations(ctx context.Context) error {
	a, err := s.api.do(ctx, request{method: http.MethodGet, path: operationsPath})
	if err != nil {
		return err
	}
	var list struct {
		Operations []operationDoc `json:"operations"`
	}
	if err := decode(a.body, &list); err != nil {
		return err
	}
	names := make([]string, len(list.Operations))
	for i := range list.Operations {
		names[i] = list.Operations[i].ID
	}
	return s.show(output{json: a.body, names: names, table: func(t *table) {
		if len(names) == 0 {
			return
		}
		t.row("ID", "KIND", "DESTINATION", "STATE", "SEEN", "DONE", "FAILED", "CREATED")
		for i := range list.Operations {
			op := &list.Operations[i]
			t.row(op.ID, op.kind(), op.Destination, op.State, fmt.Sprintf("%d/%d", op.Seen, op.Total),
				strconv.FormatInt(op.Done, 10), strconv.FormatInt(op.Failed, 10), op.CreatedAt)
		}
	}})
}
