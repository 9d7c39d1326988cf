package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tundish/internal/destination"
	"tundish/internal/job"
	queues "tundish/internal/queue" // queue is a name of the rig
	"tundish/internal/redisdb"
	"tundish/internal/redistest"
)

// brief says that the benchmarks only have to show that they still run.
func brief() bool {
	once := flag.Lookup("test.benchtime").Value.String() == "1x"
	return testing.Short() || once
}

// either is the first value in a brief run, else the second.
func either[T any](short, full T) T {
	if brief() {
		return short
	}
	return full
}

// sectionsDir names the folder in which `make bench` gathers its tables.
const sectionsDir = "TUNDISH_BENCH_SECTIONS"

// section is one part of docs/benchmarks.md: a table, and what its columns are.
type section struct {
	file  string // the order of the sections is that of their names
	title string
	about string
	head  []string
	rows  [][]string
	notes []string
}

func (s *section) row(cells ...string) { s.rows = append(s.rows, cells) }

// note adds a line below the table.
func (s *section) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// bar says what a row is held to, and whether it is missed.
func bar(ok bool, format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if ok {
		return text + ": met"
	}
	return text + ": **missed**"
}

// publish prints the section, and keeps it for the document when that is made.
func (s *section) publish(b *testing.B) {
	b.Helper()
	if len(s.rows) == 0 {
		return // filtered away
	}
	var text strings.Builder
	fmt.Fprintf(&text, "## %s\n\n%s\n\n| %s |\n|%s\n", s.title, s.about, strings.Join(s.head, " | "), strings.Repeat(" --- |", len(s.head)))
	for _, cells := range s.rows {
		fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | "))
	}
	for _, n := range s.notes {
		fmt.Fprintf(&text, "\n%s\n", n)
	}
	fmt.Fprintf(os.Stdout, "\n%s\n", text.String())
	if dir := os.Getenv(sectionsDir); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, s.file+".md"), []byte(text.String()), 0o600); err != nil {
			b.Error(err)
		}
	}
}

// median of values that are left in their order.
func median(values []float64) float64 { return percentile(values, 50) }

// percentile by nearest rank; 0 of nothing.
func percentile(values []float64, percent int) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Clone(values)
	slices.Sort(s)
	return s[max(0, (len(s)*percent+99)/100-1)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// count is a whole number with its thousands apart.
func count[T int | int64 | float64](n T) string {
	digits := fmt.Sprintf("%.0f", float64(n))
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// lanes is a store of this process, where the door would only blur what is measured.
type lanes struct {
	testing.TB
	server *redistest.Server
	db     *redisdb.DB
	store  *queues.Store
	client redis.UniversalClient
}

func openLanes(b testing.TB, server *redistest.Server) *lanes {
	b.Helper()
	db, err := redisdb.Open(context.Background(), redisdb.Config{URL: server.URL(), CallTimeout: 20 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	return &lanes{TB: b, server: server, db: db, store: queues.New(db), client: server.Client(b)}
}

// empty removes everything at once.
func (l *lanes) empty() {
	l.Helper()
	if err := l.client.FlushAll(context.Background()).Err(); err != nil {
		l.Fatal(err)
	}
}

// roomy is a queue that no benchmark fills.
const roomy = `"queue":{"capacity":1000000,"max_bytes":"8GiB"},"max_in_flight":100000`

// apply makes a destination with one leaky bucket and answers its contract.
func (l *lanes) apply(name, url string, rate int64, per time.Duration, more string) *destination.Contract {
	l.Helper()
	doc := fmt.Sprintf(`{"target":{"http":{"url":%q,"timeout":"5s"}},"limits":[{"name":"tps","algorithm":"leaky_bucket","rate":%d,"per":"%dms"}],%s}`,
		url, rate, per.Milliseconds(), more)
	c, written, err := destination.ParseContract(name, []byte(doc))
	if err != nil {
		l.Fatal(err)
	}
	_, _, err = l.store.Apply(context.Background(), queues.ApplyRequest{Name: name, Contract: c, Written: written, Source: queues.Source{Kind: "api"}})
	if err != nil {
		l.Fatal(err)
	}
	return c
}

// applyMany makes destinations name-0 to name-(n−1). All but the first are
// copies of its contract and state: a hundred thousand calls of apply would take longer
// than what is measured.
func (l *lanes) applyMany(name, url string, n int, rate int64, per time.Duration) {
	l.Helper()
	l.apply(name+"-0", url, rate, per, `"queue":{"capacity":100000}`)
	ctx, keys := context.Background(), l.keys(name+"-0")
	entry, err := l.client.HGet(ctx, keys.Lanes(), name+"-0").Result()
	conf, errConf := l.client.HGetAll(ctx, keys.Conf()).Result()
	state, errState := l.client.Dump(ctx, keys.State()).Result()
	if err := errors.Join(err, errConf, errState); err != nil {
		l.Fatal(err)
	}
	const page = 500
	for from := 1; from < n; from += page {
		_, err := l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := from; i < min(from+page, n); i++ {
				copied := fmt.Sprintf("%s-%d", name, i)
				keys := l.keys(copied)
				p.HSet(ctx, keys.Lanes(), copied, entry)
				p.Restore(ctx, keys.State(), 0, state)
				for field, text := range conf { // the contract names its destination
					p.HSet(ctx, keys.Conf(), field, strings.ReplaceAll(text, strconv.Quote(name+"-0"), strconv.Quote(copied)))
				}
			}
			return nil
		})
		if err != nil {
			l.Fatal(err)
		}
	}
	if d, err := l.store.Destination(ctx, fmt.Sprintf("%s-%d", name, n-1)); err != nil || d.Live.State != "running" {
		l.Fatalf("a copied destination is not one: %+v, %v", d, err)
	}
}

func (l *lanes) keys(lane string) redisdb.LaneKeys {
	l.Helper()
	keys, err := l.db.Keys().Lane(lane)
	if err != nil {
		l.Fatal(err)
	}
	return keys
}

// bodyOf is a body of so many bytes, JSON as most are.
func bodyOf(bytes int) []byte {
	return []byte(`{"text":"` + strings.Repeat("x", bytes-len(`{"text":""}`)) + `"}`)
}

func newJobs(n int, body []byte, key func(i int) string) []*job.Job {
	jobs := make([]*job.Job, n)
	for i := range jobs {
		jobs[i] = &job.Job{ID: job.NewID(), Priority: job.DefaultPriority, CreatedAt: time.Now().UTC(),
			Request: job.Request{Method: "POST", ContentType: "application/json", Body: body}}
		if key != nil {
			jobs[i].IdempotencyKey = key(i)
		}
	}
	return jobs
}

// push stores jobs that must all be taken.
func (l *lanes) push(lane string, jobs []*job.Job) {
	results, err := l.store.Push(context.Background(), lane, jobs)
	if err != nil {
		l.Error(err)
		return
	}
	for _, r := range results {
		if r.Verdict != queues.Accepted {
			l.Errorf("a push to %s was not taken: %+v", lane, r)
			return
		}
	}
}

func (l *lanes) depth(lane string) int64 {
	l.Helper()
	d, err := l.store.Destination(context.Background(), lane)
	if err != nil {
		l.Fatal(err)
	}
	return d.Live.Depth
}
