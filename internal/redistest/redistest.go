// Package redistest gives tests a real Redis: one server per test package,
// servers of their own for tests that kill, stop or flush, and miniredis for
// time travel. It is imported by tests only.
//
// A package that uses it has one line in its TestMain:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
package redistest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"
)

// shared is a server that all tests of a package use. It starts when the
// first test asks, and stops in Main.
type shared struct {
	opts  []Option
	mu    sync.Mutex
	ready bool // Main will stop what is started
	srv   *Server
	err   error
}

var (
	plain      shared
	cluster    = shared{opts: []Option{WithCluster()}}
	namespaces atomic.Uint64
)

// Main runs the tests of a package, stops the shared servers, and fails when
// goroutines are left. It does not return.
func Main(m *testing.M, opts ...goleak.Option) {
	os.Exit(run(m, opts...))
}

func run(m *testing.M, opts ...goleak.Option) int {
	all := []*shared{&plain, &cluster}
	for _, s := range all {
		s.allow()
	}
	code := m.Run()
	for _, s := range all {
		s.stop()
	}
	if code != 0 {
		return code
	}
	return Leaks(opts...)
}

// Leaks is the exit code of tests that have passed: 1, and it says which, when
// goroutines are left.
func Leaks(opts ...goleak.Option) int {
	// toxiproxy leaves a pipe behind that was full when its link was cut.
	opts = append(opts, goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"))
	if err := goleak.Find(opts...); err != nil {
		fmt.Fprintf(os.Stderr, "goroutines were left: %v\n", err)
		return 1
	}
	return 0
}

// Shared is the server of the test package. Tests keep apart by Namespace;
// one that kills, stops or flushes needs its own from Start.
func Shared(t testing.TB) *Server { return plain.get(t) }

// SharedCluster is a one-node cluster with all slots, shared by the tests of
// the package. Its start takes two seconds: Redis holds a new master back.
func SharedCluster(t testing.TB) *Server { return cluster.get(t) }

// Namespace is a name that no other test of the package has.
func Namespace(testing.TB) string {
	return fmt.Sprintf("t%d", namespaces.Add(1))
}

// Mini is a miniredis of the test's own, whose clock the test may set.
func Mini(t testing.TB) *miniredis.Miniredis { return miniredis.RunT(t) }

// MiniURL is the URL of a miniredis.
func MiniURL(m *miniredis.Miniredis) string { return "redis://" + m.Addr() + "/0" }

func (s *shared) allow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
}

func (s *shared) get(t testing.TB) *Server {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		t.Fatal("the package needs: func TestMain(m *testing.M) { redistest.Main(m) }")
	}
	if s.srv == nil && s.err == nil {
		s.srv, s.err = startShared(s.opts)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.srv
}

func startShared(opts []Option) (*Server, error) {
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, err
	}
	srv, err := start(dir, opts)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	srv.shared = true
	return srv, nil
}

func (s *shared) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = false
	if s.srv == nil {
		return
	}
	s.srv.proc.kill()
	if err := os.RemoveAll(s.srv.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	s.srv = nil
}
