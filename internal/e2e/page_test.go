package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// page is a README whose commands a bash is given as a reader would give them,
// block by block. Only what may be in use on this machine is another: the ports
// that page and destinations file name, and the folder of the programs.
type page struct {
	*rig
	shell  *process
	in     io.Writer
	blocks []string
	next   int
}

var (
	shBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")
	aPort   = regexp.MustCompile(`127\.0\.0\.1:(\d{4,5})|\bport:? (\d{4,5})`)
)

// top is the top of the repository.
var top = filepath.Join("..", "..")

// openExample opens examples/<name>/README.md; its commands run at the top of the repository.
func openExample(t *testing.T, name string) *page {
	t.Helper()
	folder := filepath.Join("examples", name)
	text, contract := readFile(t, filepath.Join(top, folder, "README.md")), readFile(t, filepath.Join(top, folder, "destinations.yaml"))
	p := newPage(t)
	ours := strings.NewReplacer(append(ports(t, text+contract+usualPorts), "make build", ":", "bin/", filepath.Join(p.dir, "bin")+"/",
		folder+"/destinations.yaml", p.file("destinations.yaml"))...)
	p.write("destinations.yaml", ours.Replace(contract))
	p.open(top, text, ours)
	return p
}

func newPage(t *testing.T) *page {
	t.Helper()
	takeSeats(t, false)
	p := &page{rig: newRigOn(t, "")}
	p.programs()
	return p
}

func (p *page) file(name string) string { return filepath.Join(p.dir, name) }

func (p *page) write(name, text string) {
	p.Helper()
	if err := os.WriteFile(p.file(name), []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
}

// programs makes a folder of this page's own with the programs, as make build does.
func (p *page) programs() {
	p.Helper()
	bin := p.file("bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		p.Fatal(err)
	}
	for _, name := range []string{"enqueuer", "worker", "tundish"} {
		if err := os.Symlink(program(p, name), filepath.Join(bin, name)); err != nil {
			p.Fatal(err)
		}
	}
}

// usualPorts are those of our defaults and of Redis.
const usualPorts = " 127.0.0.1:8080 127.0.0.1:6379"

// ports gives another port for each that a text names, as pairs of what is written.
func ports(t *testing.T, text string) (pairs []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, m := range aPort.FindAllStringSubmatch(text, -1) {
		old := m[1] + m[2]
		if seen[old] {
			continue
		}
		seen[old] = true
		pairs = append(pairs, "127.0.0.1:"+old, "", "port "+old, "", "port: "+old, "")
		for i, n := len(pairs)-6, strconv.Itoa(freePort(t)); i < len(pairs); i += 2 {
			pairs[i+1] = strings.TrimSuffix(pairs[i], old) + n
		}
	}
	return pairs
}

// freePort is below those that the kernel gives to others by itself.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		n := 12000 + rand.IntN(18000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", n)); err == nil {
			_ = l.Close()
			return n
		}
	}
	t.Fatal("no free port")
	return 0
}

// open reads the blocks of a page, and starts the bash in a group of its own:
// what it starts ends with the test, also when the test is killed and its end of the pipe with it.
func (p *page) open(dir, text string, ours *strings.Replacer) {
	p.Helper()
	for _, b := range shBlock.FindAllStringSubmatch(text, -1) {
		p.blocks = append(p.blocks, ours.Replace(b[1]))
	}
	api := ours.Replace("127.0.0.1:8080")
	p.enqueuers = []*server{{url: "http://" + api}}
	cmd := exec.Command("bash")
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "TUNDISH_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "TUNDISH_SERVER=http://"+api, "TUNDISH_LISTEN="+api, "TUNDISH_ADMIN_LISTEN=127.0.0.1:0",
		"TUNDISH_REDIS_URL=redis://"+ours.Replace("127.0.0.1:6379"), "TMPDIR="+p.dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		p.Fatal(err)
	}
	p.in, p.shell = in, launch(p, "bash", cmd)
	p.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // gone already is fine
	p.give("set -eu -o pipefail; trap 'kill -KILL 0' EXIT")
}

func (p *page) give(commands string) {
	p.Helper()
	if _, err := io.WriteString(p.in, commands+"\n"); err != nil {
		p.Fatal(err)
	}
}

// block runs the next block of the page; each of its commands must succeed. It
// answers what was printed in its time, also by what runs in the background.
func (p *page) block() string {
	p.Helper()
	if p.next == len(p.blocks) {
		p.Fatal("the page has no further block")
	}
	before, done := len(p.shell.log()), fmt.Sprintf("block %d is done", p.next+1)
	p.give("{\n" + p.blocks[p.next] + "\n} < /dev/null\necho " + done)
	p.next++
	p.shell.said(p, regexp.MustCompile("^"+done+"$"))
	return p.shell.log()[before:]
}

// last runs the last block, after which nothing of the page runs any longer.
func (p *page) last() string {
	p.Helper()
	if p.next != len(p.blocks)-1 {
		p.Fatalf("%d blocks of %d were run", p.next, len(p.blocks)-1)
	}
	out := p.block()
	p.give(`test -z "$(jobs -p)" && echo all have ended`)
	p.shell.said(p, regexp.MustCompile("^all have ended$"))
	return out
}
