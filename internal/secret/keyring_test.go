package secret

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tundish/internal/job"
)

func keyLine(id string) string {
	return id + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id[:1], keyBytes)))
}

func testKeys(t *testing.T, ids ...string) *Keyring {
	t.Helper()
	var text string
	for _, id := range ids {
		text += keyLine(id) + "\n"
	}
	k, err := ParseKeyring([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealAndOpen(t *testing.T) {
	t.Parallel()
	old, both := testKeys(t, "old"), testKeys(t, "new", "old")
	sealed := old.Seal("bank", "token", "s3cret")
	if !strings.HasPrefix(sealed, "old:") || sealed == old.Seal("bank", "token", "s3cret") {
		t.Errorf("sealed as %q, twice the same or under another key", sealed)
	}
	if got, err := both.Open("bank", "token", sealed); got != "s3cret" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if s := both.Seal("bank", "token", "x"); !strings.HasPrefix(s, "new:") {
		t.Errorf("sealed as %q, want the first key", s)
	}
	data, _ := base64.StdEncoding.DecodeString(sealed[4:])
	data[len(data)-1] ^= 1
	for name, open := range map[string]func() (string, error){
		"another destination": func() (string, error) { return both.Open("shop", "token", sealed) },
		"another name":        func() (string, error) { return both.Open("bank", "tokens", sealed) },
		"shifted":             func() (string, error) { return both.Open("bank\x00token", "", sealed) },
		"changed": func() (string, error) {
			return both.Open("bank", "token", "old:"+base64.StdEncoding.EncodeToString(data))
		},
		"cut": func() (string, error) {
			return both.Open("bank", "token", "old:"+base64.StdEncoding.EncodeToString(data[:8]))
		},
		"unknown key": func() (string, error) { return testKeys(t, "new").Open("bank", "token", sealed) },
		"no key":      func() (string, error) { return (*Keyring)(nil).Open("bank", "token", sealed) },
		"no base64":   func() (string, error) { return both.Open("bank", "token", "old:!") },
		"nothing":     func() (string, error) { return both.Open("bank", "token", "") },
	} {
		if got, err := open(); got != "" || err == nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestKeyringTellsAllAndNoKey(t *testing.T) {
	t.Parallel()
	const short = "c2hvcnQ="
	text := strings.Join([]string{"# comment", "", keyLine("a"), keyLine("a"), "b:" + short, "no-colon-" + short, " c d:" + short, ":" + keyLine("e")[2:]}, "\n")
	_, err := ParseKeyring([]byte(text))
	e, ok := errors.AsType[*job.Error](err)
	if !ok {
		t.Fatalf("%v", err)
	}
	var lines []int
	for _, f := range e.Fields {
		lines = append(lines, f.Line)
	}
	if len(lines) != 5 || lines[0] != 4 || lines[4] != 8 {
		t.Errorf("problems in lines %v, want 4 to 8", lines)
	}
	if strings.Contains(err.Error(), short) || strings.Contains(err.Error(), keyLine("a")[2:]) {
		t.Errorf("the error repeats a key: %v", err)
	}
	for _, empty := range []string{"", "\n# nothing\n"} {
		if _, err := ParseKeyring([]byte(empty)); err == nil {
			t.Errorf("%q is taken", empty)
		}
	}
}

func TestKeyFileMode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	write(t, path, keyLine("a"))
	for mode, good := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: true, 0o440: true, 0o644: false, 0o660: false, 0o604: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKeyring(path); (err == nil) != good {
			t.Errorf("%04o: %v", mode, err)
		}
	}
	if _, err := LoadKeyring(path + "x"); err == nil {
		t.Error("a file that is not there is taken")
	}
}
