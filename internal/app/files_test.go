package app

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/destination"
	"tundish/internal/redistest"
)

// The metric says whether the file is in force as it stands, all of it.
func TestFileOfWhichAPartIsNotInForce(t *testing.T) {
	t.Parallel()
	shared := common(t, redistest.Shared(t).URL())
	path := filepath.Join(t.TempDir(), "d.yaml")
	bank := strings.ReplaceAll(bankFile, "%RATE%", "50")
	write(t, path, "set: payments\nrevision: 7\n"+bank)
	newEnqueuer := func(destinations string) *Enqueuer {
		c := enqueuerConfig(shared)
		c.Destinations = destinations
		return startEnqueuer(t, c)
	}
	newEnqueuer(path)
	for name, c := range map[string]struct {
		head string
		good int
	}{
		"the same":          {"set: payments\nrevision: 7\n", 1},
		"an older revision": {"set: payments\nrevision: 6\n", 0},
		"another set":       {"set: mails\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := filepath.Join(t.TempDir(), "d.yaml")
			write(t, other, c.head+bank)
			e := newEnqueuer(other)
			if got := reloaded(t, e); got != c.good {
				t.Errorf("%d, want %d", got, c.good)
			}
			write(t, other, "set: others\ndestinations: []\n")
			eventually(t, "a file that is in force", func() bool { return reloaded(t, e) == 1 })
		})
	}
}

func reloaded(t *testing.T, e *Enqueuer) int {
	t.Helper()
	_, body := get(t, "http://"+e.AdminAddr()+"/metrics")
	for good, text := range []string{"0", "1"} {
		if strings.Contains(body, `tundish_config_last_reload_successful{file="destinations"} `+text) {
			return good
		}
	}
	return -1
}

// What others own is tried again later, for they may have let it go: not each
// second, and it is told all the while.
func TestWhatIsNotInForceIsTriedAgain(t *testing.T) {
	t.Parallel()
	shared := common(t, redistest.Shared(t).URL())
	c := enqueuerConfig(shared)
	c.Destinations = bankAt50(t)
	first := startEnqueuer(t, c)

	other := filepath.Join(t.TempDir(), "d.yaml")
	write(t, other, "set: mails\n"+strings.ReplaceAll(bankFile, "%RATE%", "9"))
	file, err := destination.ParsePath(other)
	if err != nil {
		t.Fatal(err)
	}
	f := newFiles(other, file, first.store, quiet(), newReloads(prometheus.NewRegistry()))
	if err := f.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.stop() // from here the test looks
	look := func(inForce bool) {
		t.Helper()
		if err := f.look(t.Context()); (err == nil) != inForce {
			t.Errorf("in force: %v, want %v", err, inForce)
		}
	}
	look(false)
	if rate, _ := destinationRate(t, first.Addr()); rate != 50 {
		t.Fatalf("rate %v", rate)
	}
	remove(t, "http://"+first.Addr()+"/v1/destinations/bank?set=default")
	look(false) // not yet
	f.again = time.Now()
	look(true)
	if rate, _ := destinationRate(t, first.Addr()); rate != 9 {
		t.Errorf("rate %v, want that of the second file", rate)
	}
	look(true)

	// So it is with what the file owns and somebody deleted.
	remove(t, "http://"+first.Addr()+"/v1/destinations/bank?set=mails")
	f.again = time.Now()
	look(true)
	if rate, _ := destinationRate(t, first.Addr()); rate != 9 {
		t.Errorf("rate %v, want that of the second file again", rate)
	}
}

func remove(t *testing.T, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", url, resp.Status)
	}
}
