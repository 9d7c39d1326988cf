package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// files applies the destinations file: at start, when it changes, and when
// Redis has come back empty.
type files struct {
	*watch

	path  string
	file  *destination.File
	store *queue.Store
	log   *slog.Logger

	installation string
	seen         [sha256.Size]byte // of the file that was applied last
	refused      error             // what of it is not in force; nil: all of it is
	again        time.Time         // when that is tried again
}

// refusedAgain is how long what others own, or a newer file made, is left
// alone: it may have been deleted since.
const refusedAgain = time.Minute

func newFiles(path string, file *destination.File, store *queue.Store, log *slog.Logger, reloads *prometheus.GaugeVec) *files {
	f := &files{path: path, file: file, store: store, log: log.With("component", "files")}
	f.watch = newWatch("destinations", f.look, f.log, reloads)
	return f
}

func (f *files) start(ctx context.Context) error {
	id, err := f.store.Join(ctx, uuid.NewString())
	if err != nil {
		return err
	}
	f.installation = id
	if f.file != nil {
		f.seen = f.file.Sum
		if err := f.apply(ctx, f.file, false); err != nil {
			return err
		}
		f.watch.report(f.refused)
	}
	f.watch.start()
	return nil
}

// look applies the file again when it changed or when Redis lost its memory.
func (f *files) look(ctx context.Context) error {
	id, err := f.store.Join(ctx, uuid.NewString())
	if err != nil {
		return errLookLater // it is told elsewhere
	}
	lost := id != f.installation
	if lost {
		f.log.Warn("Redis came back without its memory; destinations are applied again, with slots as after a loss")
	}
	if f.path == "" {
		f.installation = id
		return nil
	}
	changed, err := settled(ctx, f.seen, func() ([sha256.Size]byte, error) { return destination.Sum(f.path) })
	if err != nil {
		return err
	}
	if again := f.refused != nil && !time.Now().Before(f.again); !changed && !lost && !again {
		return f.refused
	}
	file, err := destination.ParsePath(f.path)
	if err != nil {
		return err
	}
	if err := f.apply(ctx, file, lost); err != nil {
		return err
	}
	f.installation, f.seen = id, file.Sum
	return f.refused
}

// apply stores what the file holds. A destination that somebody else owns, or
// that a newer file made, is left alone and noted; the others are applied all the same.
func (f *files) apply(ctx context.Context, file *destination.File, lost bool) error {
	var failed []error
	var refused []string
	for _, e := range file.Destinations {
		_, created, err := f.store.Apply(ctx, queue.ApplyRequest{Name: e.Contract.Name, Contract: e.Contract, Written: e.Written,
			Source: queue.Source{Kind: "file", Set: file.Set, Revision: file.Revision}, MemoryLost: lost})
		switch job.CodeOf(err) {
		case job.CodeOwnedByFile, job.CodeVersionMismatch:
			if f.refused == nil || file.Sum != f.seen {
				f.log.Warn("a destination of the file was not applied", "destination", e.Contract.Name, "error", err)
			}
			refused = append(refused, e.Contract.Name)
			continue
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		for _, warning := range destination.Warnings(e.Contract) {
			f.log.Warn(warning, "destination", e.Contract.Name)
		}
		f.log.Debug("destination applied", "destination", e.Contract.Name, "created", created)
	}
	f.refused, f.again = notInForce(refused, len(file.Destinations)), time.Now().Add(refusedAgain)
	failed = append(failed, f.orphan(ctx, file))
	return errors.Join(failed...)
}

// notInForce says what of a file is not in force, some by name; nil when all of it is.
func notInForce(refused []string, all int) error {
	if len(refused) == 0 {
		return nil
	}
	const named = 5
	text := strings.Join(refused[:min(named, len(refused))], ", ")
	if len(refused) > named {
		text += ", …"
	}
	return fmt.Errorf("%d of its %d destinations are others' or of a newer revision: %s", len(refused), all, text)
}

// orphan lets go of what the set owns and the file no longer names: it goes on
// as it is, and the API may change or delete it.
func (f *files) orphan(ctx context.Context, file *destination.File) error {
	named := map[string]bool{}
	for _, e := range file.Destinations {
		named[e.Contract.Name] = true
	}
	owned, err := f.store.OwnedBy(ctx, file.Set)
	if err != nil {
		return err
	}
	for _, name := range owned {
		if named[name] {
			continue
		}
		f.log.Warn("a destination is no longer in the file; it goes on as it is until tundish apply --prune or the API deletes it", "destination", name)
		if err := f.store.Orphan(ctx, name, file.Set, file.Revision); err != nil {
			return err
		}
	}
	return nil
}
