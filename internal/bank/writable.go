package bank

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Writable says why no file can be written at path, for who writes there only
// later. It changes nothing there.
func Writable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return creatable(path)
	case err != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return nil // to open a pipe would wait for its reader
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func creatable(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil // somebody was faster, or it is a link whose target is to be made
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(path))
}
