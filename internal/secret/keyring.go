package secret

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// keyBytes is the length of a key: AES-256.
const keyBytes = 32

// Keyring seals secrets with its first key and opens what any of its keys has
// sealed, so that keys can be changed. A nil Keyring opens nothing.
type Keyring struct {
	first string
	keys  map[string]cipher.AEAD
}

var (
	errNoKeys  = errors.New("this process was given no --seal-keys to open it")
	errDamaged = errors.New("what is stored of it is damaged")
	errForeign = errors.New("it was sealed for another place, or is damaged")
)

// LoadKeyring reads a file of keys. Nobody but its owner and group may read it,
// and nobody but its owner may write it.
func LoadKeyring(path string) (*Keyring, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("seal keys: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o027 != 0 {
		return nil, fmt.Errorf("seal keys: the mode of %s is %04o; others must not read it nor the group write it (0400, 0440, 0600 or 0640)", path, mode)
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("seal keys: %s: %w", path, reason(err))
	}
	defer func() { _ = in.Close() }() // it was only read
	text, err := readBounded(in)
	if err != nil {
		return nil, fmt.Errorf("seal keys: %s: %w", path, err)
	}
	return ParseKeyring([]byte(text))
}

// ParseKeyring reads lines of <key id>:<32 bytes in base64>; the first seals.
// Empty lines and those that begin with # are left out. The error tells of all
// lines that are wrong and repeats none of them.
func ParseKeyring(text []byte) (*Keyring, error) {
	k := &Keyring{keys: map[string]cipher.AEAD{}}
	var wrong []job.FieldError
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if err := k.add(string(line)); err != nil {
			wrong = append(wrong, job.FieldError{Line: n, Detail: err.Error(), Code: job.CodeInvalid})
		}
	}
	if len(wrong) == 0 && k.first == "" {
		wrong = append(wrong, job.FieldError{Detail: "there is no key in it; give lines of <key id>:<32 bytes in base64>", Code: job.CodeInvalid})
	}
	if len(wrong) > 0 {
		e := job.Errorf(job.CodeInvalid, "the seal keys cannot be used")
		e.Fields = wrong
		return nil, e
	}
	return k, nil
}

func (k *Keyring) add(line string) error {
	id, text, _ := strings.Cut(line, ":")
	key, err := base64.StdEncoding.DecodeString(text)
	switch {
	case !destination.ValidSecretName(id):
		return errors.New("a key's id has 1 to 63 letters, digits, '.', '_' and '-', and a colon behind it")
	case err != nil || len(key) != keyBytes:
		return fmt.Errorf("a key is %d bytes in base64 (standard alphabet, padded)", keyBytes)
	case k.keys[id] != nil:
		return errors.New("this key id stands in an earlier line")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	if k.keys[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return err
	}
	if k.first == "" {
		k.first = id
	}
	return nil
}

// Seal makes of a value what may be stored: <key id>:<base64>. It can be opened
// under the same destination and name alone.
func (k *Keyring) Seal(destination, name, value string) string {
	sealed := k.keys[k.first].Seal(nil, nil, []byte(value), place(destination, name))
	return k.first + ":" + base64.StdEncoding.EncodeToString(sealed)
}

// Open gives the value that was sealed under this destination and name.
func (k *Keyring) Open(destination, name, sealed string) (string, error) {
	if k == nil {
		return "", errNoKeys
	}
	id, text, ok := strings.Cut(sealed, ":")
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !ok {
		return "", errDamaged
	}
	key := k.keys[id]
	if key == nil {
		return "", fmt.Errorf("it was sealed with the key %.63q, which this process was not given", id)
	}
	value, err := key.Open(nil, nil, data, place(destination, name))
	if err != nil {
		return "", errForeign
	}
	return string(value), nil
}

// place binds a sealed value to where it belongs: who can write to Redis cannot
// move it to a destination of theirs.
func place(destination, name string) []byte {
	return []byte("tundish\x00" + destination + "\x00" + name)
}
