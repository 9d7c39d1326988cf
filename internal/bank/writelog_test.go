package bank

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func logFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "writes.log")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, paths ...string) []Write {
	t.Helper()
	writes, err := ReadWriteLogs(paths...)
	if err != nil {
		t.Fatal(err)
	}
	return writes
}

func TestWriteLogKeepsEveryRecord(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 2000 // more than one buffer
	var paths []string
	begin := Monotonic()
	for process := range 2 {
		path := filepath.Join(t.TempDir(), "writes.log")
		paths = append(paths, path)
		l, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					l.Record(fmt.Sprintf("lane-%d", process), fmt.Sprintf("job-%d-%d", w, i), int64(i))
				}
			})
		}
		all.Wait()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("closed again: %v", err)
		}
	}
	end := Monotonic()
	writes := read(t, paths...)
	if len(writes) != 2*writers*each {
		t.Fatalf("%d writes, want %d", len(writes), 2*writers*each)
	}
	last, seen := begin, make(map[string]bool)
	for _, w := range writes {
		if w.At < last || w.At > end {
			t.Fatalf("stamp %d after %d, end %d", w.At, last, end)
		}
		last = w.At
		seen[w.Lane+w.Job] = true
	}
	if len(seen) != len(writes) {
		t.Errorf("%d different writes of %d", len(seen), len(writes))
	}
	if n := len(OfLane(writes, "lane-1")); n != writers*each {
		t.Errorf("lane-1 has %d writes", n)
	}
}

func TestWriteLogIsOnDiskBeforeItIsClosed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "writes.log")
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.Record("bank", "a", 7)
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for len(read(t, path)) == 0 {
		select {
		case <-look.C:
		case <-deadline.C:
			t.Fatal("nothing reached the file")
		}
	}
	if w := read(t, path)[0]; w.Lane != "bank" || w.Job != "a" || w.Slot != 7 {
		t.Errorf("read back %+v", w)
	}
}

func TestReadingTornLogs(t *testing.T) {
	t.Parallel()
	const good = "bank job1 1700 0000000000000012345\n"
	for name, c := range map[string]struct {
		content string
		want    int
		fails   string
	}{
		"empty":                      {"", 0, ""},
		"whole":                      {good + good, 2, ""},
		"torn in the lane":           {good + "ba", 1, ""},
		"torn in the stamp":          {good + "bank job2 1800 00000000000000123", 1, ""},
		"torn before the line end":   {good + strings.TrimSuffix(good, "\n"), 1, ""},
		"torn, then another run":     {good + "bank job2 1800 0000000000000\n" + good, 2, ""},
		"a name twice":               {good + "bank job 1 1800 0000000000000012345\n", 0, "line 2: 5 fields"},
		"not a slot":                 {"bank job1 x 0000000000000012345\n", 0, "line 1: slot"},
		"not a stamp":                {"bank job1 1 000000000000001234x\n", 0, "line 1: stamp"},
		"an empty line in a restart": {good + "\n" + good, 2, ""},
	} {
		writes, err := ReadWriteLogs(logFile(t, c.content))
		switch {
		case c.fails == "" && (err != nil || len(writes) != c.want):
			t.Errorf("%s: %v, %v, want %d writes", name, writes, err, c.want)
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: error %v, want %q", name, err, c.fails)
		}
	}
	if _, err := ReadWriteLogs(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing log was read")
	}
}

func TestARestartWritesBehindATornLine(t *testing.T) {
	t.Parallel()
	path := logFile(t, "bank job1 1700 0000000000000012345\nbank job2 18")
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Record("", "", -5) // nothing to name: still a line of four fields
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	writes := read(t, path)
	if len(writes) != 2 || writes[0].At != 12345 || writes[1].Lane != "-" || writes[1].Job != "-" || writes[1].Slot != -5 {
		t.Errorf("writes = %+v", writes)
	}
}

func TestWriteLogTellsOfAFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := Open(filepath.Join(t.TempDir(), "no", "folder")); err == nil {
		t.Error("a log was opened where there is no folder")
	}
	l, err := Open(filepath.Join(t.TempDir(), "writes.log"))
	if err != nil {
		t.Fatal(err)
	}
	_ = l.file.Close() // stands for a disk that takes nothing
	l.Record("bank", "a", 1)
	if err := l.Close(); err == nil {
		t.Error("Close hides that a write was not recorded")
	}
}

func TestNoWriteLogRecordsNothing(t *testing.T) {
	t.Parallel()
	var l *WriteLog
	l.Record("bank", "a", 1)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkRecord(b *testing.B) {
	l, err := Open(filepath.Join(b.TempDir(), "writes.log"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l.Record("payments", "AZGx0123456789abcdefgh", 1_700_000_000_000_000)
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}
