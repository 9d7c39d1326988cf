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
	"net/url"
	"reflect"
	"strconv"

	"tundish/internal/destination"
	"tundish/internal/job"
)

type applyCmd struct {
	remote
	File   string `short:"f" required:"" placeholder:"FILE|DIR" help:"Destinations file, or a folder of them."`
	DryRun bool   `name:"dry-run" help:"Change nothing; exit 3 when something would change."`
	Prune  bool   `help:"Delete the destinations of the file's set that it does not name, if they are empty; name those that hold jobs."`
}

// Help says whose destinations a file is for.
func (c *applyCmd) Help() string {
	return `The file speaks for its set ("default" unless it says set: NAME), as if an enqueuer had read it. It makes and changes the destinations of its set ` +
		`and never what the API or another set made: those are named, and the exit code is 1. So it is with a file whose revision is older than one that was applied. ` +
		`An enqueuer with a file of the same set lets go of what its own file does not name: give it the same file or another set.`
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
	if err := notOlder(ctx, s, file); err != nil {
		return err
	}
	all := []applied{}
	var failed error
	for _, e := range file.Destinations {
		a := applied{Name: e.Contract.Name}
		if a.Result, err = c.apply(ctx, s, file, e); err != nil {
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

// notOlder refuses a file that is older than what stands there of its set,
// before anything is done: it would bring back what a newer one dropped.
func notOlder(ctx context.Context, s *session, file *destination.File) error {
	if file.Revision == 0 {
		return nil
	}
	there, err := s.everyDestination(ctx)
	if err != nil {
		return err
	}
	for i := range there {
		if err := there[i].newer(file); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	return nil
}

// newer says why file must not touch what a newer one of its set has left.
func (d *destinationDoc) newer(file *destination.File) error {
	if file.Revision == 0 || d.Source.Set != file.Set || d.Source.Revision <= file.Revision {
		return nil
	}
	return &failure{exitFailed, fmt.Sprintf("revision %d of the set %s is older than revision %d, which was applied to %s",
		file.Revision, file.Set, d.Source.Revision, plain(d.Name))}
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
func (c *applyCmd) apply(ctx context.Context, s *session, file *destination.File, e destination.Entry) (result string, err error) {
	written, err := withoutClass(e.Written)
	if err != nil {
		return "", err
	}
	path := destinationPath(e.Contract.Name)
	put := request{method: http.MethodPut, path: path + "?" + c.query(file), body: written, header: map[string]string{}}
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
		if there.ownedBy(file) && same(there.Contract, written) {
			there.warn(s)
			return "unchanged", nil
		}
		result = "updated"
		if tag := a.header.Get("ETag"); tag != "" {
			put.header["If-Match"] = tag
		}
	}
	answer, err := s.api.do(ctx, put)
	if err != nil {
		return result, err
	}
	var now destinationDoc
	if err := decode(answer.body, &now); err != nil {
		return result, err
	}
	now.warn(s)
	return result, nil
}

// warn says what is probably not meant: in the contract, or where it was applied.
func (d *destinationDoc) warn(s *session) {
	for _, w := range d.Warnings {
		s.talk("warning: %s: %s", plain(d.Name), plain(w))
	}
}

// query says for which set the contract is.
func (c *applyCmd) query(file *destination.File) string {
	query := url.Values{"set": {file.Set}}
	if file.Revision > 0 {
		query.Set("revision", strconv.FormatInt(file.Revision, 10))
	}
	if c.DryRun {
		query.Set("dry_run", "true")
	}
	return query.Encode()
}

// ownedBy says whether the destination is stored as of this very file.
func (d *destinationDoc) ownedBy(file *destination.File) bool {
	return d.Source.Kind == kindFile && d.Source.Set == file.Set && d.Source.Revision == file.Revision
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
