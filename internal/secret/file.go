package secret

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

var (
	errEmpty    = errors.New("it is empty")
	errNotSet   = errors.New("the variable is not set")
	errNotGiven = errors.New("it was not given; put it with the destination, under secrets")
	errUnknown  = errors.New("there is no such kind of reference")
	errNoFile   = errors.New("there is no such file")
	errNotFile  = errors.New("it is no file")
	errDenied   = errors.New("the file may not be read")
	errBroken   = errors.New("the file cannot be read")
	errLarge    = errors.New("the file is larger than 64KiB")
	errKernel   = errors.New("it is a view of the kernel's, which tells of this process; give a file")
	errOwn      = errors.New("the file holds secrets of Tundish itself")
)

const (
	// lookEvery is how often a file is looked at. Looking also sees the links
	// that a mounted Kubernetes secret swaps.
	lookEvery = time.Second
	// standStill is how long a changed file must stay as it is before it counts:
	// one that is just being written is half of a secret, or gone. It has if it was
	// changed before lookEvery: the first request after a rest gets no old secret.
	standStill = 100 * time.Millisecond

	maxFileBytes = 64 << 10
)

// file is a secret in a file, as it was when it last stood still.
type file struct {
	path string
	own  []string

	mu      sync.Mutex
	value   string
	err     error       // why there is no value
	info    fs.FileInfo // of what value and err come from; nil: none
	next    time.Time   // when to look again
	pending bool        // at the last look it was another
	was     fs.FileInfo // which, with pending
}

// read gives the value, looking at the file when it is time to.
func (f *file) read(now time.Time) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Before(f.next) {
		return f.value, f.err
	}
	f.next = now.Add(lookEvery)
	info, err := os.Stat(f.path)
	if err != nil {
		info = nil
	}
	switch {
	case f.value == "": // nothing to keep to: what there is counts at once
		f.take(info, err)
	case same(info, f.info):
		f.pending = false
	case f.pending && same(info, f.was), info != nil && now.Sub(info.ModTime()) >= lookEvery:
		f.take(info, err)
	default:
		f.pending, f.was, f.next = true, info, now.Add(standStill)
	}
	return f.value, f.err
}

// same says whether two looks saw the same file, unchanged.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// take makes what is there now the value.
func (f *file) take(info fs.FileInfo, err error) {
	f.info, f.pending, f.value = info, false, ""
	if f.err = reason(err); f.err != nil {
		return
	}
	f.value, f.err = f.load(info)
}

// load reads the file, which may have become another since it was looked at.
func (f *file) load(info fs.FileInfo) (string, error) {
	if err := f.refuse(info); err != nil {
		return "", err
	}
	in, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would keep us waiting
	if err != nil {
		return "", reason(err)
	}
	defer func() { _ = in.Close() }() // it was only read
	if info, err = in.Stat(); err != nil {
		return "", reason(err)
	}
	if err := f.refuse(info); err != nil {
		return "", err
	}
	if ofKernel(in) {
		return "", errKernel
	}
	text, err := readBounded(in)
	if err != nil {
		return "", err
	}
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	if text == "" {
		return "", errEmpty
	}
	return text, nil
}

// refuse says why what was found cannot be a secret; nil when it may.
func (f *file) refuse(info fs.FileInfo) error {
	for _, path := range f.own {
		if other, err := os.Stat(path); err == nil && os.SameFile(info, other) {
			return errOwn
		}
	}
	if !info.Mode().IsRegular() {
		return errNotFile
	}
	return nil
}

func readBounded(in io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxFileBytes+1))
	if err != nil {
		return "", reason(err)
	}
	if len(text) > maxFileBytes {
		return "", errLarge
	}
	return string(text), nil
}

// reason says in our words why a file cannot be read: the reference that stands
// before it names the path.
func reason(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return errNoFile
	case errors.Is(err, fs.ErrPermission):
		return errDenied
	}
	return errBroken
}
