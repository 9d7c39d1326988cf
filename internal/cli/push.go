package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	"tundish/internal/job"
)

type pushCmd struct {
	remote
	Destination string  `arg:"" help:"The destination."`
	File        string  `xor:"what" placeholder:"FILE" help:"Jobs to push, one JSON object a line (NDJSON); - is stdin."`
	Data        *string `short:"d" xor:"what" placeholder:"BODY" help:"Body of one job: JSON is sent as JSON, other text as text."`

	Key      string   `group:"With -d:" help:"Idempotency key; a repeated one makes no second job."`
	Tenant   string   `group:"With -d:" help:"Fairness key."`
	Priority string   `group:"With -d:" placeholder:"0-9" help:"0 goes first."`
	Delay    string   `group:"With -d:" placeholder:"DURATION" help:"Not before, such as 10s."`
	Method   string   `group:"With -d:" help:"HTTP method; the destination's own without it."`
	Path     string   `group:"With -d:" help:"Below the target's URL, with query."`
	Header   []string `group:"With -d:" sep:"none" placeholder:"NAME: VALUE" help:"A header of the request; may be repeated."`

	FromLine string `name:"from-line" group:"With --file:" placeholder:"N" help:"Begin at this line."`
	Run      string `group:"With --file:" placeholder:"ID" help:"Continue this run: jobs without idempotency_key get the keys they had in it."`

	fromLine int64
}

func (c *pushCmd) check(p *problems) {
	checkName(p, c.Destination)
	switch {
	case c.File == "" && c.Data == nil:
		p.add("give --file FILE (- is stdin) or -d BODY")
	case c.File != "":
		c.checkFile(p)
	default:
		c.checkJob(p)
	}
}

func (c *pushCmd) checkFile(p *problems) {
	for flag, given := range map[string]bool{
		"--key": c.Key != "", "--tenant": c.Tenant != "", "--priority": c.Priority != "", "--delay": c.Delay != "",
		"--method": c.Method != "", "--path": c.Path != "", "--header": len(c.Header) > 0,
	} {
		if given {
			p.add("%s: goes with -d; the jobs of a file say it themselves", flag)
		}
	}
	c.fromLine = 1
	if c.FromLine != "" {
		c.fromLine = p.whole("--from-line", c.FromLine, 1, 1<<53)
	}
	if len(c.Run) > maxRun || strings.ContainsFunc(c.Run, func(r rune) bool { return r <= ' ' || r > '~' }) {
		p.add("--run: give at most %d visible ASCII characters", maxRun)
	}
}

// maxRun leaves room for a line number in an idempotency key.
const maxRun = job.MaxKeyBytes - len("-9223372036854775807")

func (c *pushCmd) checkJob(p *problems) {
	if c.FromLine != "" || c.Run != "" {
		p.add("--from-line and --run go with --file")
	}
	c.checkData(p)
	if c.Priority != "" {
		p.whole("--priority", c.Priority, 0, job.MaxPriority)
	}
	if c.Delay != "" {
		p.duration("--delay", c.Delay)
	}
	for _, h := range c.Header {
		if _, _, ok := header(h); !ok {
			p.add(`--header: give NAME: VALUE, such as "X-Ref: a1"`) // not repeated: it may be a secret
		}
	}
}

// checkData refuses what was probably meant otherwise; the wrong body of a payment
// is worse than a question. It does not repeat the body.
func (c *pushCmd) checkData(p *problems) {
	const instead = "if it is meant as it stands, push it with --file, as body_text"
	text := strings.TrimSpace(*c.Data)
	switch {
	case strings.HasPrefix(text, "@"):
		p.add(`-d: reads no files: give -d "$(cat FILE)"; %s`, instead)
	case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["):
		if !json.Valid([]byte(text)) {
			p.add("-d: begins like JSON and is none; %s", instead)
		}
	}
}

func (c *pushCmd) run(ctx context.Context, s *session) error {
	if c.Data != nil {
		return c.pushOne(ctx, s)
	}
	in, size := s.stdin, int64(-1)
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return &usageError{[]string{"--file: " + err.Error()}}
		}
		defer func() { _ = f.Close() }() // it was only read
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		in = f
	}
	return newFilePush(s, c, in, size).run(ctx)
}

