package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tundish/internal/destination"
)

type getCmd struct {
	remote
	Name *string `arg:"" optional:"" help:"One destination; without it, all."`
}

// check refuses an empty name too: it is a script's variable that was not set.
func (c *getCmd) check(p *problems) {
	if c.Name != nil {
		checkName(p, *c.Name)
	}
}

// destinationDoc is a destination of the API as far as it is shown.
type destinationDoc struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	Source struct {
		Kind     string `json:"kind"`
		Set      string `json:"set"`
		Revision int64  `json:"revision"`
	} `json:"source"`
	Version   int64               `json:"version"`
	Contract  json.RawMessage     `json:"contract"`
	Effective *destination.Filled `json:"effective"`
	Warnings  []string            `json:"warnings"`
	Faulty    string              `json:"faulty"`
	Live      struct {
		State         string   `json:"state"`
		StateReasons  []string `json:"state_reasons"`
		Depth         int64    `json:"depth"`
		Ready         int64    `json:"ready"`
		Waiting       int64    `json:"waiting"`
		Leased        int64    `json:"leased"`
		Scheduled     int64    `json:"scheduled"`
		Dead          int64    `json:"dead"`
		Unknown       int64    `json:"unknown"`
		SizeBytes     int64    `json:"size_bytes"`
		OldestAgeMS   int64    `json:"oldest_age_ms"`
		DrainMS       int64    `json:"drain_ms"`
		RatePerSecond float64  `json:"rate_per_second"`
	} `json:"live"`
}

func (c *getCmd) run(ctx context.Context, s *session) error {
	if c.Name == nil {
		return list(ctx, s)
	}
	a, err := s.api.do(ctx, request{method: http.MethodGet, path: destinationPath(*c.Name)})
	if err != nil {
		return err
	}
	var d destinationDoc
	if err := decode(a.body, &d); err != nil {
		return err
	}
	return s.show(output{json: a.body, names: []string{d.Name}, table: d.details})
}

// decode reads an answer of the API.
func decode(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the answer cannot be read; is the server an API of another version? %w", err)
	}
	return nil
}

// page is one page of the list.
type page struct {
	Destinations []json.RawMessage `json:"destinations"`
	NextCursor   string            `json:"next_cursor"`
}

func list(ctx context.Context, s *session) error {
	var all []json.RawMessage
	body, pages := []byte(nil), 0
	err := s.eachPage(ctx, func(a *answer, one page) {
		body, pages = a.body, pages+1
		all = append(all, one.Destinations...)
	})
	if err != nil {
		return err
	}
	if pages > 1 {
		body = encode(map[string]any{"destinations": all})
	}
	return s.showList(body, all)
}

