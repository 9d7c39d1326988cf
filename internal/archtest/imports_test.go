package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// layer is one row of the import table: what the packages of a folder may
// import of ours, and why no more.
type layer struct {
	level int // arrows go from a higher level to a lower one
	may   []string
	why   string
}

const (
	vocabulary = iota
	store
	mechanism
	service
	wiring
	program
)

var words = []string{"internal/destination", "internal/job"}

// table is the whole layout. A package that is not in it fails the test, so a
// new one is placed on purpose.
var table = map[string]layer{
	"internal/job":         {vocabulary, nil, "the words of the domain depend on nothing"},
	"internal/destination": {vocabulary, []string{"internal/job"}, "a contract is plain data: it knows neither Redis nor HTTP"},

	"internal/deliver/kept": {store, nil, "keeping a connection needs no word of what goes over it"},

	"internal/redisdb": {store, words, "the store connects, names keys and runs scripts; what the scripts decide belongs to the mechanisms"},

	"internal/sharedbucket": {mechanism, with(words, "internal/redisdb"), "limits are tested alone: nothing sideways"},
	"internal/idempotency":  {mechanism, with(words, "internal/redisdb"), "keys are tested alone: nothing sideways"},
	"internal/deliver":      {mechanism, with(words, "internal/deliver/kept"), "sending a request knows nothing of queues or Redis"},
	"internal/secret":       {mechanism, words, "secrets are resolved and sealed here; where they are stored and sent others know"},
	"internal/queue": {mechanism, with(words, "internal/redisdb", "internal/sharedbucket", "internal/idempotency"),
		"the lane joins the Lua parts of limits and keys: the only sideways arrows there are"},

	"internal/api": {service, with(words, "internal/queue", "internal/deliver"),
		"the door speaks to the store through the queue only"},
	"internal/drain": {service, with(words, "internal/queue", "internal/deliver", "internal/redisdb", "internal/sharedbucket"),
		"services do not know each other: app wires them"},
	"internal/background": {service, with(words, "internal/queue", "internal/deliver", "internal/redisdb", "internal/idempotency"),
		"services do not know each other: app wires them"},
	"internal/ui": {service, words, "pages show what an interface of their own gives them"},

	"internal/bank": {mechanism, []string{"internal/job"}, "the bank is the other side: a judge must not share code with whom it judges"},

	"internal/app": {wiring, with(words, "internal/redisdb", "internal/sharedbucket", "internal/idempotency", "internal/deliver", "internal/secret", "internal/queue",
		"internal/api", "internal/drain", "internal/background", "internal/ui", "internal/bank", "client"),
		"the only place that knows all concrete types"},

	"internal/cli": {wiring, with(words, "internal/bank", "internal/api"),
		"the command line talks to the HTTP API, never to Redis; of internal/api it takes how a key is made"},

	// client is public: what it exported of ours nobody outside could name.
	"client": {vocabulary, nil, "users of the client cannot import internal types"},

	"cmd/enqueuer": {program, []string{"internal/app"}, "a main is flags, signals and the exit code: wiring stands in internal/app, where a test can run it"},
	"cmd/worker":   {program, []string{"internal/app"}, "a main is flags, signals and the exit code: wiring stands in internal/app, where a test can run it"},
	"cmd/tundish":  {program, []string{"internal/app", "internal/cli"}, "a main wires: the commands stand in internal/cli, what they run in one process in internal/app"},

	// Beside the product: nothing of it may import these.
	"internal/archtest":  {program, nil, "it reads files and imports nothing of ours"},
	"internal/redistest": {store, with(words, "internal/redisdb"), "it starts a server and knows nothing of what is kept there"},
	"internal/e2e":       {program, with(words, "internal/app", "internal/bank", "client"), "it starts the programs and looks from outside"},
	"internal/chaos":     {program, with(words, "internal/app", "internal/bank", "client"), "it starts the programs and looks from outside"},
	"deploy":             {program, nil, "there is no code in it; its tests read the manifests with the programs' own flags"},
}

// besideTheProduct may import what they like: nobody imports them.
var besideTheProduct = []string{"bench/", "examples/", "tools/"}

// testHelpers are imported by tests only. A test may also bring the bank.
var testHelpers = []string{"internal/redistest"}

func with(base []string, more ...string) []string {
	return slices.Concat(base, more)
}

// rowOf finds the row of a folder: its own or that of a parent folder, since
// the packages below a folder are its parts.
func rowOf(dir string) (name string, row layer, ok bool) {
	for name = dir; name != "."; name = path.Dir(name) {
		if row, ok = table[name]; ok {
			return name, row, true
		}
	}
	return "", layer{}, false
}

func exempt(dir string) bool {
	return slices.ContainsFunc(besideTheProduct, func(folder string) bool {
		return strings.HasPrefix(dir+"/", folder)
	})
}

func TestImportsFollowTheTable(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if exempt(f.dir) {
			continue
		}
		if _, _, ok := rowOf(f.dir); !ok {
			t.Errorf("%s: package %s is not in the import table: say in internal/archtest which layer it is and what it may import", f.path, f.dir)
			continue
		}
		for _, imported := range f.imports() {
			if dir, ours := strings.CutPrefix(imported, module+"/"); ours {
				if err := allowed(f.dir, dir, f.test); err != nil {
					t.Errorf("%s: %v", f.path, err)
				}
			}
		}
	}
}

