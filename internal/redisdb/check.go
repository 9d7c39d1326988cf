package redisdb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// The oldest Redis whose commands all scripts find.
const minMajor, minMinor = 6, 2

// Report is what Check found.
type Report struct {
	Product  string // redis or valkey; embedded
	Version  string
	Mode     Mode
	Embedded bool // INFO server is missing: miniredis, in this process
	// Warnings are what a person should know; none keeps Tundish from starting.
	Warnings []string
}

// Check looks whether Tundish can rely on this Redis: on every master of a
// Cluster. What would lose jobs or break scripts is an error; what depends on
// the owner's wishes, such as persistence, is a warning.
func (db *DB) Check(ctx context.Context) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, db.cfg.CallTimeout)
	defer cancel()
	report := Report{Mode: db.mode}
	var mu sync.Mutex
	err := db.eachMaster(ctx, func(ctx context.Context, c redis.UniversalClient) error {
		s, err := inspect(ctx, c)
		if err != nil {
			return fmt.Errorf("check redis: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		s.describe(&report)
		return s.verify(db.mode)
	})
	return report, err
}

// warn adds a warning once, however many nodes give it.
func (r *Report) warn(text string) {
	for _, w := range r.Warnings {
		if w == text {
			return
		}
	}
	r.Warnings = append(r.Warnings, text)
}

// facts are what one server says of itself. A missing one was not told.
type facts struct {
	info        map[string]string
	config      map[string]string
	embedded    bool
	infoRefused bool
}

func inspect(ctx context.Context, c redis.UniversalClient) (facts, error) {
	f := facts{info: map[string]string{}, config: map[string]string{}}
	for _, section := range []string{"server", "memory", "persistence", "replication"} {
		text, err := c.Info(ctx, section).Result()
		switch {
		case err == nil:
			addInfo(f.info, text)
		case !isReply(err) || Unavailable(err):
			return f, err
		case Kind(err) == KindAuth:
			f.infoRefused = true
		case section == "server":
			f.embedded = true
			return f, nil
		}
	}
	for _, name := range []string{"maxmemory", "maxmemory-policy", "appendonly", "save", "min-replicas-to-write", "cluster-require-full-coverage"} {
		values, err := c.ConfigGet(ctx, name).Result()
		if err != nil {
			if !isReply(err) || Unavailable(err) {
				return f, err
			}
			return f, nil // refused, as hosted Redis do
		}
		if v, ok := values[name]; ok {
			f.config[name] = v
		}
	}
	return f, nil
}

func addInfo(into map[string]string, text string) {
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			into[name] = value
		}
	}
}

// setting reads a parameter, or what INFO tells of it where CONFIG is refused.
func (f facts) setting(config, info string) string {
	if v, ok := f.config[config]; ok {
		return v
	}
	return f.info[info]
}

func (f facts) product() (name, version string) {
	if v := f.info["valkey_version"]; v != "" {
		return "valkey", v
	}
	return "redis", f.info["redis_version"]
}

// verify returns every reason why this server will not do.
func (f facts) verify(mode Mode) error {
	if f.embedded {
		return nil
	}
	return errors.Join(f.verifyVersion(), f.verifyRole(mode), f.verifyMemory())
}

func (f facts) verifyVersion() error {
	// Valkey began with 7.2, so any of its versions will do.
	product, version := f.product()
	if product == "valkey" || version == "" {
		return nil
	}
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errMajor := strconv.Atoi(major)
	b, errMinor := strconv.Atoi(minor)
	readable := errMajor == nil && errMinor == nil // one we cannot read is no reason to stop
	if !readable || a > minMajor || a == minMajor && b >= minMinor {
		return nil
	}
	return fmt.Errorf("redis %s is too old: at least %d.%d is needed", version, minMajor, minMinor)
}

func (f facts) verifyRole(mode Mode) error {
	switch {
	case f.info["redis_mode"] == "sentinel":
		return errors.New("this is a Sentinel, not a Redis with data: write redis+sentinel://host:port/master")
	case f.info["redis_mode"] == "cluster" && mode != Cluster:
		return errors.New("this is a node of a Cluster: name several hosts, or write redis+cluster://host:port/")
	case f.info["role"] == "slave":
		return errors.New("this is a replica, which takes no writes: name its master")
	}
	return nil
}

func (f facts) verifyMemory() error {
	policy := f.setting("maxmemory-policy", "maxmemory_policy")
	limit := f.setting("maxmemory", "maxmemory")
	if policy == "" || policy == "noeviction" || limit == "0" {
		return nil
	}
	return fmt.Errorf("maxmemory-policy is %s: Redis would throw away jobs when its memory is full; set noeviction", policy)
}

func (f facts) describe(r *Report) {
	if f.embedded {
		r.Product, r.Embedded = "embedded", true
		r.warn("embedded Redis: everything is lost when this process ends; for trying and developing")
		return
	}
	r.Product, r.Version = f.product()
	if f.infoRefused {
		r.warn("INFO is refused to this user: a restart of Redis with older data cannot be noticed by its run id")
	}
	if len(f.config) == 0 {
		r.warn("CONFIG is refused to this user: persistence, min-replicas-to-write and maxmemory-policy cannot all be checked")
	}
	f.warnPersistence(r)
	f.warnMemory(r)
	f.warnReplicas(r)
}

func (f facts) warnPersistence(r *Report) {
	save, known := f.config["save"]
	aof := f.config["appendonly"] == "yes" || f.info["aof_enabled"] == "1"
	if known && save == "" && !aof {
		r.warn("nothing is written to disk (appendonly no, save empty): a restart of Redis loses all jobs")
	}
}

func (f facts) warnMemory(r *Report) {
	policy := f.setting("maxmemory-policy", "maxmemory_policy")
	if policy != "" && policy != "noeviction" && f.setting("maxmemory", "maxmemory") == "0" {
		r.warn("maxmemory-policy is " + policy + ": harmless while maxmemory is 0, and loses jobs when it is set; set noeviction")
	}
}

func (f facts) warnReplicas(r *Report) {
	n, _ := strconv.Atoi(f.info["connected_slaves"]) // not told: none
	if n > 0 && f.config["min-replicas-to-write"] == "0" {
		r.warn("replicas are connected and min-replicas-to-write is 0: after a partition two masters may both grant slots; set it to 1")
	}
	if least, _ := strconv.Atoi(f.config["min-replicas-to-write"]); n == 0 && least == 0 && r.Mode != Single {
		r.warn("a failover may lose what was written last: the rate is kept through it only with min-replicas-to-write 1 or more")
	}
	if r.Mode == Cluster && f.config["cluster-require-full-coverage"] == "yes" {
		r.warn("cluster-require-full-coverage is yes: a dead node without replica stops the destinations of all nodes; set it to no")
	}
}
