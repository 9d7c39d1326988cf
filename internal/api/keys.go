package api

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"tundish/internal/job"
)

// Scope is what a key may do.
type Scope string

// The scopes.
const (
	ScopeEnqueue Scope = "enqueue" // push; see one's own jobs
	ScopeRead    Scope = "read"    // see jobs and destinations, no payloads
	ScopePayload Scope = "payload"
	ScopeOperate Scope = "operate" // pause, resume
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

// Keys are the producers' keys, as SHA-256.
type Keys struct {
	entries []keyEntry
	now     func() time.Time
}

type keyEntry struct {
	sum     [sha256.Size]byte
	expires time.Time // zero: never
	owner   *producer
}

// find gives the owner of a presented key; nil when it is unknown or expired.
// All entries are compared, so that the time taken says nothing.
func (k *Keys) find(key string) *producer {
	sum := sha256.Sum256([]byte(key))
	var found *keyEntry
	for i := range k.entries {
		if subtle.ConstantTimeCompare(sum[:], k.entries[i].sum[:]) == 1 {
			found = &k.entries[i]
		}
	}
	if found == nil || !found.expires.IsZero() && !k.now().Before(found.expires) {
		return nil
	}
	return found.owner
}

// keysFile is the form of keys.yaml.
type keysFile struct {
	Producers []struct {
		Name string `yaml:"name"`
		Keys []struct {
			SHA256    string `yaml:"sha256"`
			ExpiresAt string `yaml:"expires_at"`
		} `yaml:"keys"`
		Scopes       []Scope   `yaml:"scopes"`
		Destinations []string  `yaml:"destinations"`
		Limits       yaml.Node `yaml:"limits"`
	} `yaml:"producers"`
}

// LoadKeys reads a file of producers and their keys. All problems are
// reported at once; no error repeats what may be a key.
func LoadKeys(file string) (*Keys, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	return parseKeys(data)
}

func parseKeys(data []byte) (*Keys, error) {
	var doc keysFile
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, &job.Error{Code: job.CodeInvalid, Detail: "keys file: " + err.Error()}
	}
	b := keysBuilder{keys: &Keys{now: time.Now}, names: map[string]bool{}, sums: map[[sha256.Size]byte]bool{}}
	if len(doc.Producers) == 0 {
		b.bad("/producers", "at least one producer is needed")
	}
	for i, p := range doc.Producers {
		at := fmt.Sprintf("/producers/%d", i)
		if !p.Limits.IsZero() {
			b.fields = append(b.fields, job.FieldError{Pointer: at + "/limits", Detail: "limits of producers are not built yet", Code: job.CodeNotSupported})
		}
		owner := b.producer(at, p.Name, p.Scopes, p.Destinations)
		if len(p.Keys) == 0 {
			b.bad(at+"/keys", "at least one key is needed")
		}
		for j, k := range p.Keys {
			b.key(fmt.Sprintf("%s/keys/%d", at, j), k.SHA256, k.ExpiresAt, owner)
		}
	}
	if n := len(b.keys.entries); n > maxKeys {
		b.bad("/producers", fmt.Sprintf("%d keys, at most %d are allowed", n, maxKeys))
	}
	if err := invalid(b.fields); err != nil {
		return nil, fmt.Errorf("keys file: %w", err)
	}
	return b.keys, nil
}

type keysBuilder struct {
	keys   *Keys
	names  map[string]bool
	sums   map[[sha256.Size]byte]bool
	fields []job.FieldError
}

func (b *keysBuilder) bad(pointer, detail string) {
	b.fields = append(b.fields, job.FieldError{Pointer: pointer, Detail: detail, Code: job.CodeInvalid})
}

// maxProducerName bounds a name that stands in every job and in metrics.
const maxProducerName = 63

func (b *keysBuilder) producer(at, name string, granted []Scope, patterns []string) *producer {
	switch {
	case name == "" || len(name) > maxProducerName || !visible(name) || strings.ContainsAny(name, ":"):
		b.bad(at+"/name", "give 1 to 63 visible characters without a colon")
	case b.names[name]:
		b.bad(at+"/name", "the name is used twice")
	}
	b.names[name] = true
	if len(granted) == 0 {
		b.bad(at+"/scopes", "at least one scope is needed")
	}
	for i, s := range granted {
		if !slices.Contains(scopes, s) {
			b.bad(fmt.Sprintf("%s/scopes/%d", at, i), fmt.Sprintf("unknown scope; the scopes are %v", scopes))
		}
	}
	if len(patterns) == 0 {
		b.bad(at+"/destinations", `at least one pattern is needed; "*" is all`)
	}
	for i, p := range patterns {
		if p == "" || strings.Trim(p, "abcdefghijklmnopqrstuvwxyz0123456789._-*") != "" {
			b.bad(fmt.Sprintf("%s/destinations/%d", at, i), "a pattern holds a-z, 0-9, '.', '_', '-' and '*'")
		}
	}
	return &producer{name: name, scopes: granted, destinations: patterns, restricted: true}
}

func (b *keysBuilder) key(at, sum, expires string, owner *producer) {
	e := keyEntry{owner: owner}
	raw, err := hex.DecodeString(sum)
	if err != nil || len(raw) != sha256.Size {
		b.bad(at+"/sha256", "give the SHA-256 of the key as 64 hex digits")
		return
	}
	copy(e.sum[:], raw)
	if b.sums[e.sum] {
		b.bad(at+"/sha256", "the key is there twice")
	}
	b.sums[e.sum] = true
	if expires != "" {
		if err := e.expires.UnmarshalText([]byte(expires)); err != nil {
			b.bad(at+"/expires_at", "give an RFC 3339 time with a zone")
		}
	}
	b.keys.entries = append(b.keys.entries, e)
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
