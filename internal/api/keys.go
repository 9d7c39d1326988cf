package api

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math/big"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Scope is what a key may do.
type Scope string

// The scopes.
const (
	ScopeEnqueue Scope = "enqueue" // push; see and cancel one's own jobs
	ScopeRead    Scope = "read"    // see jobs and destinations, no payloads
	ScopePayload Scope = "payload"
	ScopeOperate Scope = "operate" // pause, resume; cancel, redrive, resolve, erase, purge jobs
	ScopeManage  Scope = "manage"  // destinations
)

var scopes = []Scope{ScopeEnqueue, ScopeRead, ScopePayload, ScopeOperate, ScopeManage}

// maxKeys bounds the keys of a file: each request compares with all of them.
const maxKeys = 1000

// producer is a caller known by its keys. Without keys there is one, with no
// name, that may do everything.
type producer struct {
	name         string
	scopes       []Scope
	destinations []string // patterns with *
	restricted   bool     // false: no keys are used
}

func (p *producer) may(s Scope) bool { return !p.restricted || slices.Contains(p.scopes, s) }

// sees says whether the destination is one of the producer's.
func (p *producer) sees(destination string) bool {
	return !p.restricted || slices.ContainsFunc(p.destinations, func(pattern string) bool {
		ok, err := path.Match(pattern, destination)
		return err == nil && ok
	})
}

// Keys are the producers' keys, as SHA-256. They are safe for concurrent use.
type Keys struct {
	entries atomic.Pointer[[]keyEntry]
	now     func() time.Time
}

// Replace puts the keys of other in force, from the next request on.
func (k *Keys) Replace(other *Keys) { k.entries.Store(other.entries.Load()) }

type keyEntry struct {
	sum     [sha256.Size]byte
	expires time.Time // zero: never
	owner   *producer
}

// Len is how many keys there are, expired ones included.
func (k *Keys) Len() int { return len(*k.entries.Load()) }

// find gives the owner of a presented key; nil when it is unknown or expired.
// All entries are compared, so that the time taken says nothing.
func (k *Keys) find(key string) *producer {
	sum := sha256.Sum256([]byte(key))
	entries := *k.entries.Load()
	var found *keyEntry
	for i := range entries {
		if subtle.ConstantTimeCompare(sum[:], entries[i].sum[:]) == 1 {
			found = &entries[i]
		}
	}
	if found == nil || !found.expires.IsZero() && !k.now().Before(found.expires) {
		return nil
	}
	return found.owner
}

// keyPrefix lets secret scanners know a key when they see one.
const keyPrefix = "tnd_"

// GenerateKey makes a new key and the SHA-256 that stands for it in the keys
// file. The last 6 characters are a checksum of the rest.
func GenerateKey() (key, sum string) {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	body := keyPrefix + base62(raw[:], 43)
	var crc [4]byte
	binary.BigEndian.PutUint32(crc[:], crc32.ChecksumIEEE([]byte(body)))
	key = body + base62(crc[:], 6)
	digest := sha256.Sum256([]byte(key))
	return key, hex.EncodeToString(digest[:])
}

// base62 writes b as a number of the given width.
func base62(b []byte, width int) string {
	text := new(big.Int).SetBytes(b).Text(62)
	return strings.Repeat("0", width-len(text)) + text
}
