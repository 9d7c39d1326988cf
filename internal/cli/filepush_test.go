package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// push runs `tundish push bank --file -` on the lane.
func (l *lane) push(ctx context.Context, f *fakeAPI, stdin string, args ...string) ending {
	w := world{stdin: strings.NewReader(stdin), clock: l.clock}
	return w.run(ctx, append([]string{"push", "bank", "--file", "-", "--server", f.URL}, args...)...)
}

func TestPushFileInBatches(t *testing.T) {
	t.Parallel()
	l := &lane{}
	f := l.serve(t)
	e := l.push(t.Context(), f, "\n"+numbered(2500)+"\n  \n", "--run", "r")
	e.want(t, exitDone, "2500 accepted, 0 refused\n", "")
	l.inOrder(2500)
	if want := []int{1000, 1000, 500}; !slices.Equal(l.sizes, want) {
		t.Errorf("batches of %v, want %v", l.sizes, want)
	}
	if l.order[0] != "r-2" || l.order[2499] != "r-2501" {
		t.Errorf("keys %s … %s, want run and line, empty lines counted", l.order[0], l.order[2499])
	}
}

func TestPushFileBoundsBytes(t *testing.T) {
	t.Parallel()
	var sizes []int // jobs of each call
	l := &lane{before: func(_ int, w http.ResponseWriter, r *http.Request) bool {
		body, _ := io.ReadAll(r.Body)
		if len(body) > batchBytes {
			t.Errorf("a batch has %d bytes, at most %d are taken", len(body), batchBytes)
		}
		sizes = append(sizes, bytes.Count(body, []byte("\n")))
		results := strings.Repeat(`{"status":202},`, sizes[len(sizes)-1])
		says(http.StatusOK, `{"results":[`+strings.TrimSuffix(results, ",")+`]}`)(w, r)
		return true
	}}
	f := l.serve(t)
	big := fmt.Sprintf(`{"body":%q}`, strings.Repeat("x", 3<<20)) + "\n"
	tooBig := fmt.Sprintf(`{"body":%q}`, strings.Repeat("x", batchBytes)) + "\n"
	e := l.push(t.Context(), f, big+big+tooBig+big, "-q")
	e.want(t, exitRefused, "3 accepted, 1 refused\n", "-:3: 413 too_large: the line is longer than 8MiB\n")
	if want := []int{2, 1}; !slices.Equal(sizes, want) {
		t.Errorf("batches of %v, want %v", sizes, want)
	}
}

// A full queue is waited for as told: each job goes once it has been told to,
// in the order of the file, and no time is lost.
func TestPushFileWaitsForPlaces(t *testing.T) {
	t.Parallel()
	l := &lane{capacity: 10, every: 20 * time.Millisecond}
	f := l.serve(t)
	l.push(t.Context(), f, numbered(300)).want(t, exitDone, "300 accepted, 0 refused\n", "bank: queue_full: the jobs left")
	l.inOrder(300)
	ideal := 290 * l.every
	if got := l.clock.slept(); got < ideal || got > ideal*11/10 {
		t.Errorf("waited %v, want %v and little more", got, ideal)
	}
	if most := 300 + 2*290; len(l.asked) > most {
		t.Errorf("%d jobs were sent for 300: those refused came back too early", len(l.asked))
	}
}

// The calls themselves are refused, by the API or by something before it.
func TestPushFileWaitsForTheCall(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		answer http.HandlerFunc
		least  time.Duration
		says   string
	}{
		{"429 with a header", says(429, "", "Retry-After", "7"), 14 * time.Second, "trying again in 7.0s"},
		{"503 with a body", says(503, `{"code":"unavailable","detail":"no redis","retry_after_ms":2500}`, "Retry-After", "3"), 5 * time.Second, "unavailable: no redis; trying again in 2.5s"},
		{"503 with a time in the past", says(503, "", "Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT"), 2 * minBackoff, ""},
		{"500", says(500, problemBody("internal", "a bug")), minBackoff, "a bug"},
		{"502 of a proxy", says(502, "<html>"), minBackoff, "HTTP 502"},
		{"hung up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, minBackoff, "no answer from"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := &lane{before: func(n int, w http.ResponseWriter, r *http.Request) bool {
				if n <= 2 {
					c.answer(w, r)
				}
				return n <= 2
			}}
			f := l.serve(t)
			l.push(t.Context(), f, numbered(3)).want(t, exitDone, "3 accepted, 0 refused\n", c.says)
			l.inOrder(3)
			if got := l.clock.slept(); got < c.least || got > 4*c.least {
				t.Errorf("waited %v, want at least %v", got, c.least)
			}
		})
	}
}