// eachPage visits the list of destinations page by page.
func (s *session) eachPage(ctx context.Context, visit func(*answer, page)) error {
	for cursor := ""; ; {
		query := url.Values{"limit": {"500"}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		a, err := s.api.do(ctx, request{method: http.MethodGet, path: destinationsPath + "?" + query.Encode()})
		if err != nil {
			return err
		}
		var one page
		if err := decode(a.body, &one); err != nil {
			return err
		}
		visit(a, one)
		if one.NextCursor == "" || one.NextCursor == cursor {
			return nil
		}
		cursor = one.NextCursor
	}
}

// everyDestination lists all that the key sees.
func (s *session) everyDestination(ctx context.Context) ([]destinationDoc, error) {
	var docs []destinationDoc
	var failed error
	err := s.eachPage(ctx, func(_ *answer, one page) {
		for _, raw := range one.Destinations {
			var d destinationDoc
			failed = cmp.Or(failed, decode(raw, &d))
			docs = append(docs, d)
		}
	})
	return docs, cmp.Or(err, failed)
}

func (s *session) showList(body []byte, raw []json.RawMessage) error {
	docs := make([]destinationDoc, len(raw))
	names := make([]string, len(raw))
	for i := range raw {
		if err := decode(raw[i], &docs[i]); err != nil {
			return err
		}
		names[i] = docs[i].Name
	}
	if len(docs) == 0 {
		s.talk("no destinations yet; make some with: tundish apply -f FILE")
	}
	return s.show(output{json: body, names: names, table: func(t *table) {
		if len(docs) == 0 {
			return
		}
		t.row("NAME", "STATE", "RATE", "DEPTH", "OLDEST", "DRAIN", "DEAD", "UNKNOWN", "WHY")
		for i := range docs {
			d := &docs[i]
			t.row(d.Name, d.state(), d.rate(), d.depth(), d.oldest(), d.drain(), fmt.Sprint(d.Live.Dead), fmt.Sprint(d.Live.Unknown), d.why())
		}
	}})
}

// state is what fits into a column: that nothing names it any longer is worth a word.
func (d *destinationDoc) state() string {
	if d.Source.Kind == kindOrphaned {
		return d.Live.State + " (orphaned)"
	}
	return d.Live.State
}

// why is what stands behind a state, so that nobody has to ask for each.
func (d *destinationDoc) why() string { return strings.Join(d.Live.StateReasons, "; ") }

func (d *destinationDoc) rate() string {
	if d.Effective == nil && d.Live.RatePerSecond == 0 {
		return "-"
	}
	return strconv.FormatFloat(d.Live.RatePerSecond, 'g', 4, 64) + "/s"
}

func (d *destinationDoc) depth() string {
	s := strconv.FormatInt(d.Live.Depth, 10)
	if d.Effective != nil {
		s += "/" + strconv.FormatInt(d.Effective.Queue.Capacity, 10)
	}
	return s
}

func (d *destinationDoc) oldest() string {
	if d.Live.Depth == 0 {
		return "-"
	}
	return span(d.Live.OldestAgeMS)
}

func (d *destinationDoc) drain() string {
	if d.Live.Depth == 0 || d.Live.DrainMS == 0 {
		return "-"
	}
	return span(d.Live.DrainMS)
}

// span shows milliseconds as people read them: two figures are enough.
func span(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d >= 10*time.Second:
		return fmt.Sprintf("%ds", d/time.Second)
	case d >= time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return fmt.Sprintf("%dms", ms)
}

// details shows one destination.
func (d *destinationDoc) details(t *table) {
	l := &d.Live
	t.field("name", "%s", d.Name)
	t.field("state", "%s", l.State)
	t.field("why", "%s", d.why())
	t.field("faulty", "%s", d.Faulty)
	t.field("source", "%s", d.source())
	t.field("version", "%d", d.Version)
	if d.Effective != nil {
		d.contract(t)
	}
	t.field("rate", "%s as granted", d.rate())
	t.field("depth", "%s (%d ready, %d waiting, %d leased, %d scheduled)", d.depth(), l.Ready, l.Waiting, l.Leased, l.Scheduled)
	t.field("size", "%.1f KiB", float64(l.SizeBytes)/1024)
	t.field("oldest", "%s", d.oldest())
	t.field("drain", "%s", d.drain())
	t.field("dead", "%d", l.Dead)
	t.field("unknown", "%d", l.Unknown)
	for _, w := range d.Warnings {
		t.field("warning", "%s", w)
	}
}

func (d *destinationDoc) source() string {
	s := d.Source.Kind
	if d.Source.Set != "" {
		s += " of set " + d.Source.Set
	}
	if d.Source.Revision != 0 {
		s += fmt.Sprintf(", revision %d", d.Source.Revision)
	}
	return s
}

func (d *destinationDoc) contract(t *table) {
	e := d.Effective
	t.field("class", "%s", e.Class)
	if http := e.Target.HTTP; http != nil {
		t.field("target", "%s %s, timeout %s", http.Method, http.URL, http.Timeout)
	}
	if smtp := e.Target.SMTP; smtp != nil {
		t.field("target", "smtp %s:%d (tls %s) from %s, timeout %s", smtp.Host, smtp.Port, smtp.TLS, smtp.From, smtp.Timeout)
	}
	for _, l := range e.Limits {
		burst := ""
		if l.Burst > 0 {
			burst = fmt.Sprintf(", burst %d", l.Burst)
		}
		name := l.Name + ": "
		if l.Name == l.Algorithm { // it was given none
			name = ""
		}
		t.field("limit", "%s%s, %d per %s%s", name, l.Algorithm, l.Rate, l.Per, burst)
	}
	t.field("in flight", "at most %d", e.MaxInFlight)
	t.field("retry", "%d attempts within %s", e.Retry.MaxAttempts, e.Retry.MaxAge)
}
