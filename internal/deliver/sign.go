package deliver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tundish/internal/destination"
)

// The headers of Standard Webhooks (specification 1.0.0), spelled as there.
const (
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
	headerSignature = "webhook-signature"
)

// What a signing secret looks like, by the same specification.
const (
	secretPrefix   = "whsec_"
	minSecretBytes = 24
	maxSecretBytes = 64
)

// ParseSignSecret reads a signing secret: whsec_ and 24 to 64 bytes in base64.
// The error does not repeat it.
func ParseSignSecret(s string) ([]byte, error) {
	text, ok := strings.CutPrefix(s, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	switch {
	case !ok || err != nil:
		return nil, fmt.Errorf("a signing secret is %s and base64 (standard alphabet, padded)", secretPrefix)
	case len(key) < minSecretBytes || len(key) > maxSecretBytes:
		return nil, fmt.Errorf("a signing secret of %d bytes is not allowed; give %d to %d", len(key), minSecretBytes, maxSecretBytes)
	}
	return key, nil
}

// Sign puts the headers of Standard Webhooks on a request: who verifies them
// knows that the holder of a key sent this body under this id at this time. It
// makes one signature for each key, so that a key can be changed.
func Sign(h http.Header, keys [][]byte, id string, at time.Time, body []byte) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + stamp + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	for name, value := range map[string]string{headerID: id, headerTimestamp: stamp, headerSignature: strings.Join(signatures, " ")} {
		h.Del(name)
		h[name] = []string{value} // not canonical: the specification writes them small
	}
}

// signKeys reads the keys that a contract names.
func (r *resolving) signKeys(sign *destination.Sign) [][]byte {
	var keys [][]byte
	for i, s := range sign.Secrets {
		value, ok := r.text(s)
		if !ok {
			continue
		}
		key, err := ParseSignSecret(value)
		if err != nil {
			r.failed(fmt.Errorf("sign: secrets[%d]: %w", i, err))
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

// sign makes the signatures of an attempt over what will be written at its slot.
func (o *outgoing) sign(a *Attempt, keys [][]byte) {
	if len(keys) == 0 {
		return
	}
	at := time.Now()
	if a.At.After(at) {
		at = a.At
	}
	Sign(o.header, keys, string(a.Job.ID), at, o.body)
}
