// Package idempotency owns the keys by which a repeated push makes no second
// job: their rules, their scope (destination and producer), the fingerprint of
// a request and the Lua part that looks them up and stores them in one step with the push.
package idempotency

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// Lua is the script part for the keys idem and idemends.
//
//go:embed keys.lua
var Lua string

// NoKey stands in an envelope for a job without a key.
const NoKey = "-"

// HashLength is the length of a key hash and of a fingerprint as stored.
const HashLength = 22

// CheckKey tells whether a producer may use the key: 1 to 255 visible ASCII characters.
func CheckKey(key string) error {
	if len(key) == 0 || len(key) > job.MaxKeyBytes {
		return fmt.Errorf("%d characters; give 1 to %d", len(key), job.MaxKeyBytes)
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return fmt.Errorf("character %d is not a visible ASCII character", i+1)
		}
	}
	return nil
}

// KeyHash is the stored form of a key in the scope of one destination's lane:
// two producers with the same key do not meet.
func KeyHash(producer, key string) string {
	if key == "" {
		return NoKey
	}
	sum := sha256.Sum256(part(part(nil, producer), key))
	return short(sum[:])
}

// Fingerprint tells requests apart: tenant, method, path with query, content
// type, headers in order and the bytes of the body. Priority, times and
// metadata are not part of the request.
func Fingerprint(j *job.Job) string {
	fields := make([]byte, 0, 256)
	for _, s := range []string{j.Tenant, j.Request.Method, j.Request.Path, j.Request.ContentType} {
		fields = part(fields, s)
	}
	for _, header := range j.Request.Headers {
		fields = part(part(fields, header.Name), header.Value)
	}
	h := sha256.New()
	h.Write(length(fields, len(j.Request.Body)))
	h.Write(j.Request.Body)
	return short(h.Sum(fields[:0]))
}

// Downstream is the key that the destination gets on every attempt: the
// producer's own, behind the producer's name when doors have keys (unless the
// contract says none), or the job's id when the producer gave none.
func Downstream(prefix destination.Prefix, j *job.Job) string {
	switch {
	case j.IdempotencyKey == "":
		return string(j.ID)
	case j.Producer == "" || prefix == destination.PrefixNone:
		return j.IdempotencyKey
	}
	return j.Producer + ":" + j.IdempotencyKey
}

// part adds one field with its length, so that no two lists of fields hash alike.
func part(b []byte, s string) []byte { return append(length(b, len(s)), s...) }

func length(b []byte, n int) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) } //nolint:gosec // of a length

// short cuts a sum to 16 bytes: enough to tell 2^60 keys apart, and half the memory.
func short(sum []byte) string { return base64.RawURLEncoding.EncodeToString(sum[:16]) }