// pushOne pushes one job. It always has a key, so that repeating a call that
// was lost makes no second job.
func (c *pushCmd) pushOne(ctx context.Context, s *session) error {
	if c.Key == "" {
		c.Key = string(job.NewID())
	}
	r := request{method: http.MethodPost, path: destinationPath(c.Destination) + "/jobs", body: c.document()}
	a, err := s.patiently(ctx, r, s.talk)
	if err != nil {
		return refusedJob(err)
	}
	var doc struct {
		ID              string `json:"id"`
		State           string `json:"state"`
		Replayed        bool   `json:"replayed"`
		Depth           int64  `json:"depth"`
		Capacity        int64  `json:"capacity"`
		EstimatedSendAt string `json:"estimated_send_at"`
	}
	if err := decode(a.body, &doc); err != nil {
		return err
	}
	return s.show(output{json: a.body, names: []string{doc.ID}, table: func(t *table) {
		t.field("id", "%s", doc.ID)
		state := doc.State
		if doc.Replayed {
			state += " (replayed: the key was used before)"
		}
		t.field("state", "%s", state)
		t.field("depth", "%d/%d", doc.Depth, doc.Capacity)
		t.field("goes about", "%s", doc.EstimatedSendAt)
	}})
}

// refusedJob gives a refusal of the job itself its exit code.
func refusedJob(err error) error {
	a, ok := err.(*apiError) //nolint:errorlint // made by the client, never wrapped
	if ok && a.exitCode() != exitNotAllowed && a.status < http.StatusInternalServerError && a.status != http.StatusNotFound {
		return &failure{exitRefused, err.Error()}
	}
	return err
}

// document is the job in JSON, written by hand so that its body stays byte for
// byte as given.
func (c *pushCmd) document() []byte {
	var o object
	o.text("idempotency_key", c.Key)
	o.text("tenant", c.Tenant)
	o.raw("priority", []byte(c.Priority))
	o.text("delay", c.Delay)
	o.text("method", c.Method)
	o.text("path", c.Path)
	o.raw("headers", c.headers())
	switch data := []byte(*c.Data); {
	case len(data) == 0:
	case json.Valid(data):
		o.raw("body", data)
	default:
		o.text("body_text", *c.Data)
	}
	return o.bytes()
}

// headers keeps the order in which they were given; a repeated name is a list.
func (c *pushCmd) headers() []byte {
	var names []string
	values := map[string][]string{}
	for _, h := range c.Header {
		name, value, _ := header(h)
		if values[name] == nil {
			names = append(names, name)
		}
		values[name] = append(values[name], value)
	}
	if names == nil {
		return nil
	}
	var o object
	for _, name := range names {
		if v := values[name]; len(v) == 1 {
			o.raw(name, compact(v[0]))
		} else {
			o.raw(name, compact(v))
		}
	}
	return o.bytes()
}

// object writes a JSON object in the order of its fields.
type object struct{ b bytes.Buffer }

func (o *object) raw(name string, value []byte) {
	if len(value) == 0 {
		return
	}
	separator := ","
	if o.b.Len() == 0 {
		separator = "{"
	}
	fmt.Fprintf(&o.b, "%s%s:%s", separator, compact(name), bytes.TrimSpace(value))
}

func (o *object) text(name, value string) {
	if value != "" {
		o.raw(name, compact(value))
	}
}

func (o *object) bytes() []byte {
	if o.b.Len() == 0 {
		return []byte("{}")
	}
	return append(o.b.Bytes(), '}')
}
