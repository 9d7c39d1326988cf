package queue

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"tundish/internal/idempotency"
	"tundish/internal/job"
)

// modelJob is a job as the model knows it.
type modelJob struct {
	src           *job.Job
	state         job.State // ready, waiting (delays too), leased, or an end
	order         string
	size          int
	expiry        int64 // TIME µs, 0: never
	due, deadline int64 // logical µs
	slot, first   int64
	token         string
	sent, used    int
	crashes       int
	redrives      int
	resolved      bool // by a person, as delivered
	started       bool
	endedAt       int64  // TIME µs
	tried         bool   // there is a record of tries
	trimmed       bool   // dead, and its body is gone
	keyEnd        int64  // TIME µs until which its key lives
	lost          string // token of the lease with which it was given up
	later         int64  // slot in which it was told "later", 0: never
}

// modelKey is an idempotency key in use.
type modelKey struct {
	id    job.ID
	print string
}

// model drives a lane with random operations and knows what must come of them.
type model struct {
	t    *testing.T
	b    *bench
	rng  *rand.Rand
	seed uint64
	log  []string

	cfg      modelConfig
	policy   modelPolicy
	paused   bool
	gone     bool
	version  int64
	gen      int64
	jobs     map[job.ID]*modelJob
	keys     map[string]modelKey
	held     []heldLease
	lost     map[string][]LostCall
	lastSlot int64
	claimed  bool
	now, raw int64 // at the last operation
	offset   int64 // of logical time, as moved by the test
}

type modelConfig struct {
	rate, cap, capacity, maxBytes, deadMax int64
	keep                                   int64 // µs
}

// heldLease is what a worker believes to hold.
type heldLease struct {
	worker string
	lease  Lease
}

func newModel(t *testing.T, b *bench, seed uint64) *model {
	m := &model{t: t, b: b, rng: rand.New(rand.NewPCG(seed, 7)), seed: seed, jobs: map[job.ID]*modelJob{}, keys: map[string]modelKey{},
		lost: map[string][]LostCall{}, gone: true}
	if b.mini != nil {
		b.mini.SetTime(time.UnixMicro(1_790_000_000_123_456))
	}
	m.apply()
	return m
}

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	from := max(0, len(m.log)-12)
	m.t.Fatalf("seed %d, step %d: %s\nlast operations:\n%s", m.seed, len(m.log), fmt.Sprintf(format, args...), join(m.log[from:]))
}

func join(lines []string) string {
	s := ""
	for _, l := range lines {
		s += "  " + l + "\n"
	}
	return s
}

func (m *model) note(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

// run makes n random steps and compares after each.
func (m *model) run(n int) {
	m.t.Helper()
	for range n {
		switch k := m.rng.IntN(100); {
		case m.gone:
			m.apply()
		case k < 12:
			m.act()
		case k < 36:
			m.push()
		case k < 70:
			m.turn()
		case k < 82:
			m.pass()
		case k < 86:
			m.pause()
		case k < 90:
			m.apply()
		case k < 92:
			m.mend()
		case k < 95:
			m.claim()
		case k < 98:
			m.start()
		case k < 99:
			m.pushAgain()
		default:
			m.remove()
		}
		m.compare()
	}
}

func (m *model) live() int {
	n := 0
	for _, j := range m.jobs {
		if j.state.Live() {
			n++
		}
	}
	return n
}

func (m *model) in(state job.State) []*modelJob {
	var list []*modelJob
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		if m.jobs[id].state == state {
			list = append(list, m.jobs[id])
		}
	}
	return list
}

func (m *model) apply() {
	pick := func(of ...int64) int64 { return of[m.rng.IntN(len(of))] }
	m.cfg = modelConfig{rate: pick(5, 50, 500, 5000), cap: pick(3, 10, 100), capacity: pick(5, 20, 60), maxBytes: pick(1<<20, 1<<16),
		deadMax: pick(1, 3, 100), keep: 86400 * 1e6}
	if m.b.mini != nil {
		m.cfg.keep = pick(10, 86400) * 1e6
	}
	m.policy.most = int(pick(0, 1, 4, 100))
	more := fmt.Sprintf(`"max_in_flight":%d,"queue":{"capacity":%d,"max_bytes":"%dB","max_job_bytes":"64KiB","max_history_bytes":"1GiB"},
		"retention":{"dead_max":%d,"idempotency":"%ds"},"tenants":{"weights":{"a":2}},%s`, m.cfg.cap, m.cfg.capacity, m.cfg.maxBytes, m.cfg.deadMax,
		m.cfg.keep/1e6, m.breakerJSON())
	m.note("apply %+v, breaker %d", m.cfg, m.policy.most)
	d := m.b.apply(perSecond(int(m.cfg.rate)), more)
	if m.gone {
		m.gone, m.gen, m.paused, m.version = false, m.gen+1, false, 0
	}
	if d.Version != m.version && d.Version != m.version+1 || d.Generation != m.gen {
		m.fail("version %d after %d, generation %d, want %d", d.Version, m.version, d.Generation, m.gen)
	}
	if d.Version != m.version {
		m.beginBreaker()
	}
	m.version = d.Version
}

