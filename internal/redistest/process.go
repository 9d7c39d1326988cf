package redistest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
)

// process is a running server whose log lines are the events we wait for.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process is gone and its log read

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each line
	lines   []string
	ended   bool
}

func spawn(name string, args []string, env ...string) (*process, error) {
	p := &process{
		cmd:     exec.Command(name, args...),
		done:    make(chan struct{}),
		changed: make(chan struct{}),
	}
	p.cmd.SysProcAttr = dieWithParent()
	p.cmd.Env = append(os.Environ(), env...)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = p.cmd.Stdout
	started := make(chan error)
	go p.run(out, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run keeps its thread for the life of the child: the kernel sends the parent
// death signal when the *thread* that forked ends.
func (p *process) run(out io.Reader, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	for s := bufio.NewScanner(out); s.Scan(); {
		p.note(s.Text(), false)
	}
	_ = p.cmd.Wait() // killed, mostly: not an error here
	p.note("", true)
	close(p.done)
}

func (p *process) note(line string, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ended {
		p.ended = true
	} else {
		p.lines = append(p.lines, line)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// waitFor returns when the log has said text, or fails when the process ends first.
func (p *process) waitFor(text string) error {
	for next := 0; ; {
		p.mu.Lock()
		fresh, ended, changed := p.lines[next:], p.ended, p.changed
		next = len(p.lines)
		p.mu.Unlock()
		for _, l := range fresh {
			if strings.Contains(l, text) {
				return nil
			}
		}
		if ended {
			return fmt.Errorf("the server ended before %q; its log:\n%s", text, p.log())
		}
		<-changed
	}
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // gone already is fine
	<-p.done
}
