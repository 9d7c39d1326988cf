package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// prune deletes what the file's set owns or has let go and the file does not
// name. It never destroys jobs, dead ones neither: what holds some is named and stays.
func (c *applyCmd) prune(ctx context.Context, s *session, file *destination.File) ([]applied, error) {
	there, err := s.everyDestination(ctx)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, e := range file.Destinations {
		named[e.Contract.Name] = true
	}
	var pruned []applied
	var first error
	for i := range there {
		d := &there[i]
		if named[d.Name] || d.Source.Set != file.Set || d.Source.Kind != kindOrphaned && d.Source.Kind != kindFile {
			continue
		}
		a := applied{Name: d.Name, Result: "deleted"}
		if err := c.pruneOne(ctx, s, file, d); err != nil {
			a.Result, a.Error = "failed", err.Error()
			report(s.stderr, fmt.Errorf("%s: %w", d.Name, err))
			first = cmp.Or(first, err)
			if hopeless(ctx, err) {
				return append(pruned, a), first
			}
		}
		pruned = append(pruned, a)
	}
	return pruned, first
}

// The sources of destinations that a set of files has or had.
const (
	kindFile     = "file"
	kindOrphaned = "orphaned"
)

func (c *applyCmd) pruneOne(ctx context.Context, s *session, file *destination.File, d *destinationDoc) error {
	if err := d.newer(file); err != nil {
		return fmt.Errorf("not pruned: %w", err)
	}
	var holds []string
	for _, jobs := range []struct {
		n    int64
		kind string
	}{{d.Live.Depth, "live job"}, {d.Live.Dead, "dead job"}, {d.Live.Unknown, "unknown job"}} {
		if jobs.n > 0 {
			holds = append(holds, count(int(jobs.n), jobs.kind))
		}
	}
	if len(holds) > 0 {
		return &failure{exitFailed, "not pruned: it holds " + strings.Join(holds, ", ") + "; when they may go: tundish delete " + d.Name + " --set " + file.Set + " --cancel-jobs"}
	}
	if c.DryRun {
		return nil
	}
	_, err := s.api.do(ctx, request{method: http.MethodDelete, path: destinationPath(d.Name) + "?" + url.Values{"set": {file.Set}}.Encode(), header: map[string]string{"If-Match": fmt.Sprintf("%q", fmt.Sprint(d.Version))}})
	if e, ok := errors.AsType[*apiError](err); ok && e.problem.Code == string(job.CodeDestinationNotFound) {
		return nil // another was faster
	}
	return err
}
