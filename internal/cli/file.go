package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"

	"tundish/internal/destination"
	"tundish/internal/job"
)

type validateCmd struct {
	File string `short:"f" required:"" placeholder:"FILE|DIR" help:"Destinations file, or a folder of them."`
}

func (c *validateCmd) check(*problems) {}

func (c *validateCmd) run(_ context.Context, s *session) error {
	file, err := readFile(c.File)
	if err != nil {
		return err
	}
	type warning struct {
		Destination string `json:"destination"`
		Detail      string `json:"detail"`
	}
	names, warnings := []string{}, []warning{}
	for _, e := range file.Destinations {
		names = append(names, e.Contract.Name)
		for _, w := range destination.Warnings(e.Contract) {
			warnings = append(warnings, warning{e.Contract.Name, w})
			s.talk("warning: %s: %s", e.Contract.Name, w)
		}
	}
	return s.show(output{
		json:  encode(map[string]any{"destinations": names, "warnings": warnings}),
		names: names,
		table: func(t *table) { t.line("%s, ok", count(len(names), "destination")) },
	})
}

// readFile reads a destinations file. Its error is every problem, one a line,
// as file:line: pointer: detail.
func readFile(path string) (*destination.File, error) {
	file, err := destination.ParsePath(path)
	if err == nil {
		return file, nil
	}
	e, ok := errors.AsType[*job.Error](err)
	if !ok || len(e.Fields) == 0 {
		return nil, &usageError{[]string{err.Error()}}
	}
	var p problems
	for _, f := range e.Fields {
		where := cmp.Or(f.File, path)
		if f.Line > 0 {
			where += fmt.Sprintf(":%d", f.Line)
		}
		if f.Pointer != "" {
			where += ": " + f.Pointer
		}
		p.add("%s: %s", where, plain(f.Detail))
	}
	return nil, p.err()
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

type applyCmd struct {
	remote
	File   string `short:"f" required:"" placeholder:"FILE|DIR" help:"Destinations file, or a folder of them."`
	DryRun bool   `name:"dry-run" help:"Change nothing; exit 3 when something would change."`
	Prune  bool   `help:"Delete the destinations that the file's set held and no longer names, if they are empty; name those that are not."`
}

func (c *applyCmd) check(*problems) {}

// applied is what became of one destination.
type applied struct {
	Name   string `json:"name"`
	Result string `json:"result"` // created, updated, deleted, unchanged, failed
	Error  string `json:"error,omitempty"`
}

func (c *applyCmd) run(ctx context.Context, s *session) error {
	file, err := readFile(c.File)
	if err != nil {
		return err
	}
	all := []applied{}
	var failed error
	for _, e := range file.Destinations {
		for _, w := range destination.Warnings(e.Contract) {
			s.talk("warning: %s: %s", e.Contract.Name, w)
		}
		a := applied{Name: e.Contract.Name}
		if a.Result, err = c.apply(ctx, s, e); err != nil {
			a.Result, a.Error = "failed", err.Error()
			failed = cmp.Or(failed, err)
			report(s.stderr, fmt.Errorf("%s: %w", a.Name, err))
		}
		all = append(all, a)
		if err != nil && hopeless(ctx, err) {
			break
		}
	}
	want := len(file.Destinations)
	switch {
	case c.Prune && failed != nil:
		s.talk("nothing is pruned, because not all of the file could be applied")
	case c.Prune:
		var pruned []applied
		pruned, failed = c.prune(ctx, s, file)
		all, want = append(all, pruned...), want+len(pruned)
	}
	return errors.Join(c.show(s, all), c.verdict(all, want, failed))
}

// hopeless says whether the next destination would fail in the same way.
func hopeless(ctx context.Context, err error) bool {
	_, lost := errors.AsType[*lostError](err)
	return lost || ctx.Err() != nil || exitCode(err) == exitNotAllowed
}

func (c *applyCmd) show(s *session, all []applied) error {
	names := []string{}
	for _, a := range all {
		if a.Error == "" {
			names = append(names, a.Name)
		}
	}
	return s.show(output{
		json:  encode(map[string]any{"dry_run": c.DryRun, "destinations": all}),
		names: names,
		table: func(t *table) {
			for _, a := range all {
				if a.Error == "" {
					t.row(a.Name, a.Result)
				}
			}
		},
	})
}

// verdict is how the command ends; failures have been reported one by one.
func (c *applyCmd) verdict(all []applied, want int, failed error) error {
	changes := 0
	for _, a := range all {
		switch a.Result {
		case "created", "updated", "deleted":
			changes++
		}
	}
	switch {
	case failed != nil && len(all) < want:
		return &failure{exitCode(failed), fmt.Sprintf("given up: %s not tried", count(want-len(all), "destination"))}
	case failed != nil:
		return &failure{exitCode(failed), ""}
	case c.DryRun && changes > 0:
		return &failure{exitDifferent, count(changes, "difference") + " found, nothing changed (--dry-run)"}
	}
	return nil
}

// apply makes one destination as written. It changes only what it has seen, so
// that it never undoes what another has changed in between.
func (c *applyCmd) apply(ctx context.Context, s *session, e destination.Entry) (result string, err error) {
	written, err := withoutClass(e.Written)
	if err != nil {
		return "", err
	}
	path := destinationPath(e.Contract.Name)
	put := request{method: http.MethodPut, path: path, body: written, header: map[string]string{}}
	a, err := s.api.do(ctx, request{method: http.MethodGet, path: path})
	switch refused, _ := errors.AsType[*apiError](err); {
	case refused != nil && refused.problem.Code == string(job.CodeDestinationNotFound):
		result = "created"
		put.header["If-None-Match"] = "*"
	case err != nil:
		return "", err
	default:
		var there destinationDoc
		if err := decode(a.body, &there); err != nil {
			return "", err
		}
		if same(there.Contract, written) {
			return "unchanged", nil
		}
		result = "updated"
		if tag := a.header.Get("ETag"); tag != "" {
			put.header["If-Match"] = tag
		}
	}
	if c.DryRun {
		put.path += "?dry_run=true"
	}
	_, err = s.api.do(ctx, put)
	return result, err
}

// withoutClass drops the name of a class: what it holds has been merged in,
// and the API knows no classes.
func withoutClass(written []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(written, &fields); err != nil {
		return nil, fmt.Errorf("the contract cannot be read: %w", err)
	}
	delete(fields, "class")
	return json.Marshal(fields)
}

// same compares JSON by what it says.
func same(a, b []byte) bool {
	x, errX := value(a)
	y, errY := value(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func value(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // as written: a float would make large numbers equal
	if err = d.Decode(&v); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}