// A call that was carried out and lost makes no second job when repeated.
func TestPushFileLostAnswer(t *testing.T) {
	t.Parallel()
	l := &lane{lose: func(n int) bool { return n%2 == 1 }}
	f := l.serve(t)
	l.push(t.Context(), f, numbered(1500)).want(t, exitDone, "1500 accepted (1500 of them were there before), 0 refused\n", "no answer from")
	l.inOrder(1500)
}

func TestPushFileKeepsKeys(t *testing.T) {
	t.Parallel()
	l := &lane{}
	f := l.serve(t)
	l.push(t.Context(), f, `{"idempotency_key":"mine"}`+"\n{}\n{\"idempotency_key\":null}\n", "--run", `q"`).want(t, exitDone, "3 accepted", "")
	if want := []string{"mine", `q"-2`, `q"-3`}; !slices.Equal(l.order, want) {
		t.Errorf("keys %q, want %q", l.order, want)
	}
}

func TestPushFileRefusedJobs(t *testing.T) {
	t.Parallel()
	verdict := func(doc map[string]any) *result {
		if doc["bad"] == true {
			return &result{Status: 422, Code: "invalid", Detail: "1 problem", Errors: []problemField{{"/bad", "unknown field"}}}
		}
		return nil
	}
	input := "{\"body\":1}\n{\"bad\":true}\nno json\n{\"body\":2}\n"
	cases := []struct{ form, want string }{
		{"table", "2 accepted, 2 refused\n"},
		{"name", "id-1\nid-2\n"},
		{"json", `{"line":1,"status":202,"id":"id-1","state":"ready","replayed":false}
{"line":2,"status":422,"code":"invalid","detail":"1 problem","errors":[{"pointer":"/bad","detail":"unknown field"}]}
{"line":3,"status":400,"code":"malformed","detail":"the body is not JSON"}
{"line":4,"status":202,"id":"id-2","state":"ready","replayed":false}
`},
		{"yaml", `- line: 1
  status: 202
  id: id-1
  state: ready
  replayed: false
- line: 2
  status: 422
  code: invalid
  detail: 1 problem
  errors:
    - pointer: /bad
      detail: unknown field
- line: 3
  status: 400
  code: malformed
  detail: the body is not JSON
- line: 4
  status: 202
  id: id-2
  state: ready
  replayed: false
`},
	}
	for _, c := range cases {
		t.Run(c.form, func(t *testing.T) {
			t.Parallel()
			l := &lane{verdict: verdict}
			f := l.serve(t)
			e := l.push(t.Context(), f, input, "-o", c.form)
			if e.code != exitRefused || e.stdout != c.want {
				t.Errorf("exit %d, stdout\n%s\nwant\n%s", e.code, e.stdout, c.want)
			}
			e.want(t, exitRefused, "", "-:2: 422 invalid: 1 problem; /bad: unknown field\n-:3: 400 malformed: the body is not JSON\ntundish: 2 of 4 jobs refused\n")
		})
	}
}

// What ends a push for good says where to go on.
func TestPushFileFails(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		answer http.HandlerFunc
		code   int
		want   string
	}{
		{"no key", says(401, problemBody("unauthenticated", "send a key")), exitNotAllowed, "unauthenticated"},
		{"no destination", says(404, problemBody("destination_not_found", "none")), exitFailed, "destination_not_found"},
		{"not understood", says(422, problemBody("invalid", "odd")), exitFailed, "invalid: odd"},
		{"too few results", says(200, `{"results":[]}`), exitFailed, "0 results for 500 jobs"},
		{"no JSON", says(200, `hello`), exitFailed, "cannot be read"},
		{"lost ten times", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, exitFailed, "given up after 10 tries"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := &lane{before: func(n int, w http.ResponseWriter, r *http.Request) bool {
				if n > 1 {
					c.answer(w, r)
				}
				return n > 1
			}}
			f := l.serve(t)
			e := l.push(t.Context(), f, numbered(1500), "--run", "r")
			e.want(t, c.code, "1000 accepted", c.want)
			e.want(t, c.code, "", "after 1000 accepted jobs\ntundish: to go on: tundish push bank --file - --from-line 1001 --run r\n")
		})
	}
}

var goOn = regexp.MustCompile(`--from-line \d+ --run \S+`)

// Interrupted and taken up again, at any wait, a file is pushed once.
func TestPushFileInterrupted(t *testing.T) {
	t.Parallel()
	for _, at := range []int{1, 2, 5, 20} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			l := &lane{capacity: 10, every: 20 * time.Millisecond, lose: func(n int) bool { return n == 3 }}
			f := l.serve(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			l.clock.onNth = func(n int) {
				if n == at {
					stop()
				}
			}
			e := l.push(ctx, f, numbered(100))
			e.want(t, exitFailed, ", 0 refused\n", "tundish: interrupted, after ")
			l.push(t.Context(), f, numbered(100), strings.Fields(goOn.FindString(e.stderr))...).want(t, exitDone, "", "")
			l.inOrder(100)
		})
	}
}

