package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		args []string
		code int
		want []string // in stderr
	}{
		{"nothing", nil, exitUsage, []string{"expected one of", "--help"}},
		{"unknown command", []string{"frobnicate"}, exitUsage, []string{"frobnicate"}},
		{"not built", []string{"import", "bank", "x"}, exitUsage, []string{"import"}},
		{"unknown flag", []string{"get", "--colour"}, exitUsage, []string{"--colour"}},
		{"demo that nobody brought", []string{"demo"}, exitUsage, []string{"demo"}},
		{"every bad value at once", []string{"push", "Bank", "-d", "x", "--server", "ftp://x", "-o", "xml", "--timeout", "3", "--priority", "10", "--delay", "soon", "--header", "X"},
			exitUsage, []string{"--server", "--output", "--timeout", `"Bank"`, "--priority", "0 to 9", "--delay", "--header"}},
		{"a negative value", []string{"push", "Bank", "-d", "x", "--timeout", "-1s", "--priority", "-1", "-o", "xml"}, exitUsage, []string{"--timeout: ", "--priority: ", `"Bank"`, "--output"}},
		{"a value that is missing", []string{"get", "--timeout", "--quiet"}, exitUsage, []string{"--timeout"}},
		{"a negative number as a body", []string{"push", "Bank", "-d", "-5", "--priority", "x"}, exitUsage, []string{`"Bank"`, "--priority"}},
		{"an empty name", []string{"get", ""}, exitUsage, []string{`"" is not a name`}},
		{"timeout of nothing", []string{"version", "--timeout", "0s"}, exitUsage, []string{"--timeout"}},
		{"password in the server", []string{"get", "--server", "http://me:hunter2@h"}, exitUsage, []string{"TUNDISH_KEY"}},
		{"query in the server", []string{"get", "--server", "http://h/?token=hunter2"}, exitUsage, []string{"--server"}},
		{"push of nothing", []string{"push", "bank"}, exitUsage, []string{"--file", "-d"}},
		{"push of both", []string{"push", "bank", "-d", "x", "--file", "y"}, exitUsage, []string{"--file"}},
		{"job flags with a file", []string{"push", "bank", "--file", "-", "--key", "k", "--tenant", "t"}, exitUsage, []string{"--key", "--tenant"}},
		{"file flags with a job", []string{"push", "bank", "-d", "x", "--from-line", "7"}, exitUsage, []string{"--from-line"}},
		{"no such job file", []string{"push", "bank", "--file", "/nonexistent/x"}, exitUsage, []string{"--file"}},
		{"no such destinations file", []string{"apply", "-f", "/nonexistent/x"}, exitUsage, []string{"/nonexistent/x"}},
		{"no such key file", []string{"get", "--key-file", "/nonexistent/x"}, exitUsage, []string{"--key-file"}},
		{"body that is no text", []string{"push", "bank", "-d", "\xff"}, exitUsage, []string{"UTF-8"}},
		{"body that was to be read", []string{"push", "bank", "-d", "@hunter2.json"}, exitUsage, []string{"-d: ", "$(cat FILE)"}},
		{"body cut short", []string{"push", "bank", "-d", ` {"card": "hunter2"`}, exitUsage, []string{"-d: ", "JSON"}},
		{"report of the bank nowhere", []string{"bank", "--listen", "127.0.0.1:0", "--report-file", "/nonexistent/x", "-o", "xml"}, exitUsage, []string{"--report-file: ", "--output"}},
		{"bank without a rate", []string{"bank", "--rate", "0"}, exitUsage, []string{"/rate"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := world{}.run(t.Context(), c.args...)
			e.want(t, c.code, "", "")
			for _, text := range c.want {
				if !strings.Contains(e.stderr, text) {
					t.Errorf("stderr %q, want %q in it", e.stderr, text)
				}
			}
			if strings.Contains(e.stderr, "hunter2") || e.stdout != "" {
				t.Errorf("stdout %q, stderr %q: want no secret, and nothing on stdout", e.stdout, e.stderr)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	world{}.run(t.Context(), "--help").want(t, exitDone, "Exit codes", "")
	help := world{}.run(t.Context(), "push", "--help")
	help.want(t, exitDone, "--from-line", "")
	if own, all := strings.Index(help.stdout, "--data"), strings.Index(help.stdout, "--server"); own > all {
		t.Errorf("the command's own flags stand behind those of every command:\n%s", help.stdout)
	}
	w := world{programs: Programs{Version: "1.2.3"}}
	w.run(t.Context(), "version").want(t, exitDone, "tundish 1.2.3 (go", "")
	w.run(t.Context(), "--version").want(t, exitDone, "tundish 1.2.3 (go", "")
	w.run(t.Context(), "version", "-o", "name").want(t, exitDone, "1.2.3\n", "")
	world{}.run(t.Context(), "version", "-o", "yaml").want(t, exitDone, "version: dev\n", "")
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	var auth string
	f := newFakeAPI(t, map[string]http.HandlerFunc{"GET /v1/destinations": func(w http.ResponseWriter, r *http.Request) {
		auth = r.Header.Get("Authorization")
		says(http.StatusOK, `{"destinations":[]}`)(w, r)
	}})
	env := map[string]string{"TUNDISH_SERVER": f.URL, "TUNDISH_KEY": "tnd_one", "TUNDISH_OUTPUT": "json"}
	world{env: env}.run(t.Context(), "get").want(t, exitDone, `{"destinations":[]}`, "")
	if auth != "Bearer tnd_one" {
		t.Errorf("Authorization %q, want the key of TUNDISH_KEY", auth)
	}
	file := tempFile(t, "key", "tnd_two\n")
	world{env: env}.run(t.Context(), "get", "--key-file", file, "-o", "name").want(t, exitDone, "", "no destinations")
	if auth != "Bearer tnd_two" {
		t.Errorf("Authorization %q, want the key of the file: a flag goes before the environment", auth)
	}
	env["TUNDISH_TIMEOUT"] = "x"
	world{env: env}.run(t.Context(), "get").want(t, exitUsage, "", "--timeout")
}

// A variable fills the flags of every command, and none of one command: the
// key of the API must never go out as an idempotency key.
func TestKeyIsNoIdempotencyKey(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, map[string]http.HandlerFunc{
		"POST /v1/destinations/bank/jobs": says(http.StatusAccepted, `{"id":"j","state":"ready"}`)})
	world{env: map[string]string{"TUNDISH_KEY": "tnd_secret"}}.run(t.Context(), "push", "bank", "-d", "x", "--server", f.URL).want(t, exitDone, "j", "")
	if call := f.seen()[0]; strings.Contains(call, "tnd_secret") {
		t.Errorf("the key is in the job: %s", call)
	}
}

func TestExitCodesOfTheAPI(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		handle http.HandlerFunc
		code   int
		want   string
	}{
		{"no key", says(401, problemBody("unauthenticated", "send a key")), exitNotAllowed, "unauthenticated: send a key (the key given is not known"},
		{"no scope", says(403, problemBody("forbidden", "the key needs the scope read")), exitNotAllowed, "forbidden: the key needs the scope read"},
		{"unknown", says(404, problemBody("destination_not_found", "there is none")), exitFailed, "destination_not_found"},
		{"wrong", says(422, `{"code":"invalid","detail":"2 problems","errors":[{"pointer":"/a","detail":"no"},{"pointer":"/b/0","detail":"nor\u001b[31m this"}]}`),
			exitUsage, "invalid: 2 problems; /a: no; /b/0: nor [31m this\n"},
		{"internal", says(500, problemBody("internal", "the request failed")), exitFailed, "(request_id r-1)"},
		{"unavailable", says(503, problemBody("unavailable", "no redis")), exitFailed, "unavailable: no redis"},
		{"a proxy", says(502, "<html>"), exitFailed, "HTTP 502 Bad Gateway; is it the API?"},
		{"elsewhere", says(302, "", "Location", "http://127.0.0.1:1/x"), exitFailed, "HTTP 302"},
		{"not JSON", says(200, "hello"), exitFailed, "cannot be read"},
		{"hung up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, exitFailed, "no answer from"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t, map[string]http.HandlerFunc{"GET /v1/destinations/bank": c.handle})
			e := world{env: map[string]string{"TUNDISH_KEY": "tnd_secret"}}.run(t.Context(), "get", "bank", "--server", f.URL)
			e.want(t, c.code, "", c.want)
			if strings.Contains(e.stderr+e.stdout, "tnd_secret") {
				t.Errorf("stderr %q holds the key", e.stderr)
			}
			if strings.Count(e.stderr, "\n") != 1 {
				t.Errorf("stderr %q, want one line", e.stderr)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, nil)
	f.Close()
	e := world{}.run(t.Context(), "get", "--server", f.URL)
	e.want(t, exitFailed, "", "no answer from "+f.URL+": ")
	if strings.Contains(e.stderr, "limit=") {
		t.Errorf("stderr %q repeats the query", e.stderr)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, map[string]http.HandlerFunc{"GET /v1/destinations": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }})
	world{}.run(t.Context(), "get", "--server", f.URL, "--timeout", "30ms").want(t, exitTimedOut, "", "timed out after 30ms")
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	f := newFakeAPI(t, map[string]http.HandlerFunc{"GET /v1/destinations": func(_ http.ResponseWriter, r *http.Request) {
		stop()
		<-r.Context().Done()
	}})
	world{}.run(ctx, "get", "--server", f.URL).want(t, exitFailed, "", "tundish: interrupted\n")
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	var demo DemoOptions
	var dev DevOptions
	w := world{programs: Programs{
		Demo: func(_ context.Context, o DemoOptions, view io.Writer) (DemoResult, error) {
			demo = o
			_, err := io.WriteString(view, "view\n")
			return DemoResult{"ok", "verdict\n", map[string]int{"delivered": 7}}, err
		},
		Dev: func(_ context.Context, o DevOptions, _, _ io.Writer) error {
			dev = o
			return errors.New("port taken")
		},
	}}
	w.run(t.Context(), "demo", "--jobs", "7").want(t, exitDone, "view\nverdict\n", "")
	if want := (DemoOptions{Rate: 50, Jobs: 7, Workers: 3}); demo != want {
		t.Errorf("demo got %+v, want %+v", demo, want)
	}
	w.run(t.Context(), "demo", "--jobs", "0", "--workers", "x").want(t, exitUsage, "", "--jobs: \"0\" is not a whole number from 1 to")
	w.run(t.Context(), "dev").want(t, exitFailed, "", "tundish: dev: port taken")
	if want := (DevOptions{Listen: "127.0.0.1:8080"}); dev != want {
		t.Errorf("dev got %+v, want %+v", dev, want)
	}
	w.run(t.Context(), "--help").want(t, exitDone, "demo", "")
}

// The verdict is for programs too; then how it goes is shown on stderr.
func TestDemoForms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args           []string
		ends           error
		code           int
		stdout, stderr string
	}{
		"table":            {nil, nil, exitDone, "view\nverdict\n", ""},
		"json":             {[]string{"-o", "json"}, nil, exitDone, "{\n  \"delivered\": 7\n}\n", "view\n"},
		"yaml":             {[]string{"-o", "yaml"}, nil, exitDone, "delivered: 7\n", "view\n"},
		"name":             {[]string{"-o", "name"}, nil, exitDone, "ok\n", "view\n"},
		"quiet":            {[]string{"-q"}, nil, exitDone, "verdict\n", ""},
		"not clean":        {[]string{"-o", "name"}, errors.New("not clean"), exitFailed, "ok\n", "view\ntundish: not clean\n"},
		"--timeout":        {[]string{"--timeout", "20ms"}, context.DeadlineExceeded, exitTimedOut, "view\nverdict\n", "tundish: the command timed out after 20ms\n"},
		"--timeout, quiet": {[]string{"--timeout", "20ms", "-q"}, context.DeadlineExceeded, exitTimedOut, "verdict\n", "tundish: the command timed out after 20ms\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world{programs: Programs{Demo: func(ctx context.Context, _ DemoOptions, view io.Writer) (DemoResult, error) {
				_, _ = io.WriteString(view, "view\n")
				if errors.Is(c.ends, context.DeadlineExceeded) {
					<-ctx.Done()
				}
				return DemoResult{"ok", "verdict\n", map[string]int{"delivered": 7}}, c.ends
			}}}
			e := w.run(t.Context(), append([]string{"demo"}, c.args...)...)
			if e.code != c.code || e.stdout != c.stdout || e.stderr != c.stderr {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	w := world{programs: Programs{Demo: func(ctx context.Context, _ DemoOptions, _ io.Writer) (DemoResult, error) {
		stop()
		<-ctx.Done()
		return DemoResult{"stopped", "3 of 5\n", nil}, ctx.Err()
	}}}
	w.run(ctx, "demo").want(t, exitFailed, "3 of 5\n", "tundish: interrupted\n")
}

func TestBank(t *testing.T) {
	t.Parallel()
	report := filepath.Join(t.TempDir(), "report.json")
	world{}.run(t.Context(), "bank", "--listen", "127.0.0.1:0", "--timeout", "20ms", "--report-file", report).want(t, exitDone, "bank on http://127.0.0.1:", "")
}

func TestMainRuns(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	if code := Main([]string{"version", "-o", "json"}, strings.NewReader(""), &out, &errs); code != exitDone || !json.Valid([]byte(out.String())) {
		t.Errorf("exit %d, stdout %q, stderr %q", code, out.String(), errs.String())
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errInterrupted)
	if err := sleep(ctx, time.Hour); !errors.Is(err, errInterrupted) {
		t.Errorf("sleep ended with %v, want %v", err, errInterrupted)
	}
	if err := sleep(t.Context(), time.Millisecond); err != nil {
		t.Errorf("sleep ended with %v", err)
	}
}
