//go:build linux || darwin || freebsd || netbsd || openbsd

package deliver

import "syscall"

// peerEnded looks, without taking anything, at what waits to be read. An end or
// an error means that the other side is gone. On a connection that carried a
// request before, waiting bytes are a closing alert or an answer to nothing; on
// a fresh one they may be TLS session tickets.
func peerEnded(raw syscall.RawConn, reused bool) bool {
	ended := false
	// Control, not Read: net/http's reading goroutine holds the read lock.
	err := raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EAGAIN || err == syscall.EINTR:
		case err != nil || n == 0:
			ended = true
		default:
			ended = reused
		}
	})
	return ended || err != nil
}
