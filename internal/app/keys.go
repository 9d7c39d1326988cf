package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/api"
	"tundish/internal/job"
)

// keysFile keeps the producers' keys as their file has them, so that a revoked
// key stops and a new one begins to work without a restart.
type keysFile struct {
	*watch

	path string
	keys *api.Keys
	log  *slog.Logger
	seen [sha256.Size]byte // of the text that is in force
}

// loadKeys reads the file and what tells its next version from this one.
func loadKeys(path string) (keys *api.Keys, sum [sha256.Size]byte, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, sum, fmt.Errorf("read keys: %w", err)
	}
	keys, err = api.ParseKeys(data)
	if e, ok := errors.AsType[*job.Error](err); ok {
		for i := range e.Fields {
			e.Fields[i].File = path
		}
	}
	return keys, sha256.Sum256(data), err
}

func newKeysFile(path string, keys *api.Keys, seen [sha256.Size]byte, log *slog.Logger, reloads *prometheus.GaugeVec) *keysFile {
	f := &keysFile{path: path, keys: keys, log: log.With("component", "keys"), seen: seen}
	f.watch = newWatch("keys", f.look, f.log, reloads)
	return f
}

func (f *keysFile) look(ctx context.Context) error {
	changed, err := settled(ctx, f.seen, f.sum)
	if err != nil || !changed {
		return err
	}
	keys, sum, err := loadKeys(f.path)
	if err != nil {
		return err
	}
	f.keys.Replace(keys)
	f.seen = sum
	f.log.Info("the keys of the file are in force", "keys", keys.Len())
	return nil
}

func (f *keysFile) sum() ([sha256.Size]byte, error) {
	data, err := os.ReadFile(f.path)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("read keys: %w", err)
	}
	return sha256.Sum256(data), nil
}