func (m *model) pause() {
	m.note("pause %v", !m.paused)
	var err error
	if m.paused = !m.paused; m.paused {
		_, err = m.b.s.Pause(context.Background(), m.b.lane, fmt.Sprint("reason ", len(m.log)))
	} else {
		m.sync()
		from := m.now
		_, err = m.b.s.Resume(context.Background(), m.b.lane)
		m.resumed(from)
	}
	if err != nil {
		m.fail("%v", err)
	}
}

func (m *model) claim() {
	m.claimed = true
	var views [16]ClockView
	if _, err := m.b.s.Claim(context.Background(), m.b.s.Groups()[0], m.rng.IntN(16), MaxClaim, &views); err != nil {
		m.fail("%v", err)
	}
	m.note("claim")
}

func (m *model) mend() {
	m.note("mend")
	r, _, err := m.b.s.mend(context.Background(), m.b.lane)
	if err != nil || r != (Repairs{}) {
		m.fail("mend: %+v, %v", r, err)
	}
	m.sync()
}

// remove deletes the lane: nothing is known of its jobs any more.
func (m *model) remove() {
	m.note("delete")
	if _, err := m.b.s.Delete(context.Background(), m.b.lane, 0, true); err != nil {
		m.fail("%v", err)
	}
	m.gone, m.keys, m.policy = true, map[string]modelKey{}, modelPolicy{}
	m.sync()
	for id := range m.jobs {
		delete(m.jobs, id)
	}
}

// pass moves time: mostly a little.
func (m *model) pass() {
	ms := []int64{1, 20, 300, 1500, 4000, 20_000, 70_000}[m.rng.IntN(7)]
	if m.rng.IntN(60) == 0 {
		ms = 1_000_000
	}
	d := time.Duration(ms) * time.Millisecond
	m.note("pass %v", d)
	if m.b.mini != nil {
		m.b.mini.SetTime(time.UnixMicro(m.time()).Add(d))
		return
	}
	m.b.pass(d)
	m.offset += d.Microseconds()
}

// time is TIME of the server.
func (m *model) time() int64 {
	t, err := m.b.db.Client().Time(context.Background()).Result()
	if err != nil {
		m.fail("%v", err)
	}
	return t.UnixMicro()
}

// sync learns the present time for what happens outside of turns.
func (m *model) sync() {
	m.raw = m.time()
	m.now = m.raw + m.offset
}

func (m *model) newJob() *job.Job {
	j := newJob([]string{"", "a", "b", "c|d"}[m.rng.IntN(4)])
	j.Priority = m.rng.IntN(10)
	j.Request.Body = make([]byte, m.rng.IntN([]int{600, 600, 600, 12_000}[m.rng.IntN(4)]))
	if m.rng.IntN(3) == 0 {
		j.IdempotencyKey = fmt.Sprint("k", m.rng.IntN(12))
		j.Request.Body, j.Tenant = []byte{byte(m.rng.IntN(5) / 4)}, "a"
	}
	switch m.rng.IntN(6) {
	case 0:
		j.Delay = time.Duration(m.rng.IntN(3000)) * time.Millisecond
	case 1:
		j.DeliverAt = time.UnixMicro(m.raw + []int64{-900_000, 700_000, 2_900_000}[m.rng.IntN(3)]) // not near now: the state would be luck
	}
	switch m.rng.IntN(6) {
	case 0:
		j.ExpiresIn = time.Duration(1+m.rng.IntN(5000)) * time.Millisecond
	case 1:
		j.ExpiresAt = time.UnixMicro(m.raw + int64(m.rng.IntN(5_000_000)) + 1_000_000)
	}
	return j
}

func (m *model) push() {
	m.sync()
	n := 1
	if m.rng.IntN(4) == 0 {
		n = 1 + m.rng.IntN(25)
	}
	jobs := make([]*job.Job, n)
	for i := range jobs {
		jobs[i] = m.newJob()
	}
	m.note("push %d", n)
	m.pushJobs(jobs)
}

// pushAgain repeats a push whose answer was lost.
func (m *model) pushAgain() {
	m.sync()
	var jobs []*job.Job
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		if m.rng.IntN(4) == 0 && len(jobs) < 20 {
			jobs = append(jobs, m.jobs[id].src)
		}
	}
	if len(jobs) == 0 {
		return
	}
	m.note("push again %d", len(jobs))
	m.pushJobs(jobs)
}

func (m *model) pushJobs(jobs []*job.Job) {
	results := m.b.push(jobs...)
	d := m.b.dump()
	m.findExpired(d)
	depth, bytes := int64(m.live()), m.bytes()
	for i, j := range jobs {
		got := results[i]
		want, known := m.verdict(j, depth, bytes)
		if got.Verdict != want.Verdict || got.ID != want.ID || got.State != want.State {
			m.fail("push of %s: %s %s %s, want %s %s %s", j.ID, got.Verdict, got.ID, got.State, want.Verdict, want.ID, want.State)
		}
		if want.Verdict == Accepted && !known {
			size := m.take(d, j)
			depth, bytes = depth+1, bytes+int64(size)
		}
		if got.Depth != depth {
			m.fail("depth %d, want %d", got.Depth, depth)
		}
		if (got.Verdict == Full || got.Verdict == BytesFull) && got.RetryAfter < 0 {
			m.fail("retry after %v", got.RetryAfter)
		}
	}
}

