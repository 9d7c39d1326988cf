package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// maxKeysBytes bounds the keys file: ample for maxKeys with their names.
const maxKeysBytes = 4 << 20

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

// ParseKeys reads the text of a file of producers and their keys. All problems
// are reported at once; no error repeats what may be a key.
func ParseKeys(data []byte) (*Keys, error) {
	if len(data) > maxKeysBytes {
		return nil, job.Errorf(job.CodeTooLarge, "keys file: larger than %s", destination.FormatSize(maxKeysBytes))
	}
	b := keysBuilder{names: map[string]bool{}, sums: map[[sha256.Size]byte]bool{}}
	doc, err := b.decode(data)
	if err != nil {
		return nil, err
	}
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
	if n := len(b.entries); n > maxKeys {
		b.bad("/producers", fmt.Sprintf("%d keys, at most %d are allowed", n, maxKeys))
	}
	if err := invalid(b.fields); err != nil {
		return nil, fmt.Errorf("keys file: %w", err)
	}
	keys := &Keys{now: time.Now}
	keys.entries.Store(&b.entries)
	return keys, nil
}

type keysBuilder struct {
	entries []keyEntry
	names   map[string]bool
	sums    map[[sha256.Size]byte]bool
	fields  []job.FieldError
}

// quotedValue is what the YAML reader repeats of a value, which may be a key.
var quotedValue = regexp.MustCompile("`[^`]*` ")

// decode reads the YAML. Values of a wrong type and unknown fields are noted,
// and the rest is looked at all the same.
func (b *keysBuilder) decode(data []byte) (doc keysFile, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	err = dec.Decode(&doc)
	if wrong, ok := errors.AsType[*yaml.TypeError](err); ok {
		for _, text := range wrong.Errors {
			b.bad("", quotedValue.ReplaceAllString(text, ""))
		}
		return doc, nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return doc, job.Errorf(job.CodeMalformed, "keys file: %s", quotedValue.ReplaceAllString(err.Error(), ""))
	}
	return doc, nil
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
	b.entries = append(b.entries, e)
}
