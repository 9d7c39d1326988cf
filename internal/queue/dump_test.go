package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// dump is all that Redis holds of a lane.
type dump struct {
	conf, state, jobs, tries, idem, done, deadjobs, tenantjobs map[string]string
	ready                                                      []readyEntry
	tenants, finish, waiting, leased, expires                  map[string]float64
	idemends, doneends, dead                                   map[string]float64
	due                                                        int64 // 0: no entry
	inReady                                                    map[string]int
}

type readyEntry struct{ tenant, order, id string }

func (b *bench) dump() *dump {
	b.t.Helper()
	ctx, d := context.Background(), &dump{inReady: map[string]int{}}
	pipe := b.db.Client().Pipeline()
	var wait []func()
	hash := func(name string, into *map[string]string) {
		cmd := pipe.HGetAll(ctx, b.key(name))
		wait = append(wait, func() { *into = cmd.Val() })
	}
	zset := func(name string, into *map[string]float64) {
		cmd := pipe.ZRangeWithScores(ctx, b.key(name), 0, -1)
		wait = append(wait, func() {
			*into = map[string]float64{}
			for _, z := range cmd.Val() {
				(*into)[z.Member.(string)] = z.Score
			}
		})
	}
	for name, into := range map[string]*map[string]string{"conf": &d.conf, "state": &d.state, "jobs": &d.jobs, "tries": &d.tries,
		"idem": &d.idem, "done": &d.done, "deadjobs": &d.deadjobs, "tenantjobs": &d.tenantjobs} {
		hash(name, into)
	}
	for name, into := range map[string]*map[string]float64{"tenants": &d.tenants, "finish": &d.finish, "waiting": &d.waiting,
		"leased": &d.leased, "expires": &d.expires, "idemends": &d.idemends, "doneends": &d.doneends, "dead": &d.dead} {
		zset(name, into)
	}
	ready := pipe.ZRange(ctx, b.key("ready"), 0, -1)
	due := pipe.ZScore(ctx, b.keys.Due(), b.lane)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		b.t.Fatal(err)
	}
	for _, f := range wait {
		f()
	}
	for _, m := range ready.Val() {
		tenant, rest, _ := strings.Cut(m, "\x00")
		d.ready = append(d.ready, readyEntry{tenant, rest[:14], rest[14:]})
		d.inReady[rest[14:]]++
	}
	d.due = int64(due.Val())
	return d
}

func (d *dump) number(name string) int64 {
	n, _ := strconv.ParseInt(d.state[name], 10, 64) // absent: 0
	return n
}

// place says where a job is; "" when it is nowhere, more than one name when it is in several.
func (d *dump) place(id string) string {
	places := slices.Repeat([]string{"ready"}, d.inReady[id])
	for name, set := range map[string]map[string]float64{"waiting": d.waiting, "leased": d.leased, "dead": d.dead} {
		if _, ok := set[id]; ok {
			places = append(places, name)
		}
	}
	if _, ok := d.done[id]; ok {
		places = append(places, "done")
	}
	slices.Sort(places)
	return strings.Join(places, " ")
}

// problems lists what does not fit together within the lane alone.
func (d *dump) problems(deleted bool) []string {
	var p []string
	bad := func(format string, args ...any) { p = append(p, fmt.Sprintf(format, args...)) }
	sizes, tenants := int64(0), map[string]int64{}
	for id, env := range d.jobs {
		tenant, expiry, body, err := splitEnvelope([]byte(env))
		if err != nil {
			bad("%s: %v", id, err)
			continue
		}
		sizes += int64(len(body))
		tenants[tenant]++
		place := d.place(id)
		if place != "ready" && place != "waiting" && place != "leased" {
			bad("live job %s is in %q", id, place)
		}
		if _, listed := d.expires[id]; listed != (expiry > 0 && place != "leased") {
			bad("%s job %s with expiry %d, in the index of expiries: %v", place, id, expiry, listed)
		}
		if _, ok := d.tries[id]; !ok && (place != "ready" || expiry > 0) {
			bad("%s job %s has no record of tries", place, id)
		}
	}
	if n := len(d.ready) + len(d.waiting) + len(d.leased); n != len(d.jobs) {
		bad("%d entries for %d jobs", n, len(d.jobs))
	}
	if got := d.number("bytes"); got != sizes {
		bad("bytes %d, recounted %d", got, sizes)
	}
	if fmt.Sprint(d.tenantjobs) != fmt.Sprint(texts(tenants)) {
		bad("tenantjobs %v, recounted %v", d.tenantjobs, tenants)
	}
	withReady := map[string]bool{}
	for _, e := range d.ready {
		withReady[e.tenant] = true
		if _, ok := d.tenants[e.tenant]; !ok {
			bad("tenant %q has ready jobs and no turn", e.tenant)
		}
	}
	for t := range d.tenants {
		if _, twice := d.finish[t]; !withReady[t] || twice {
			bad("tenant %q has a turn, ready jobs: %v, also finished: %v", t, withReady[t], twice)
		}
	}
	for id := range d.tries {
		if _, ok := d.jobs[id]; !ok {
			bad("tries of %s without the job", id)
		}
	}
	return append(p, d.endProblems(deleted)...)
}

// endProblems is problems for what has ended.
func (d *dump) endProblems(deleted bool) []string {
	var p []string
	bad := func(format string, args ...any) { p = append(p, fmt.Sprintf(format, args...)) }
	hist, deadBytes, unknown := int64(230*len(d.idemends)), int64(0), int64(0)
	for id, text := range d.done {
		hist += int64(len(text)) + 180
		if _, ok := d.doneends[id]; !ok {
			bad("finished job %s has no end of its keeping", id)
		}
	}
	for _, text := range d.deadjobs {
		deadBytes += int64(len(text))
		if strings.HasPrefix(text, "unknown|") {
			unknown++
		}
	}
	if got := d.number("unknown"); got != unknown {
		bad("unknown jobs %d, recounted %d", got, unknown)
	}
	if got := d.number("hist"); got != hist {
		bad("history of %d bytes, recounted %d", got, hist)
	}
	if got := d.number("deadbytes"); got != deadBytes {
		bad("dead jobs of %d bytes, recounted %d", got, deadBytes)
	}
	if len(d.dead) != len(d.deadjobs) || len(d.done) != len(d.doneends) {
		bad("%d dead entries for %d, %d ends of %d", len(d.dead), len(d.deadjobs), len(d.doneends), len(d.done))
	}
	for key, v := range d.idem {
		_, ended := d.idemends[key]
		if _, live := d.jobs[v[:22]]; live && ended || len(v) > 44 != ended {
			bad("key %s of a live job (%v): %q, ended %v", key, live, v, ended)
		}
	}
	if deleted && len(d.jobs)+len(d.idem)+len(d.deadjobs)+len(d.conf) > 0 {
		bad("a deleted lane keeps jobs, keys or its contract")
	}
	return p
}

func texts(m map[string]int64) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = strconv.FormatInt(v, 10)
	}
	return out
}
