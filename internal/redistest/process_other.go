//go:build !linux

package redistest

import "syscall"

// dieWithParent: only Linux can do it; elsewhere a crashed test leaves its server.
func dieWithParent() *syscall.SysProcAttr { return nil }

func (p *process) stop() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *process) cont() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
