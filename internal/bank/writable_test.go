package bank

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWritable(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	there := filepath.Join(folder, "there")
	if err := os.WriteFile(there, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, good := range map[string]bool{
		there:                              true,
		filepath.Join(folder, "new"):       true,
		folder:                             false,
		filepath.Join(folder, "none", "x"): false,
		filepath.Join(there, "x"):          false,
		"/dev/null":                        true,
	} {
		if err := Writable(path); (err == nil) != good {
			t.Errorf("%s: %v", path, err)
		}
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "kept" {
		t.Errorf("%q, %v", text, err)
	}
	if list, err := os.ReadDir(folder); err != nil || len(list) != 1 {
		t.Errorf("left %v, %v", list, err)
	}
}
