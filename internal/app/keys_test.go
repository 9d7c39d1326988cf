package app

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tundish/internal/redistest"
)

func keysText(keys ...string) string {
	text := "producers:\n- name: shop\n  scopes: [read]\n  destinations: ['*']\n  keys:\n"
	for _, k := range keys {
		sum := sha256.Sum256([]byte(k))
		text += "  - sha256: " + hex.EncodeToString(sum[:]) + "\n"
	}
	return text
}

// asks lists the destinations with a key.
func asks(t *testing.T, addr, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/v1/destinations", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	_ = resp.Body.Close()
	return resp.StatusCode
}

// mount lays a file out as Kubernetes mounts a ConfigMap: a link to a link to
// a folder that is swapped as a whole.
func mount(t *testing.T, folder, version, text string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(folder, version), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, version, "keys.yaml"), text)
	swap := filepath.Join(folder, "..data_tmp")
	if err := os.Symlink(version, swap); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(swap, filepath.Join(folder, "..data")); err != nil {
		t.Fatal(err)
	}
}

// A revoked key stops and a new one begins to work while the enqueuer runs; a
// broken file changes nothing and shows in a metric.
func TestKeysFileIsFollowed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "keys.yaml")
	if err := os.Symlink(filepath.Join("..data", "keys.yaml"), path); err != nil {
		t.Fatal(err)
	}
	mount(t, folder, "..1", keysText("one"))
	c := enqueuerConfig(common(t, redistest.Shared(t).URL()))
	c.Keys = path
	e := startEnqueuer(t, c)
	answers := func(one, two int) bool { return asks(t, e.Addr(), "one") == one && asks(t, e.Addr(), "two") == two }
	reload := func(want string) bool {
		_, body := get(t, "http://"+e.AdminAddr()+"/metrics")
		return strings.Contains(body, "\ntundish_config_last_reload_successful{file=\"keys\"} "+want+"\n")
	}
	if asks(t, e.Addr(), "one") != http.StatusOK || !reload("1") {
		t.Fatal("the key of the start is not in force")
	}
	mount(t, folder, "..2", keysText("one", "two"))
	eventually(t, "both keys work", func() bool { return asks(t, e.Addr(), "two") == http.StatusOK })
	if !answers(http.StatusOK, http.StatusOK) {
		t.Error("the first key ended when the second came")
	}
	mount(t, folder, "..3", "producers: [{name: shop}]\n")
	eventually(t, "the broken file shows in the metric", func() bool { return reload("0") })
	if !answers(http.StatusOK, http.StatusOK) {
		t.Error("a broken file ended keys")
	}
	mount(t, folder, "..4", keysText("two"))
	eventually(t, "the first key is revoked", func() bool { return asks(t, e.Addr(), "one") != http.StatusOK })
	if asks(t, e.Addr(), "two") != http.StatusOK || !reload("1") {
		t.Error("the second key ended with the first")
	}
}
