package cli

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

type jobCmd struct {
	remote
	Destination string `arg:"" help:"The destination."`
	ID          string `arg:"" help:"The job."`
	Payload     bool   `help:"Show what it sends instead: body and headers."`
}

func (c *jobCmd) check(p *problems) { checkJob(p, c.Destination, c.ID) }

// jobDoc is a job of the API as far as it is shown.
type jobDoc struct {
	ID              string            `json:"id"`
	Destination     string            `json:"destination"`
	State           string            `json:"state"`
	Outcome         string            `json:"outcome"`
	Producer        string            `json:"producer"`
	Tenant          string            `json:"tenant"`
	Priority        int               `json:"priority"`
	CreatedAt       string            `json:"created_at"`
	DeliverAt       string            `json:"deliver_at"`
	ExpiresAt       string            `json:"expires_at"`
	FinishedAt      string            `json:"finished_at"`
	Attempts        []attemptDoc      `json:"attempts"`
	Redrives        int               `json:"redrives"`
	Reason          string            `json:"reason"`
	Position        int64             `json:"position"`
	EstimatedSendAt string            `json:"estimated_send_at"`
	WaitingFor      string            `json:"waiting_for"`
	Metadata        map[string]string `json:"metadata"`
	Response        struct {
		HTTPStatus int    `json:"http_status"`
		Body       string `json:"body"`
	} `json:"response"`
}

type attemptDoc struct {
	Number     int    `json:"number"`
	Text       string `json:"text"`
	StartedAt  string `json:"started_at"`
	DurationMS int64  `json:"duration_ms"`
	Outcome    string `json:"outcome"`
	HTTPStatus int    `json:"http_status"`
	Error      string `json:"error"`
}

func (c *jobCmd) run(ctx context.Context, s *session) error {
	if c.Payload {
		return c.payload(ctx, s)
	}
	a, err := s.api.do(ctx, request{method: http.MethodGet, path: jobPath(c.Destination, c.ID)})
	if err != nil {
		return err
	}
	var j jobDoc
	if err := decode(a.body, &j); err != nil {
		return err
	}
	return s.show(output{json: a.body, names: []string{j.ID}, table: j.details})
}

// payload shows what a job sends; the table form is the body alone, for pipes.
func (c *jobCmd) payload(ctx context.Context, s *session) error {
	a, err := s.api.do(ctx, request{method: http.MethodGet, path: jobPath(c.Destination, c.ID) + "/payload"})
	if err != nil {
		return err
	}
	var doc struct {
		BodyText   string `json:"body_text"`
		BodyBase64 []byte `json:"body_base64"`
	}
	if err := decode(a.body, &doc); err != nil {
		return err
	}
	if s.flags.Output == formTable {
		return s.write(append([]byte(doc.BodyText), doc.BodyBase64...))
	}
	return s.show(output{json: a.body, names: []string{c.ID}})
}

func (j *jobDoc) details(t *table) {
	t.field("id", "%s", j.ID)
	t.field("destination", "%s", j.Destination)
	t.field("state", "%s", j.State)
	t.field("outcome", "%s", j.outcome())
	t.field("waits for", "%s", j.WaitingFor)
	if j.WaitingFor != "" {
		t.field("before it", "%d", j.Position)
	}
	t.field("goes about", "%s", j.EstimatedSendAt)
	t.field("producer", "%s", j.Producer)
	t.field("tenant", "%s", j.Tenant)
	t.field("priority", "%d", j.Priority)
	t.field("created", "%s", j.CreatedAt)
	t.field("deliver at", "%s", j.DeliverAt)
	t.field("expires", "%s", j.ExpiresAt)
	t.field("finished", "%s", j.FinishedAt)
	t.field("reason", "%s", j.Reason)
	if j.Redrives > 0 {
		t.field("redrives", "%d", j.Redrives)
	}
	for _, name := range slices.Sorted(maps.Keys(j.Metadata)) {
		t.field("metadata", "%s=%s", name, j.Metadata[name])
	}
	if j.Response.Body != "" {
		t.field("answer", "%.500s", j.Response.Body)
	}
	for _, a := range j.Attempts {
		status := ""
		if a.HTTPStatus != 0 {
			status = " " + strconv.Itoa(a.HTTPStatus)
		}
		reason := ""
		if a.Error != "" {
			reason = ": " + a.Error
		}
		t.field("attempt "+strconv.Itoa(a.Number), "%s %s%s in %d ms%s", a.StartedAt, a.Outcome, status, a.DurationMS, reason)
	}
}

// outcome is the word of the last attempt, with what it means.
func (j *jobDoc) outcome() string {
	if n := len(j.Attempts); n > 0 && j.Attempts[n-1].Outcome == j.Outcome && j.Attempts[n-1].Text != "" && j.State != "delivered" {
		return j.Outcome + ": " + j.Attempts[n-1].Text
	}
	return j.Outcome
}