func (m *model) bytes() int64 {
	n := int64(0)
	for _, j := range m.jobs {
		if j.state.Live() {
			n += int64(j.size)
		}
	}
	return n
}

// verdict is what a push of the job must be told; known: nothing is stored.
func (m *model) verdict(j *job.Job, depth, bytes int64) (r PushResult, known bool) {
	if j.IdempotencyKey != "" {
		if k, ok := m.key(j.IdempotencyKey); ok {
			if k.print != idempotency.Fingerprint(j) {
				return PushResult{Verdict: Conflict, ID: k.id}, true
			}
			return PushResult{Verdict: Replayed, ID: k.id, State: m.shown(k.id)}, true
		}
	}
	if known, ok := m.jobs[j.ID]; ok && !known.trimmed {
		return PushResult{Verdict: Accepted, ID: j.ID, State: m.shown(j.ID)}, true
	}
	body, err := encodeBody(j)
	if err != nil {
		m.fail("%v", err)
	}
	switch {
	case depth >= m.cfg.capacity:
		return PushResult{Verdict: Full}, true
	case bytes+int64(len(body)) > m.cfg.maxBytes:
		return PushResult{Verdict: BytesFull}, true
	}
	state := job.Ready
	if j.Delay > 0 || j.DeliverAt.UnixMicro() > m.raw && !j.DeliverAt.IsZero() {
		state = job.Scheduled
	}
	return PushResult{Verdict: Accepted, ID: j.ID, State: state}, false
}

// key finds a key that is alive.
func (m *model) key(name string) (modelKey, bool) {
	k, ok := m.keys[name]
	if !ok {
		return k, false
	}
	j := m.jobs[k.id]
	if j.state.Live() || j.state == job.Dead || j.state == job.Unknown {
		return k, !j.trimmed || j.keyEnd > m.raw
	}
	return k, j.keyEnd > m.raw
}

// end moves a job to an end.
func (m *model) end(j *modelJob, state job.State) {
	j.state, j.endedAt, j.keyEnd = state, m.raw, m.raw+m.cfg.keep
}

func (m *model) shown(id job.ID) job.State {
	j := m.jobs[id]
	if j.state == job.Waiting && j.sent == 0 {
		return job.Scheduled
	}
	return j.state
}

// take adds an accepted job, as it is stored, to the model.
func (m *model) take(d *dump, j *job.Job) int {
	env := []byte(d.jobs[string(j.ID)])
	_, expiry, body, err := splitEnvelope(env)
	if err != nil {
		m.fail("%v", err)
	}
	mj := &modelJob{src: j, state: job.Ready, order: string(env[2:16]), size: len(body), expiry: expiry}
	if due, ok := d.waiting[string(j.ID)]; ok {
		mj.state, mj.due = job.Waiting, int64(due)
	}
	_, mj.tried = d.tries[string(j.ID)]
	m.jobs[j.ID] = mj
	if j.IdempotencyKey != "" {
		m.keys[j.IdempotencyKey] = modelKey{j.ID, idempotency.Fingerprint(j)}
	}
	pushed, _ := strconv.ParseInt(mj.order, 16, 64)
	pushed -= int64(j.Priority) * 10_000_000
	if off := pushed - m.now; off < 0 && m.b.mini != nil && m.lastOrder(d) <= m.now {
		m.fail("order is %d µs before the push", -off)
	}
	return mj.size
}

func (m *model) lastOrder(d *dump) int64 { return d.number("order") - 200 }

// findExpired lets jobs be expired that a push found so.
func (m *model) findExpired(d *dump) {
	for id, j := range m.jobs {
		if _, there := d.jobs[string(id)]; j.state.Live() && !there {
			if j.state == job.Leased || j.expiry == 0 || j.expiry > m.time() {
				m.fail("%s job %s with expiry %d is gone", j.state, id, j.expiry)
			}
			m.end(j, job.Expired)
		}
	}
}

// seedOf is random unless the environment names one to repeat.
func seedOf(t *testing.T) uint64 {
	if text := os.Getenv("TUNDISH_TEST_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return rand.Uint64N(1_000_000)
}

// TestModelOnMiniredis runs long histories with a clock that the test moves.
func TestModelOnMiniredis(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			newModel(t, openBench(t, "miniredis"), seedOf(t)).run(300)
		})
	}
}

// TestModelOnRedis is the truth: on a real server logical time is moved instead.
func TestModelOnRedis(t *testing.T) {
	t.Parallel()
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			newModel(t, openBench(t, "redis"), seedOf(t)).run(200)
		})
	}
}
