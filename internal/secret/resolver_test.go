package secret

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tundish/internal/destination"
)

const variable = "SECRET_TEST_VARIABLE"

func TestMain(m *testing.M) {
	_ = os.Setenv(variable, "s3cret")
	_ = os.Setenv(variable+"_EMPTY", "")
	goleak.VerifyTestMain(m)
}

// write makes a file whose time differs from all that was written before.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write(t, path("plain"), "s3cret")
	write(t, path("newline"), "s3cret\n")
	write(t, path("windows"), "s3cret\r\n")
	write(t, path("two"), "s3cret\n\n")
	write(t, path("empty"), "\n")
	write(t, path("large"), strings.Repeat("s3cret", 20_000))
	write(t, path("own"), "s3cret")
	if err := os.Symlink(path("own"), path("link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := testKeys(t, "a")
	c := &destination.Contract{Name: "bank", Sealed: map[string]string{"good": keys.Seal("bank", "good", "s3cret"), "moved": keys.Seal("shop", "moved", "s3cret"),
		"other": testKeys(t, "b").Seal("bank", "other", "s3cret"), "bad": "x"}}
	r := NewResolver(keys, path("own"))
	for ref, want := range map[destination.Reference]string{
		{Kind: "env", Name: variable}:              "=s3cret",
		{Kind: "env", Name: variable + "_EMPTY"}:   "it is empty",
		{Kind: "env", Name: variable + "_MISSING"}: "the variable is not set",
		{Kind: "file", Name: path("plain")}:        "=s3cret",
		{Kind: "file", Name: path("newline")}:      "=s3cret",
		{Kind: "file", Name: path("windows")}:      "=s3cret",
		{Kind: "file", Name: path("two")}:          "=s3cret\n",
		{Kind: "file", Name: path("empty")}:        "it is empty",
		{Kind: "file", Name: path("large")}:        "larger than 64KiB",
		{Kind: "file", Name: path("missing")}:      "there is no such file",
		{Kind: "file", Name: dir}:                  "it is no file",
		{Kind: "file", Name: path("plain") + "/x"}: "cannot be read",
		{Kind: "file", Name: path("own")}:          "secrets of Tundish itself",
		{Kind: "file", Name: path("link")}:         "secrets of Tundish itself",
		{Kind: "secret", Name: "good"}:             "=s3cret",
		{Kind: "secret", Name: "missing"}:          "it was not given",
		{Kind: "secret", Name: "moved"}:            "sealed for another place",
		{Kind: "secret", Name: "other"}:            `the key "b", which this process was not given`,
		{Kind: "secret", Name: "bad"}:              "damaged",
		{Kind: "vault", Name: "x"}:                 "no such kind",
		{Kind: "file", Name: path("pipe")}:         "it is no file",
	} {
		got, err := r.Value(c, ref)
		if value, good := strings.CutPrefix(want, "="); good {
			if got != value || err != nil {
				t.Errorf("%s: %q, %v, want %q", ref, got, err, value)
			}
			continue
		}
		if got != "" || err == nil || !strings.HasPrefix(err.Error(), ref.String()+": ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %q, %v, want %q", ref, got, err, want)
		}
	}
	if _, err := NewResolver(nil).Value(c, destination.Reference{Kind: "secret", Name: "good"}); err == nil || !strings.Contains(err.Error(), "--seal-keys") {
		t.Errorf("without keys: %v", err)
	}
}

// What the kernel shows as files tells of the process, its settings among it: the
// variables that no reference may name.
func TestFilesOfTheKernelAreNoSecrets(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shows a process's variables as a file")
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/proc/self/environ", link); err != nil {
		t.Fatal(err)
	}
	r := NewResolver(nil)
	for _, path := range []string{"/proc/self/environ", "/proc/self/cmdline", "/proc/thread-self/environ", "/proc/1/cmdline", "/proc/self/root/proc/self/cmdline", "/sys/kernel/mm/transparent_hugepage/enabled", link} {
		if _, err := os.ReadFile(path); err != nil {
			continue // this machine does not show it
		}
		if got, err := r.Value(&destination.Contract{}, destination.Reference{Kind: "file", Name: path}); got != "" || err == nil || !strings.Contains(err.Error(), "of the kernel") {
			t.Errorf("%s gives %d bytes, %v", path, len(got), err)
		}
	}
}

// looks reads a file at moments that the test chooses.
type looks struct {
	t    *testing.T
	file *file
	now  time.Time
}

func (l *looks) after(d time.Duration, want string) {
	l.t.Helper()
	l.now = l.now.Add(d)
	got, err := l.file.read(l.now)
	if got != want || (err == nil) != (want != "") {
		l.t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// write changes the file d from now.
func (l *looks) write(d time.Duration, text string) {
	l.t.Helper()
	write(l.t, l.file.path, text)
	if at := l.now.Add(d); os.Chtimes(l.file.path, at, at) != nil {
		l.t.Fatal("the file's time cannot be set")
	}
}

// Whoever rests for longer than a change takes must not begin with the old secret:
// of the single request that probes a destination nothing else would be learnt.
func TestFileThatChangedWhileNobodyLookedIsReadAtOnce(t *testing.T) {
	t.Parallel()
	l := &looks{t, &file{path: filepath.Join(t.TempDir(), "f")}, time.Now()}
	l.write(0, "old")
	l.after(0, "old")
	l.write(time.Minute, "new")
	l.after(time.Minute+lookEvery, "new")
}

func TestFileIsReadAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	l := &looks{t, &file{path: path}, time.Now()}
	l.after(0, "")
	write(t, path, "one\n")
	l.after(lookEvery-1, "") // it was looked at a moment ago
	l.after(1, "one")
	l.write(lookEvery, "three\n")
	l.after(lookEvery, "one") // it may be half written
	l.after(standStill, "three")
	l.after(lookEvery, "three")
	l.write(lookEvery, "")
	l.after(lookEvery, "three")
	l.write(standStill, "four\n")
	l.after(standStill, "three") // it did not stand still
	l.after(standStill, "four")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l.after(lookEvery, "four")
	l.after(standStill, "")
	write(t, path, "five")
	l.after(lookEvery, "five")
}

// A mounted Kubernetes secret changes by one link that is swapped; the files
// behind it may be of the same size and time.
func TestSwappedLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name ...string) string { return filepath.Join(append([]string{dir}, name...)...) }
	at := time.Now().Add(-time.Hour)
	for _, version := range []string{"v1", "v2"} {
		if err := os.Mkdir(path(version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path(version, "token"), version)
		if err := os.Chtimes(path(version, "token"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to string) {
		if err := os.Symlink(to, path("new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path("new"), path("..data")); err != nil {
			t.Fatal(err)
		}
	}
	link("v1")
	if err := os.Symlink("..data/token", path("token")); err != nil {
		t.Fatal(err)
	}
	l := &looks{t, &file{path: path("token")}, time.Now()}
	l.after(0, "v1")
	link("v2")
	l.after(lookEvery, "v2") // what is behind it is older than any write under way
}
