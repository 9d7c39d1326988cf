package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
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
	refused      []string          // destinations of it that are not in force
	again        time.Time         // when those, and deleted ones, are applied again

	names atomic.Pointer[map[string]bool] // that the file names
}

// holds says whether the file names a destination: when the store does not have
// it, it will again.
func (f *files) holds(name string) bool {
	names := f.names.Load()
	return names != nil && (*names)[name]
}

func (f *files) note(file *destination.File) {
	names := make(map[string]bool, len(file.Destinations))
	for _, e := range file.Destinations {
		names[e.Contract.Name] = true
	}
	f.names.Store(&names)
}

// mendEvery is how often what is missing of an unchanged file is applied: what
// others owned may have been deleted since, and so may what the file names.
const mendEvery = 30 * time.Second

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
		f.report(f.inForce())
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
	if !changed && !lost {
		return cmp.Or(f.mend(ctx), f.inForce())
	}
	file, err := destination.ParsePath(f.path)
	if err != nil {
		return err
	}
	if err := f.apply(ctx, file, lost); err != nil {
		return err
	}
	f.installation, f.seen = id, file.Sum
	return f.inForce()
}

// apply stores what the file holds, and lets go of what it no longer names.
func (f *files) apply(ctx context.Context, file *destination.File, lost bool) error {
	f.note(file)
	refused, err := f.put(ctx, file, file.Destinations, lost)
	f.refused, f.again = refused, time.Now().Add(mendEvery)
	for _, name := range refused {
		f.log.Warn("a destination of the file was not applied: others made it, or a newer revision", "destination", name)
	}
	return errors.Join(err, f.orphan(ctx, file))
}

// mend applies what was refused or is gone, and nothing else: another file of
// the set may have changed the rest since.
func (f *files) mend(ctx context.Context) error {
	if time.Now().Before(f.again) {
		return nil
	}
	missing, err := f.missing(ctx)
	if err != nil {
		return err
	}
	f.again = time.Now().Add(mendEvery)
	if len(missing) == 0 {
		return nil
	}
	file, err := destination.ParsePath(f.path)
	if err != nil || file.Sum != f.seen {
		return err // what has changed is for the next look
	}
	var entries []destination.Entry
	for _, e := range file.Destinations {
		if missing[e.Contract.Name] {
			entries = append(entries, e)
		}
	}
	const lost = true // what was deleted has left its slots; what a node of a Cluster lost has not
	refused, err := f.put(ctx, file, entries, lost)
	if err == nil {
		f.refused = refused
	}
	return err
}

// missing is what the file names and was refused, or does not exist.
func (f *files) missing(ctx context.Context) (map[string]bool, error) {
	there, err := f.store.Names(ctx)
	if err != nil {
		return nil, err
	}
	missing := maps.Clone(*f.names.Load())
	for _, name := range there {
		delete(missing, name)
	}
	for _, name := range f.refused {
		missing[name] = true
	}
	return missing, nil
}

// put stores destinations of the file. One that somebody else owns, or that a
// newer file made, is refused; the others are stored all the same.
func (f *files) put(ctx context.Context, file *destination.File, entries []destination.Entry, lost bool) (refused []string, err error) {
	var failed []error
	for _, e := range entries {
		d, created, err := f.store.Apply(ctx, queue.ApplyRequest{Name: e.Contract.Name, Contract: e.Contract, Written: e.Written,
			Source: queue.Source{Kind: "file", Set: file.Set, Revision: file.Revision}, MemoryLost: lost})
		switch job.CodeOf(err) {
		case job.CodeOwnedByFile, job.CodeVersionMismatch:
			refused = append(refused, e.Contract.Name)
			continue
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		for _, warning := range append(destination.Warnings(e.Contract), d.Warnings...) {
			f.log.Warn(warning, "destination", e.Contract.Name)
		}
		f.log.Debug("destination applied", "destination", e.Contract.Name, "created", created)
	}
	return refused, errors.Join(failed...)
}

// inForce says what of the file is not in force, some by name; nil when all of it is.
func (f *files) inForce() error {
	if len(f.refused) == 0 {
		return nil
	}
	const named = 5
	text := strings.Join(f.refused[:min(named, len(f.refused))], ", ")
	if len(f.refused) > named {
		text += ", …"
	}
	return fmt.Errorf("destinations that others made, or a newer revision, were left as they are: %d (%s)", len(f.refused), text)
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