// allowed says whether a file in folder from may import folder to.
func allowed(from, to string, test bool) error {
	own, row, _ := rowOf(from)
	target, targetRow, ok := rowOf(to)
	switch {
	case !ok:
		return fmt.Errorf("imports %s, which is not in the import table", to)
	case own == target, slices.Contains(row.may, target):
		return nil
	case test && (slices.Contains(testHelpers, target) || target == "internal/bank"):
		return nil
	case slices.Contains(testHelpers, target):
		return fmt.Errorf("imports %s, which is for tests only", to)
	case test && targetRow.level < row.level:
		return nil // a test may reach down as far as it likes
	}
	return fmt.Errorf("imports %s; %s may import %s: %s", to, own, orNothing(row.may), row.why)
}

func orNothing(may []string) string {
	if len(may) == 0 {
		return "nothing of ours"
	}
	return "only " + strings.Join(may, ", ")
}

// The table itself must not hold a circle or an arrow that goes up.
func TestTableGoesDown(t *testing.T) {
	t.Parallel()
	sideways := map[string]bool{
		"internal/destination internal/job":       true,
		"internal/queue internal/sharedbucket":    true,
		"internal/queue internal/idempotency":     true,
		"internal/redistest internal/redisdb":     true,
		"internal/redistest internal/destination": true,
	}
	for name, row := range table {
		for _, to := range row.may {
			below, ok := table[to]
			if !ok {
				t.Errorf("%s may import %s, which has no row", name, to)
			}
			if below.level >= row.level && !sideways[name+" "+to] {
				t.Errorf("%s (level %d) may import %s (level %d): arrows go down only", name, row.level, to, below.level)
			}
		}
		if row.why == "" {
			t.Errorf("%s has no reason", name)
		}
	}
}

func TestAllowed(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		from, to string
		test     bool
		want     bool
	}{
		{"service to mechanism", "internal/api", "internal/queue", false, true},
		{"part of a package to its parent", "internal/api/parts", "internal/api", false, true},
		{"service to service", "internal/api", "internal/drain", false, false},
		{"service to service in a test", "internal/api", "internal/drain", true, false},
		{"up", "internal/queue", "internal/app", false, false},
		{"up in a test", "internal/queue", "internal/app", true, false},
		{"door past the queue", "internal/api", "internal/redisdb", false, false},
		{"the same in a test", "internal/api", "internal/redisdb", true, true},
		{"mechanism sideways", "internal/sharedbucket", "internal/queue", false, false},
		{"main past app", "cmd/worker", "internal/drain", false, false},
		{"command line to Redis", "internal/cli", "internal/redisdb", false, false},
		{"command line past the API", "internal/cli", "internal/queue", false, false},
		{"test helper in the product", "internal/queue", "internal/redistest", false, false},
		{"test helper in a test", "internal/queue", "internal/redistest", true, true},
		{"bank in a test", "internal/deliver", "internal/bank", true, true},
		{"bank to the product", "internal/bank", "internal/destination", false, false},
		{"unknown", "internal/api", "internal/misc", false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := allowed(c.from, c.to, c.test); (err == nil) != c.want {
				t.Errorf("allowed(%s, %s, test %v) = %v, want allowed: %v", c.from, c.to, c.test, err, c.want)
			}
		})
	}
}

// keptIn are modules that one place hides from the rest.
var keptIn = []struct {
	module string
	in     []string
	tests  bool // may all tests import it
	why    string
}{
	{"github.com/danielgtaylor/huma", []string{"internal/api"}, false, "the API framework stays behind the door"},
	{"github.com/swaggest/swgui", []string{"internal/api"}, false, "the page of the API is part of the door"},
	{"golang.org/x/time", []string{"internal/api"}, false, "rates of destinations are kept in Redis, not in a process"},
	{"github.com/hibiken/asynq", []string{"internal/background", "internal/app"}, true, "lanes are not asynq queues (docs/adr/0001)"},
	{"github.com/alecthomas/kong", []string{"cmd", "internal/app", "internal/cli"}, true, "flags are read at the edge"},
	{"github.com/schollz/progressbar", []string{"internal/cli"}, false, "talk to people is the command line's work"},
	{"github.com/alicebob/miniredis", []string{"internal/app", "internal/redistest"}, true, "embedded Redis is for trying and for tests"},
	{"github.com/redis/go-redis", []string{"internal/redisdb", "internal/queue", "internal/sharedbucket", "internal/idempotency",
		"internal/background", "internal/app", "internal/redistest"}, true, "services reach Redis through a mechanism"},
	{"github.com/wneessen/go-mail", []string{"internal/deliver/mail"}, false, "mails are put together and handed over in one place"},
	{"github.com/emersion", nil, true, "for tests only: the other side of a mail"},
	{"go.uber.org/goleak", []string{"internal/redistest"}, true, "for tests only"},
	{"github.com/Shopify/toxiproxy", []string{"internal/redistest"}, false, "for tests only: links to Redis are made in one place"},
	{"github.com/rs/zerolog", []string{"internal/redistest"}, false, "our programs log through slog"},
	{"github.com/standard-webhooks/standard-webhooks/libraries", nil, true, "for tests only: a receiver that is not ours"},
	{"pgregory.net/rapid", nil, true, "for tests only: its licence (MPL-2.0) stays out of the programs"},
}

func TestModulesStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if exempt(f.dir) {
			continue
		}
		for _, imported := range f.imports() {
			for _, rule := range keptIn {
				if !within(imported, rule.module) || f.test && rule.tests {
					continue
				}
				if !slices.ContainsFunc(rule.in, func(dir string) bool { return within(f.dir, dir) }) {
					t.Errorf("%s: imports %s, which belongs to %v: %s", f.path, imported, rule.in, rule.why)
				}
			}
		}
	}
}

// within says whether name is parent or below it.
func within(name, parent string) bool {
	return name == parent || strings.HasPrefix(name, parent+"/")
}
