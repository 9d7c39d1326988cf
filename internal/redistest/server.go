package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Server is a redis-server process on a port of its own.
type Server struct {
	dir     string
	port    int
	args    []string // in the order given: a later one wins
	env     []string // on top of ours
	pass    string
	cluster bool
	slots   [2]int // of a cluster that this node serves, both included
	shared  bool
	proc    *process
}

// Option changes how a server is started.
type Option func(*Server)

// WithConfig adds one line of redis.conf.
func WithConfig(name string, values ...string) Option {
	return func(s *Server) { s.args = append(append(s.args, "--"+name), values...) }
}

// WithAOF makes every write durable before it is answered, so that a killed
// server comes back with all of them.
func WithAOF() Option {
	return func(s *Server) { s.args = append(s.args, "--appendonly", "yes", "--appendfsync", "always") }
}

// WithDebug lets the test send DEBUG commands, as Sleep does.
func WithDebug() Option { return WithConfig("enable-debug-command", "local") }

// WithPassword makes clients name a password; URL leaves it out.
func WithPassword(pass string) Option {
	return func(s *Server) {
		s.pass = pass
		s.args = append(s.args, "--requirepass", pass)
	}
}

// WithCluster makes a cluster of this one node, with all slots assigned.
func WithCluster() Option {
	return func(s *Server) {
		s.cluster, s.slots = true, [2]int{0, lastSlot}
		s.args = append(s.args, "--cluster-enabled", "yes")
	}
}

const lastSlot = 16383

// Start starts a server for this test alone; it is killed at the test's end.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := start(t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.proc.kill() })
	return s
}

const installHint = "redis-server is not installed; tests need it: sudo apt-get install -y redis-server"

func start(dir string, opts []Option) (*Server, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, errors.New(installHint)
	}
	s := &Server{dir: dir}
	for _, o := range opts {
		o(s)
	}
	if err := s.launchOnFreePort(); err != nil {
		return nil, err
	}
	if !s.cluster {
		return s, nil
	}
	if err := s.assignSlots(); err != nil {
		s.proc.kill()
		return nil, err
	}
	return s, nil
}

// launchOnFreePort tries again where another process took the port between
// our look and the server's bind.
func (s *Server) launchOnFreePort() error {
	var err error
	for range 10 {
		if s.port, err = freePort(); err != nil {
			continue
		}
		err = s.launch()
		if err == nil || !strings.Contains(err.Error(), "ddress already in use") {
			return err
		}
	}
	return err
}

// freePort finds a port outside the range from which the kernel gives ports
// to clients, so that the port is still free when the server is restarted.
func freePort() (int, error) {
	port := 10000 + rand.IntN(22000)
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return 0, err
	}
	return port, l.Close()
}

func (s *Server) launch() error {
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--daemonize", "no", "--save", "", "--appendonly", "no",
	}
	if s.cluster {
		args = append(args, "--cluster-port", strconv.Itoa(s.port+20000))
	}
	p, err := spawn("redis-server", append(args, s.args...), s.env...)
	if err != nil {
		return err
	}
	err = p.waitFor("Ready to accept connections")
	if err == nil {
		err = s.ping()
	}
	if err != nil {
		p.kill()
		return err
	}
	s.proc = p
	return nil
}

func (s *Server) ping() error {
	o := s.options()
	o.MaxRetries, o.DialerRetries = -1, 1
	c := redis.NewClient(o)
	defer c.Close()
	return c.Ping(context.Background()).Err()
}

func (s *Server) assignSlots() error {
	c := redis.NewClient(s.options())
	defer c.Close()
	if err := c.ClusterAddSlotsRange(context.Background(), s.slots[0], s.slots[1]).Err(); err != nil {
		return err
	}
	return s.proc.waitFor("Cluster state changed: ok")
}

// Addr is host:port.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// URL is the address of the server as users write it. One host is a plain
// client; ClusterURL asks for a cluster client.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// ClusterURL names the one node of a cluster twice: several hosts are a cluster.
func (s *Server) ClusterURL() string { return "redis://" + s.Addr() + "," + s.Addr() + "/" }

// Client opens a client that is closed at the test's end: a cluster client
// when the server is a cluster.
func (s *Server) Client(t testing.TB) redis.UniversalClient {
	t.Helper()
	c := s.open()
	t.Cleanup(func() { _ = c.Close() }) // it may be closed already
	return c
}

func (s *Server) options() *redis.Options {
	return &redis.Options{
		Addr: s.Addr(), Password: s.pass, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func (s *Server) open() redis.UniversalClient {
	if !s.cluster {
		return redis.NewClient(s.options())
	}
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{s.Addr()}, Password: s.pass, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// Kill ends the server at once (SIGKILL) and waits until it is gone.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.own(t)
	s.proc.kill()
}

// Stop freezes the server (SIGSTOP): connections stay, answers do not come.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.own(t)
	if err := s.proc.stop(); err != nil {
		t.Fatal(err)
	}
}

// Sleep makes the server execute nothing for that long and returns when it is
// over: unlike after Stop, its own clock and timers see the whole time pass in
// one command. The server needs WithDebug.
func (s *Server) Sleep(t testing.TB, d time.Duration) {
	t.Helper()
	s.own(t)
	o := s.options()
	o.MaxRetries, o.ReadTimeout = -1, d+10*time.Second
	c := redis.NewClient(o)
	defer c.Close()
	if err := c.Do(context.Background(), "DEBUG", "SLEEP", strconv.FormatFloat(d.Seconds(), 'f', 3, 64)).Err(); err != nil {
		t.Fatal(fmt.Errorf("debug sleep: %w", err))
	}
}

// Cont lets a frozen server go on (SIGCONT).
func (s *Server) Cont(t testing.TB) {
	t.Helper()
	s.own(t)
	if err := s.proc.cont(); err != nil {
		t.Fatal(err)
	}
}

// Restart kills the server if it runs and starts it again on the same port
// and folder: with WithAOF its data are there again, otherwise it is empty.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.own(t)
	s.proc.kill()
	if err := s.launch(); err != nil {
		t.Fatal(err)
	}
	if !s.cluster {
		return
	}
	if err := s.proc.waitFor("Cluster state changed: ok"); err != nil {
		t.Fatal(err)
	}
}

// Config sets one parameter of the running server.
func (s *Server) Config(t testing.TB, name, value string) {
	t.Helper()
	s.own(t)
	if err := s.Client(t).ConfigSet(context.Background(), name, value).Err(); err != nil {
		t.Fatal(fmt.Errorf("config set %s: %w", name, err))
	}
}

// Dir is the folder in which the server keeps its data.
func (s *Server) Dir() string { return s.dir }

// PID is the process id of the server.
func (s *Server) PID() int { return s.proc.cmd.Process.Pid }

func (s *Server) own(t testing.TB) {
	t.Helper()
	if s.shared {
		t.Fatal("the shared server is everybody's: use redistest.Start")
	}
}

// WaitForLog waits until the log of the server, as started last, has said text.
func (s *Server) WaitForLog(t testing.TB, text string) {
	t.Helper()
	if err := s.proc.waitFor(text); err != nil {
		t.Fatal(err)
	}
}
