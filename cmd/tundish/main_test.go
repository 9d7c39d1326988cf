package main

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"tundish/internal/redistest"
)

// asProgram makes the test program the command itself.
const asProgram = "TUNDISH_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	redistest.Main(m)
}

// demoProcess runs the demo in a process of its own and reads its first line.
func demoProcess(t *testing.T, args ...string) (cmd *exec.Cmd, stdout *os.File, stderr *bytes.Buffer, folder string) {
	t.Helper()
	folder = t.TempDir()
	cmd = exec.CommandContext(t.Context(), os.Args[0], append([]string{"demo", "--jobs", "5000"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+folder)
	stderr = &bytes.Buffer{}
	cmd.Stderr = stderr
	stdout, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdout.Close() })
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	if line, err := bufio.NewReaderSize(stdout, 16).ReadString('\n'); err != nil || !strings.HasPrefix(line, "A bank") {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd, stdout, stderr, folder
}

func exitOf(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	err := cmd.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatalf("ended with %v", err)
	}
	return exit.ExitCode()
}

func left(t *testing.T, folder string) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// When nobody reads any longer (demo | head -1), the demo ends, without a word, and leaves nothing.
func TestDemoWithoutAReader(t *testing.T) {
	t.Parallel()
	cmd, stdout, stderr, folder := demoProcess(t)
	_ = stdout.Close()
	if code := exitOf(t, cmd); code != failed || stderr.Len() > 0 || len(left(t, folder)) > 0 {
		t.Errorf("exit %d, stderr %q, left %v", code, stderr, left(t, folder))
	}
}

// Ctrl-C ends it cleanly, with what was delivered until then.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	cmd, stdout, stderr, folder := demoProcess(t)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var rest bytes.Buffer
	if _, err := rest.ReadFrom(stdout); err != nil {
		t.Fatal(err)
	}
	if code := exitOf(t, cmd); code != failed || stderr.String() != "tundish: interrupted\n" || len(left(t, folder)) > 0 {
		t.Errorf("exit %d, stderr %q, left %v", code, stderr, left(t, folder))
	}
	if !strings.Contains(rest.String(), "stopped: ") {
		t.Errorf("stdout %q", rest.String())
	}
}
