//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package deliver

import "syscall"

// peerEnded cannot tell here; the reading goroutine notices a little later.
func peerEnded(syscall.RawConn, bool) bool { return false }
