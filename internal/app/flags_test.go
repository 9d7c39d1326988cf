package app

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What the parser would stop at is told together with the values that are wrong.
func TestParseTellsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"a negative duration": {[]string{"--stop-grace", "-1s", "--concurrency", "-5"}, []string{"--stop-grace: ", "--concurrency: "}},
		"no such flag":        {[]string{"--stop-grase", "S3CR3T", "--log-level", "loud"}, []string{"--stop-grase: there is no such flag", "--log-level: "}},
		"no value":            {[]string{"--stop-grace", "--log-format", "xml", "--concurrency"}, []string{"--stop-grace: a value is missing", "--log-format: ", "--concurrency: a value is missing"}},
		"no flag":             {[]string{"start", "--concurrency=0"}, []string{`"start" is not expected`, "--concurrency: "}},
		"not a bool":          {[]string{"--check=maybe", "--pprof=S", "--admin-listen", "x"}, []string{"--check: ", "--pprof: ", "--admin-listen: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cfg WorkerConfig
			err := parse(&cfg, "worker", "", c.args, io.Discard, os.Exit)
			if err == nil {
				t.Fatal("taken")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.want) || strings.Contains(err.Error(), "S3CR3T") {
				t.Errorf("%d problems, want %d: %v", len(lines), len(c.want), err)
			}
			for _, want := range c.want {
				if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, want) }) {
					t.Errorf("%q is missing in %v", want, err)
				}
			}
		})
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	var cfg WorkerConfig
	args := []string{"--stop-grace", "3s", "--pprof", "--check=no", "--allow-private-targets", "127.0.0.1,10.0.0.0/8", "--log-level=debug"}
	if err := parse(&cfg, "worker", "", args, io.Discard, os.Exit); err != nil {
		t.Fatal(err)
	}
	if cfg.grace != 3*time.Second || !cfg.Pprof || cfg.Check || len(cfg.allow) != 2 || cfg.LogLevel != "debug" || cfg.concurrency != 1000 {
		t.Errorf("%+v", cfg)
	}
}

func TestParseEnvironment(t *testing.T) { //nolint:paralleltest // it sets variables
	t.Setenv("TUNDISH_PPROF", "maybe")
	t.Setenv("TUNDISH_STOP_GRACE", "-1s")
	t.Setenv("TUNDISH_CONCURRENCY", "7")
	var cfg WorkerConfig
	err := parse(&cfg, "worker", "", nil, io.Discard, os.Exit)
	for _, want := range []string{"TUNDISH_PPROF: ", "--stop-grace: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	if cfg.Concurrency != "7" {
		t.Errorf("concurrency %s", cfg.Concurrency)
	}
}

// --check reads the files too, and tells every problem of all of them.
func TestCheckTellsEveryProblemOfTheFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	at := func(name, text string) string {
		path := filepath.Join(folder, name)
		write(t, path, text)
		return path
	}
	c := enqueuerConfig(Common{RedisURL: "redis://127.0.0.1/0", Namespace: "default", LogLevel: "info", LogFormat: "text", Check: true})
	c.Destinations = at("d.yaml", "destinations:\n  - name: bank\n    limits: [{algorithm: leaky_bucket, rate: 0, per: 1s}]\n    colour: red\n")
	c.Keys = at("keys.yaml", "producers: [{name: \"a:b\", keys: [{sha256: zz}], scopes: [root], destinations: [\"*\"]}]\n")
	c.TLSCert, c.TLSKey = at("cert.pem", "no certificate"), at("key.pem", "S3CR3T")
	c.MetricsDestinations = "many"
	var stderr bytes.Buffer
	if code := RunEnqueuer(t.Context(), c, &stderr); code != exitUsage {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"d.yaml: line 3: /destinations/0/limits/0/rate: ", "/destinations/0/colour: ", "/destinations/0/target",
		"keys.yaml: /producers/0/name: ", "keys.yaml: /producers/0/keys/0/sha256: ", "keys.yaml: /producers/0/scopes/0: ", "--tls-cert", "--metrics-destinations"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is missing in\n%s", want, stderr.String())
		}
	}
	if strings.Contains(stderr.String(), "S3CR3T") {
		t.Errorf("a key is shown: %s", stderr.String())
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.Count(line, "/destinations/0") > 1 || strings.Count(line, "/producers/0") > 1 {
			t.Errorf("two problems in one line: %s", line)
		}
	}
}

// What runs says what it is, in the line that tundish version prints.
func TestParseVersion(t *testing.T) {
	t.Parallel()
	for program, cfg := range map[string]any{"worker": &WorkerConfig{}, "enqueuer": &EnqueuerConfig{}} {
		var out bytes.Buffer
		code := -1
		if err := parse(cfg, program, "", []string{"--version"}, &out, func(c int) { code = c }); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(out.String(), program+" "+Version+" (go") || strings.Count(out.String(), "\n") != 1 || code != 0 {
			t.Errorf("exit %d after %q", code, out.String())
		}
	}
}
