package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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
