package sharedbucket

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"tundish/internal/redisdb"
	"tundish/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var backends = []string{"redis", "miniredis"}

// bucketMain runs one step on the limits given.
const bucketMain = `
A = {turns = true, op = ARGV[1], limits = ARGV[2], now = tonumber(ARGV[3]), width = tonumber(ARGV[5]), lead = tonumber(ARGV[6]),
  horizon = tonumber(ARGV[7]), n = tonumber(ARGV[8]), k = tonumber(ARGV[9]), slot = tonumber(ARGV[10])}
C.guard_us = tonumber(ARGV[4])
local list = parse_limits(A.limits)
if not list then return {'damaged'} end
open_limits(list, A.now)
local slots = {}
if A.op == 'grant' or A.op == 'regrant' then
  local before = snapshot(list)
  slots = grant(list, A.now, A.n)
  if A.op == 'regrant' and #slots > A.k then
    regrant(list, before, slots, A.k)
    for i = #slots, A.k + 1, -1 do slots[i] = nil end
  end
  for _, t in ipairs(slots) do list.last = math.max(list.last, t) end
elseif A.op == 'refund' then each_limit(list, 'refund', A.slot)
elseif A.op == 'lost' then forget_slots(list, A.now) end
save_limits(list)
save_state()
for i, t in ipairs(slots) do slots[i] = int(t) end
local states = {}
for i, l in ipairs(list) do states[i] = call('HGET', K.state, 'l:' .. l.name) end
return {'ok', int(list.tolerance), slots, int(earliest(list, A.now + A.lead)), int(after(list, A.now + A.lead, A.k)), states}
`

func join(name, main string) *redisdb.Script {
	parts := append([]redisdb.Part{redisdb.Prelude(), EnvLua()}, redisdb.Part{Name: "args", Source: ""})
	parts = append(parts, Parts()...)
	return redisdb.NewScript(name, append(parts, redisdb.Part{Name: "main", Source: main})...)
}

var bucketScript = join("bucket_test", bucketMain)

// step is one call of the test script.
type step struct {
	Op                        string
	Limits                    []TwinLimit
	Now, Guard, Width         int64
	Lead, Horizon, N, K, Slot int64
}

type stepReply struct {
	Status    string
	Tolerance int64
	Slots     []int64
	Earliest  int64
	After     int64
	States    []string
}

type bench struct {
	t    testing.TB
	db   *redisdb.DB
	keys redisdb.LaneKeys
}

func openBench(t testing.TB, backend string) *bench {
	t.Helper()
	cfg := redisdb.Config{Namespace: redistest.Namespace(t), CallTimeout: 20 * time.Second}
	if backend == "miniredis" {
		cfg.URL = redistest.MiniURL(redistest.Mini(t))
	} else {
		cfg.URL = redistest.Shared(t).URL()
	}
	db, err := redisdb.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	b := &bench{t: t, db: db}
	b.fresh("bank")
	return b
}

// fresh moves on to a lane without state.
func (b *bench) fresh(lane string) {
	var err error
	if b.keys, err = b.db.Keys().Lane(lane); err != nil {
		b.t.Fatal(err)
	}
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Fatalf(format string, args ...any)
	Helper()
}

func (b *bench) run(t fataler, s step) stepReply {
	t.Helper()
	v, err := b.db.Run(context.Background(), bucketScript, b.keys, s.Op, limitsText(s.Limits), s.Now, s.Guard, s.Width, s.Lead, s.Horizon,
		s.N, s.K, s.Slot)
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	list := v.([]any)
	r := stepReply{Status: list[0].(string)}
	if r.Status != "ok" {
		return r
	}
	r.Tolerance, r.Earliest, r.After = integer(t, list[1]), integer(t, list[3]), integer(t, list[4])
	for _, x := range list[2].([]any) {
		r.Slots = append(r.Slots, integer(t, x))
	}
	for _, x := range list[5].([]any) {
		r.States = append(r.States, x.(string))
	}
	return r
}

// integer reads a time: digits only, or precision was lost on the way.
func integer(t fataler, v any) int64 {
	t.Helper()
	text, _ := v.(string)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strings.ContainsAny(text, "eE.+-") {
		t.Fatalf("%v is no whole number", v)
	}
	return n
}

func limitsText(limits []TwinLimit) string {
	var b strings.Builder
	for _, l := range limits {
		b.WriteString(l.Name + "," + l.Algorithm)
		for _, n := range []int64{l.Rate, l.Window, l.Burst} {
			b.WriteString("," + strconv.FormatInt(n, 10))
		}
		b.WriteString(";")
	}
	return b.String()
}
