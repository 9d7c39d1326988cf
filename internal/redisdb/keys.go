package redisdb

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"
	"sync"
)

// Shards is into how many parts the lanes of a namespace are divided. All keys
// of a shard have one hash tag, so a script may touch them together.
const Shards = 16

// MaxLogs is how many sliding logs a lane has: one per limit at most.
const MaxLogs = 8

// laneNames are the keys of one lane, in the order of KEYS. New names go to
// the end of the lane's part, before the shard's.
var laneNames = []string{
	"conf", "state", "jobs", "ready", "tenants", "finish", "tenantjobs",
	"waiting", "leased", "tries", "expires", "calendar", "idem", "idemends",
	"done", "doneends", "dead", "deadjobs",
	"log:1", "log:2", "log:3", "log:4", "log:5", "log:6", "log:7", "log:8",
}

// shardNames are the keys that the lanes of a shard share; they follow the
// lane's own in KEYS.
var shardNames = []string{"due", "clock", "lanes"}

// Positions in LaneKeys of the keys that Go reads without a script.
const (
	keyConf  = 0
	keyState = 1
)

var (
	namespaceForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,30}$`)
	laneForm      = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
)

// LaneKeys is the fixed KEYS list of every script of one lane. It is shared:
// nobody may change it.
type LaneKeys []string

// Conf is the key of the lane's contract.
func (k LaneKeys) Conf() string { return k[keyConf] }

// State is the key of the lane's state.
func (k LaneKeys) State() string { return k[keyState] }

// Due is the key of the due index of the lane's shard.
func (k LaneKeys) Due() string { return k[len(laneNames)] }

// Clock is the key of the clock of the lane's shard.
func (k LaneKeys) Clock() string { return k[len(laneNames)+1] }

// Lanes is the key of the list of lanes of the lane's shard.
func (k LaneKeys) Lanes() string { return k[len(laneNames)+2] }

// Keys makes the key names of a namespace. It is safe for concurrent use.
type Keys struct {
	namespace string
	tags      [Shards]string // what the keys of each shard begin with

	mu    sync.RWMutex
	lanes map[string]LaneKeys // bounded by maxCached
}

// maxCached bounds the cache of KEYS lists: names come from callers.
const maxCached = 10000

// NewKeys checks the namespace: [a-z0-9][a-z0-9-]{0,30}.
func NewKeys(namespace string) (*Keys, error) {
	if !namespaceForm.MatchString(namespace) {
		return nil, fmt.Errorf("namespace %.40q: want 1 to 31 of a-z, 0-9 and '-', the first a letter or digit", namespace)
	}
	k := &Keys{namespace: namespace, lanes: map[string]LaneKeys{}}
	for i := range k.tags {
		k.tags[i] = fmt.Sprintf("tundish:{%s.s%02d}:", namespace, i)
	}
	return k, nil
}

// Namespace is the name that all keys carry.
func (k *Keys) Namespace() string { return k.namespace }

// Lane returns the KEYS list of a lane, or an error when the name could not
// be that of a destination.
func (k *Keys) Lane(name string) (LaneKeys, error) {
	k.mu.RLock()
	keys, ok := k.lanes[name]
	k.mu.RUnlock()
	if ok {
		return keys, nil
	}
	if !laneForm.MatchString(name) {
		return nil, fmt.Errorf("destination name %.80q: want 1 to 63 of a-z, 0-9, '.', '_' and '-', the first a letter or digit", name)
	}
	keys = k.build(name)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.lanes) >= maxCached {
		clear(k.lanes)
	}
	k.lanes[name] = keys
	return keys, nil
}

func (k *Keys) build(name string) LaneKeys {
	shard := k.tags[ShardOf(name)]
	lane := shard + name + ":"
	keys := make(LaneKeys, 0, len(laneNames)+len(shardNames))
	for _, n := range laneNames {
		keys = append(keys, lane+n)
	}
	for _, n := range shardNames {
		keys = append(keys, shard+n)
	}
	return keys
}

// Some appends those keys of a lane that are named, in that order, for who looks
// at many lanes: nothing is remembered. It says whether the lane's name can be one.
func (k *Keys) Some(keys []string, lane string, names []string) ([]string, bool) {
	if !laneForm.MatchString(lane) {
		return keys, false
	}
	tag := k.tags[ShardOf(lane)] + lane + ":"
	for _, n := range names {
		keys = append(keys, tag+n)
	}
	return keys, true
}

// Shard returns the keys of shard i, 0 to Shards-1.
func (k *Keys) Shard(i int) (due, clock, lanes string) {
	tag := k.tags[i]
	return tag + "due", tag + "clock", tag + "lanes"
}

// Token returns the keys of a lane's access token, sealed, and of the right to
// fetch one. No script touches them; they end by themselves.
func (k *Keys) Token(lane string) (token, lock string, err error) {
	keys, err := k.Lane(lane)
	if err != nil {
		return "", "", err
	}
	token = strings.TrimSuffix(keys.Conf(), laneNames[keyConf]) + "token"
	return token, token + ":lock", nil
}

// Meta is the key of what holds for the whole namespace.
func (k *Keys) Meta() string { return "tundish:{" + k.namespace + "}:meta" }

// Operations is the key of the list of operations on many jobs.
func (k *Keys) Operations() string { return "tundish:{" + k.namespace + "}:ops" }

// Operation is the key of an operation on the jobs of a lane, which must be of
// a valid name: in the lane's shard, so that its progress is written in one
// step with what it does. No key of a lane has that form.
func (k *Keys) Operation(lane, id string) string { return k.tags[ShardOf(lane)] + "op~" + id }

// Wake is the channel on which a lane's name is published when work came for it.
func (k *Keys) Wake() string { return "tundish:" + k.namespace + ":wake" }

// ShardOf is the shard of a lane: FNV-1a of its name, mod Shards. It is part
// of the stored format and never changes.
func ShardOf(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return int(h.Sum32() % Shards)
}

// Prelude is the Lua part that gives the KEYS list of a lane its names: K.jobs
// and so on, and K.log[1] to K.log[8]. One table and not a local per key, for
// Lua allows 200 locals and 60 upvalues.
func Prelude() Part {
	var b, logs strings.Builder
	b.WriteString("local K = {")
	for i, n := range append(append([]string{}, laneNames...), shardNames...) {
		if strings.HasPrefix(n, "log:") {
			fmt.Fprintf(&logs, "KEYS[%d], ", i+1)
			continue
		}
		fmt.Fprintf(&b, "%s = KEYS[%d], ", n, i+1)
	}
	fmt.Fprintf(&b, "log = {%s}}", strings.TrimSuffix(logs.String(), ", "))
	return Part{Name: "keys", Source: b.String()}
}
