package secret

import (
	"os"
	"syscall"
)

// The file systems in which the kernel shows itself and its processes, by the
// numbers of statfs(2).
const (
	procMagic  = 0x9fa0
	sysfsMagic = 0x62656572
)

// ofKernel says whether a file is a view of the kernel's. /proc/self/environ holds
// the variables that no reference may name, and /proc/self/cmdline the flags.
func ofKernel(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	var fs syscall.Statfs_t
	errControl := raw.Control(func(fd uintptr) { err = syscall.Fstatfs(int(fd), &fs) })
	kind := int64(fs.Type) //nolint:unconvert // not everywhere an int64
	return errControl == nil && err == nil && (kind == procMagic || kind == sysfsMagic)
}
