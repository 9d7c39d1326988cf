package secret

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"tundish/internal/destination"
)

// Resolver knows what references stand for. It is safe for concurrent use.
type Resolver struct {
	keys *Keyring
	own  []string // files that no contract may have sent

	mu    sync.Mutex
	files map[string]*file
}

// maxFiles bounds the files that are remembered; contracts come and go.
const maxFiles = 10_000

// NewResolver makes a Resolver. keys open what was given through the API; nil:
// that cannot be opened here. The files named in own hold secrets of Tundish
// itself and are given to nobody.
func NewResolver(keys *Keyring, own ...string) *Resolver {
	return &Resolver{keys: keys, own: own, files: map[string]*file{}}
}

// Value is what a reference of a contract stands for now. The error names the
// reference and never a value.
func (r *Resolver) Value(c *destination.Contract, ref destination.Reference) (string, error) {
	value, err := r.value(c, ref)
	if err == nil && value == "" {
		err = errEmpty
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", ref, err)
	}
	return value, nil
}

// Check says which references of a contract stand for nothing here; nil: none.
func (r *Resolver) Check(c *destination.Contract) error {
	var wrong []string
	for _, ref := range c.References() {
		if _, err := r.Value(c, ref); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, "; "))
}

func (r *Resolver) value(c *destination.Contract, ref destination.Reference) (string, error) {
	switch ref.Kind {
	case destination.FromEnv:
		value, ok := os.LookupEnv(ref.Name)
		if !ok {
			return "", errNotSet
		}
		return value, nil
	case destination.FromFile:
		return r.file(ref.Name).read(time.Now())
	case destination.Sealed:
		sealed, ok := c.Sealed[ref.Name]
		if !ok {
			return "", errNotGiven
		}
		return r.keys.Open(c.Name, ref.Name, sealed)
	}
	return "", errUnknown
}

func (r *Resolver) file(path string) *file {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.files[path]
	if f == nil {
		if len(r.files) >= maxFiles {
			clear(r.files)
		}
		f = &file{path: path, own: r.own}
		r.files[path] = f
	}
	return f
}
