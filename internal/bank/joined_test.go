package bank

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestARunIsJudgedFromItsLogs goes the whole way: requests over HTTP, a write
// log of each of two workers, the bank's stamps as another process reads them.
func TestARunIsJudgedFromItsLogs(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Rate: 1_000_000, Per: time.Second, Refuse: true, Script: func(n int, _ *http.Request) *Answer {
		if n == 5 {
			return &Answer{Status: 500}
		}
		return nil
	}})
	var paths []string
	for worker := range 2 {
		path := filepath.Join(t.TempDir(), "writes.log")
		paths = append(paths, path)
		l, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			for attempt, status := 1, 500; status == 500; attempt++ {
				id := fmt.Sprintf("job-%d-%d", worker, i)
				l.Record("bank", id, 0)
				if status, _, _, err = s.send(id, attempt); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, _, body := s.call("GET", "/_bank/stamps")
	arrivals, err := ReadArrivals(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	run := Case{Rate: 1_000_000, Per: time.Second, Jobs: 40, Writes: read(t, paths...), Arrivals: arrivals}
	v := Judge(run)
	if !v.OK || v.Jobs != 40 || v.Requests != 41 || v.Written != 41 || v.Unlogged+v.Unread != 0 || v.Spread <= 0 {
		t.Errorf("verdict:\n%s%+v", v, v)
	}
	run.Rate, run.Per = 40, time.Hour
	if v := Judge(run); v.OK || v.WorstWrite != 41 || v.BoundWrite != 40 {
		t.Errorf("one too many in an hour:\n%s", v)
	}
}
