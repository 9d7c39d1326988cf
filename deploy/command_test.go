package deploy_test

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"tundish/internal/app"
	"tundish/internal/bank"
)

// command is how a manifest starts a program of ours.
type command struct {
	where        string
	program      string // path in the image
	args         []string
	variables    []string // names of the environment
	destinations string   // the file here that is mounted there
}

// enqueuerFlags are the flags without their Validate, which the parser would
// call before the files stand in.
type enqueuerFlags app.EnqueuerConfig

// checkCommand reads a command line with the flags of the program itself and
// validates it as the program does.
func checkCommand(t *testing.T, c command) {
	t.Helper()
	switch name := path.Base(c.program); name {
	case "enqueuer":
		var flags enqueuerFlags
		parse(t, c, &flags)
		cfg := app.EnqueuerConfig(flags)
		standIn(t, c, &cfg)
		validate(t, c, cfg.Validate())
	case "worker":
		var cfg app.WorkerConfig
		parse(t, c, &cfg)
		validate(t, c, cfg.Validate())
	case "tundish":
		var options bank.Options
		if len(c.args) == 0 || c.args[0] != "bank" {
			t.Fatalf("%s: runs tundish %v, want its bank", c.where, c.args)
		}
		c.args = c.args[1:]
		parse(t, c, &options)
	default:
		t.Errorf("%s: starts %q, which is not a program of ours", c.where, c.program)
	}
}

// parse refuses flags and variables that the program does not have.
func parse(t *testing.T, c command, flags any) {
	t.Helper()
	parser, err := kong.New(flags, kong.Name(c.where), kong.DefaultEnvars("TUNDISH"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(c.args); err != nil {
		t.Errorf("%s: %v", c.where, err)
	}
	var known []string
	for _, f := range parser.Model.Flags {
		known = append(known, f.Envs...)
	}
	for _, v := range c.variables {
		if strings.HasPrefix(v, "TUNDISH_") && !slices.Contains(known, v) {
			t.Errorf("%s: no flag reads %s", c.where, v)
		}
	}
}

// standIn puts files of this machine where the manifest names mounted ones.
func standIn(t *testing.T, c command, cfg *app.EnqueuerConfig) {
	t.Helper()
	if cfg.Destinations == "" {
		t.Errorf("%s: brings no destinations", c.where)
	}
	cfg.Destinations = c.destinations
	if cfg.Keys == "" {
		return
	}
	cfg.Keys = filepath.Join(t.TempDir(), "keys.yaml")
	keys := "producers: [{name: shop, keys: [{sha256: " + strings.Repeat("0f", 32) + "}], scopes: [enqueue], destinations: [bank]}]\n"
	if err := os.WriteFile(cfg.Keys, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
}

func validate(t *testing.T, c command, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %s refuses its flags: %v", c.where, path.Base(c.program), err)
	}
}
