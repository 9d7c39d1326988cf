package cli

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/term"

	"tundish/internal/destination"
)

type pauseCmd struct {
	remote
	Destination string `arg:"" help:"The destination."`
	Reason      string `help:"Shown beside the state."`
}

func (c *pauseCmd) check(p *problems) { checkName(p, c.Destination) }

func (c *pauseCmd) run(ctx context.Context, s *session) error {
	return s.change(ctx, request{method: http.MethodPost, path: destinationPath(c.Destination) + "/pause", body: reason(c.Reason)}, "paused")
}

type resumeCmd struct {
	remote
	Destination string `arg:"" help:"The destination."`
	Reason      string `help:"For the record."`
}

func (c *resumeCmd) check(p *problems) { checkName(p, c.Destination) }

func (c *resumeCmd) run(ctx context.Context, s *session) error {
	return s.change(ctx, request{method: http.MethodPost, path: destinationPath(c.Destination) + "/resume", body: reason(c.Reason)}, "resumed")
}

func reason(text string) []byte {
	if text == "" {
		return nil
	}
	return compact(map[string]string{"reason": text})
}

type deleteCmd struct {
	remote
	Destination string `arg:"" help:"The destination."`
	CancelJobs  bool   `name:"cancel-jobs" help:"End its jobs as cancelled; without it the destination must be empty."`
	Set         string `placeholder:"NAME" help:"Delete what this set of files owns; without it a file's destination is refused."`
}

func (c *deleteCmd) check(p *problems) {
	checkName(p, c.Destination)
	if c.Set != "" {
		if err := destination.ValidName(c.Set); err != nil {
			p.add("--set: %v", err)
		}
	}
}

func (c *deleteCmd) run(ctx context.Context, s *session) error {
	question := "delete " + c.Destination
	query := url.Values{}
	if c.CancelJobs {
		question += " and cancel its jobs"
		query.Set("cancel_jobs", "true")
	}
	if c.Set != "" {
		query.Set("set", c.Set)
	}
	path := destinationPath(c.Destination)
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	if err := s.confirm(ctx, question); err != nil {
		return err
	}
	return s.change(ctx, request{method: http.MethodDelete, path: path}, "deleted")
}

// change makes a call that changes what may be sent, and tells when it acts.
func (s *session) change(ctx context.Context, r request, done string) error {
	a, err := s.api.do(ctx, r)
	if err != nil {
		return err
	}
	var doc struct {
		Destination   string `json:"destination"`
		EffectiveInMS int64  `json:"effective_in_ms"`
	}
	if err := decode(a.body, &doc); err != nil {
		return err
	}
	return s.show(output{json: a.body, names: []string{doc.Destination}, table: func(t *table) {
		if doc.EffectiveInMS > 0 {
			t.line("%s %s, in effect within %s", doc.Destination, done, span(doc.EffectiveInMS))
			return
		}
		t.line("%s %s", doc.Destination, done)
	}})
}

// confirm asks before something is destroyed. Who cannot be asked must say --yes.
func (s *session) confirm(ctx context.Context, what string) error {
	if s.flags.Yes {
		return nil
	}
	if !terminal(s.stdin) {
		return &usageError{[]string{"to " + what + " without being asked, give --yes"}}
	}
	fmt.Fprintf(s.stderr, "%s? [y/N] ", what)
	said := make(chan string, 1)
	go func() { // a read of a terminal cannot be cancelled; it ends with the process
		line, _ := bufio.NewReader(s.stdin).ReadString('\n')
		said <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-said:
		if line == "y" || line == "yes" {
			return nil
		}
		return &failure{exitFailed, "not done"}
	case <-ctx.Done():
		return why(ctx)
	}
}

// terminal says whether a person sits at the other end.
func terminal(end any) bool {
	f, ok := end.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
