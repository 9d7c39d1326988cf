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
}

func (c *jobCmd) check(p *problems) { checkName(p, c.Destination) }

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
	Position        int64             `json:"position"`
	EstimatedSendAt string            `json:"estimated_send_at"`
	WaitingFor      string            `json:"waiting_for"`
	Metadata        map[string]string `json:"metadata"`
}

type attemptDoc struct {
	Number     int    `json:"number"`
	StartedAt  string `json:"started_at"`
	DurationMS int64  `json:"duration_ms"`
	Outcome    string `json:"outcome"`
	HTTPStatus int    `json:"http_status"`
	Error      string `json:"error"`
}

func (c *jobCmd) run(ctx context.Context, s *session) error {
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

func (j *jobDoc) details(t *table) {
	t.field("id", "%s", j.ID)
	t.field("destination", "%s", j.Destination)
	t.field("state", "%s", j.State)
	t.field("outcome", "%s", j.Outcome)
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
	for _, name := range slices.Sorted(maps.Keys(j.Metadata)) {
		t.field("metadata", "%s=%s", name, j.Metadata[name])
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
