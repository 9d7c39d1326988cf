package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	_ "tundish/internal/app" // what the programs are made of: a change of it makes cached results old
	"tundish/internal/redistest"
)

// binDir is where the programs are built, once, by the first test that needs one.
var binDir string

func TestMain(m *testing.M) {
	if url := os.Getenv(bareClientTo); url != "" {
		os.Exit(bareClient(url))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binDir = dir
	if code := m.Run(); code != 0 {
		return code
	}
	return redistest.Leaks()
}

var build = sync.OnceValue(func() error {
	for _, main := range []string{"enqueuer", "worker", "tundish"} { // looked at for the same reason: a main cannot be imported
		if _, err := os.ReadFile(filepath.Join("..", "..", "cmd", main, "main.go")); err != nil {
			return err
		}
	}
	args := append([]string{"build", "-o", binDir + string(filepath.Separator)}, buildFlags...)
	out, err := exec.Command("go", append(args, "tundish/cmd/enqueuer", "tundish/cmd/worker", "tundish/cmd/tundish")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	return nil
})

// program is the path of one of the programs.
func program(t testing.TB, name string) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(binDir, name)
}
