package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait of a test: longer is a failure.
const patience = 30 * time.Second

// process is a running program whose log lines are the events we wait for.
type process struct {
	name string
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended and its log is read

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each line
	lines   []string
}

// spawn starts a program. It is killed at the test's end if it still runs, and
// its log is shown when the test has failed.
func spawn(t testing.TB, name, path string, args ...string) *process {
	t.Helper()
	return spawnWith(t, []string{}, name, path, args...) // flags from the environment are not for us
}

// spawnWith is spawn with an environment.
func spawnWith(t testing.TB, env []string, name, path string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = env
	return launch(t, name, cmd)
}

// launch starts a command as spawn does.
func launch(t testing.TB, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{name: name, cmd: cmd, gone: make(chan struct{}), changed: make(chan struct{})}
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = p.cmd.Stderr
	started := make(chan error)
	go p.run(out, started)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if log := p.log(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") {
			t.Errorf("%s ended badly", p.name)
		}
		if t.Failed() {
			t.Logf("%s, pid %d, said:\n%s", p.name, p.cmd.Process.Pid, p.log())
		}
	})
	return p
}

// run keeps its thread for the life of the child: the kernel sends the parent
// death signal when the thread that forked ends.
func (p *process) run(out io.Reader, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	for s := bufio.NewScanner(out); s.Scan(); {
		p.mu.Lock()
		p.lines = append(p.lines, s.Text())
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
	_ = p.cmd.Wait() // killed, mostly; exit answers the code
	close(p.gone)
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// said waits for a line that matches.
func (p *process) said(t testing.TB, want *regexp.Regexp) []string {
	t.Helper()
	late := time.After(patience)
	for next := 0; ; {
		p.mu.Lock()
		fresh, changed := p.lines[next:], p.changed
		next = len(p.lines)
		p.mu.Unlock()
		for _, line := range fresh {
			if m := want.FindStringSubmatch(line); m != nil {
				return m
			}
		}
		select {
		case <-changed:
		case <-p.gone:
			t.Fatalf("%s ended before it said %q", p.name, want)
		case <-late:
			t.Fatalf("%s has not said %q for %s", p.name, want, patience)
		}
	}
}

// exit waits for the end and answers the exit code, -1 after a signal.
func (p *process) exit(t testing.TB) int {
	t.Helper()
	select {
	case <-p.gone:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatalf("%s has not ended for %s", p.name, patience)
		return 0
	}
}

// signal sends a signal to a process that runs.
func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

// kill ends the process as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // gone already is fine
	<-p.gone
}

// terminate asks the process to stop and waits: it must end well.
func (p *process) terminate(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	p.endedWell(t)
}

func (p *process) endedWell(t testing.TB) {
	t.Helper()
	if code := p.exit(t); code != 0 {
		t.Errorf("%s: exit code %d after SIGTERM, want 0", p.name, code)
	}
}

// freeze stops the process (SIGSTOP) and returns when it stands still.
func (p *process) freeze(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WSTOPPED, nil)
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EINTR) {
			t.Fatalf("%s: %v", p.name, err)
		}
	}
}

func (p *process) thaw(t testing.TB) { p.signal(t, syscall.SIGCONT) }

// cpu is the processor time that a process has used.
func cpu(t testing.TB, pid int) time.Duration {
	t.Helper()
	var user, system int64
	text := readFile(t, fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // the name may hold blanks
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	const ticks = 100 // per second, USER_HZ of every Linux that Go runs on
	return time.Duration(user+system) * time.Second / ticks
}
