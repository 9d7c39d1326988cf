package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tundish/internal/app"
	"tundish/internal/cli"
	"tundish/internal/redistest"
)

// enqueuer is a real one, which reads no file.
func enqueuer(t *testing.T) (url string) {
	t.Helper()
	e, err := app.NewEnqueuer(app.EnqueuerConfig{
		Common: app.Common{RedisURL: redistest.Shared(t).URL(), Namespace: redistest.Namespace(t), LogLevel: "info", LogFormat: "text"},
		Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", MetricsDestinations: "200",
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	return "http://" + e.Addr()
}

const (
	done, failed = 0, 1

	one   = "  - {name: one, target: {http: {url: 'https://a.example/'}}, limits: [{rate: 1, per: 1s}]}\n"
	two   = "  - {name: two, target: {http: {url: 'https://a.example/'}}, limits: [{rate: 1, per: 1s}]}\n"
	three = "  - {name: three, target: {http: {url: 'https://a.example/'}}, limits: [{rate: 1, per: 1s}]}\n"
)

// A file that is applied through the API owns what it names, as one that an
// enqueuer reads does.
func TestApplySpeaksForItsSet(t *testing.T) {
	t.Parallel()
	url := enqueuer(t)
	tundish := func(code int, want string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		got := cli.Main(append(args, "--server", url), strings.NewReader(""), &out, &errs)
		if text := out.String() + errs.String(); got != code || !strings.Contains(text, want) {
			t.Errorf("%v: exit %d, want %d with %q:\n%s", args, got, code, want, text)
		}
	}
	file := func(head string, destinations ...string) string {
		path := filepath.Join(t.TempDir(), "d.yaml")
		if err := os.WriteFile(path, []byte(head+"destinations:\n"+strings.Join(destinations, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	seven := file("set: payments\nrevision: 7\n", one, two)
	tundish(done, "one  created\ntwo  created\n", "apply", "-f", seven)
	tundish(done, "one  unchanged\ntwo  unchanged\n", "apply", "-f", seven)
	tundish(done, "file of set payments, revision 7", "get", "one")

	tundish(failed, "older than revision 7", "apply", "-f", file("set: payments\nrevision: 6\n", one, three))
	tundish(failed, "destination_not_found", "get", "three", "-o", "name")

	mails := file("set: mails\n", one, three)
	tundish(failed, "one: owned_by_file", "apply", "-f", mails)
	tundish(done, "file of set mails", "get", "three")

	tundish(failed, "set=payments", "delete", "one", "--yes")
	tundish(failed, "owned_by_file", "delete", "one", "--yes", "--set", "mails")

	tundish(done, "id", "push", "two", "-d", "{}")
	eight := file("set: payments\nrevision: 8\n", one)
	tundish(failed, "two: not pruned: it holds 1 live job;", "apply", "-f", eight, "--prune")
	tundish(done, "two deleted", "delete", "two", "--yes", "--set", "payments", "--cancel-jobs")
	tundish(done, "one  unchanged\n", "apply", "-f", eight, "--prune")
	tundish(done, "one  deleted\n", "apply", "-f", file("set: payments\nrevision: 9\n", two), "--prune")
	tundish(done, "three\ntwo\n", "get", "-o", "name")
}