func TestPushFileTimesOut(t *testing.T) {
	t.Parallel()
	l := &lane{before: func(_ int, _ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }}
	f := l.serve(t)
	l.push(t.Context(), f, numbered(1), "--timeout", "30ms").want(t, exitTimedOut, "0 accepted", "the command timed out after 30ms, after 0 accepted jobs")
}

// The full share of one tenant does not hold the jobs of others.
func TestPushFileTenantShare(t *testing.T) {
	t.Parallel()
	l := &lane{every: time.Second}
	l.verdict = func(doc map[string]any) *result {
		if doc["tenant"] == "a" && l.clock.now().Sub(l.start) < time.Minute {
			return &result{Status: 429, Code: "tenant_share_full"}
		}
		return nil
	}
	f := l.serve(t)
	l.push(t.Context(), f, strings.Repeat(`{"tenant":"a"}`+"\n", 500)+strings.Repeat(`{"tenant":"b"}`+"\n", 2000)).want(t, exitDone, "2500 accepted", "")
	for i, doc := range l.docs {
		if want := map[bool]string{true: "b", false: "a"}[i < 2000]; doc["tenant"] != want {
			t.Fatalf("job %d is of tenant %v, want %s", i, doc["tenant"], want)
		}
	}
}

// A job that fails in the API through no fault of its own is tried again, but
// not for ever.
func TestPushFileInternalErrors(t *testing.T) {
	t.Parallel()
	n := 0
	l := &lane{}
	l.verdict = func(doc map[string]any) *result {
		if n++; doc["bad"] == true || n <= 3 {
			return &result{Status: 500, Code: "internal"}
		}
		return nil
	}
	f := l.serve(t)
	l.push(t.Context(), f, "{\"body\":1}\n{\"bad\":true}\n{\"body\":3}\n").want(t, exitRefused, "2 accepted, 1 refused", "-:2: 500 internal\n")
}

// A stream that pauses is not held back until a batch is full.
func TestPushFileOfSlowStream(t *testing.T) {
	t.Parallel()
	came := make(chan struct{}, 10)
	l := &lane{verdict: func(map[string]any) *result { came <- struct{}{}; return nil }}
	f := l.serve(t)
	in, out := io.Pipe()
	ended := make(chan ending)
	go func() {
		w := world{stdin: in, clock: l.clock, linger: time.Millisecond}
		ended <- w.run(t.Context(), "push", "bank", "--file", "-", "--server", f.URL)
	}()
	for range 3 {
		if _, err := io.WriteString(out, "{}\n"); err != nil {
			t.Fatal(err)
		}
		<-came
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	(<-ended).want(t, exitDone, "3 accepted", "")
}

// While the stream is silent, a signal ends the push.
func TestPushFileInterruptedInSilence(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	l := &lane{}
	f := l.serve(t)
	in, out := io.Pipe()
	t.Cleanup(func() { _ = out.Close() })
	ended := make(chan ending)
	go func() {
		w := world{stdin: in, clock: l.clock, linger: time.Millisecond}
		ended <- w.run(ctx, "push", "bank", "--file", "-", "--server", f.URL)
	}()
	if _, err := io.WriteString(out, "{}\n"); err != nil {
		t.Fatal(err)
	}
	stop()
	(<-ended).want(t, exitFailed, " accepted", "interrupted")
}

func TestPushFileReadError(t *testing.T) {
	t.Parallel()
	l := &lane{}
	f := l.serve(t)
	in, out := io.Pipe()
	go func() {
		_, _ = io.WriteString(out, numbered(3))
		_ = out.CloseWithError(io.ErrClosedPipe)
	}()
	w := world{stdin: in, clock: l.clock}
	w.run(t.Context(), "push", "bank", "--file", "-", "--server", f.URL).want(t, exitFailed, "3 accepted", "read -: io: read/write on closed pipe, after 3 accepted jobs")
}

func TestPushFileFromDisk(t *testing.T) {
	t.Parallel()
	l := &lane{}
	f := l.serve(t)
	file := tempFile(t, "jobs.ndjson", strings.TrimSuffix(numbered(5), "\n"))
	w := world{clock: l.clock}
	e := w.run(t.Context(), "push", "bank", "--file", file, "--server", f.URL, "--from-line", "3", "-o", "json")
	e.want(t, exitDone, "", "")
	var first result
	if err := json.Unmarshal([]byte(strings.SplitN(e.stdout, "\n", 2)[0]), &first); err != nil || first.Line != 3 || len(l.docs) != 3 {
		t.Errorf("began with line %d, %d jobs, %v; want line 3 and 3 jobs", first.Line, len(l.docs), err)
	}
}
