package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// lane is the batch call of the API with a queue behind it that drains as its
// clock goes.
type lane struct {
	t        *testing.T
	clock    *clock
	capacity int           // 0: without bound
	every    time.Duration // a place becomes free
	// before may answer call n (from 1) itself; the jobs are then not looked at.
	before func(n int, w http.ResponseWriter, r *http.Request) (answered bool)
	// lose hangs up after call n was carried out.
	lose func(n int) bool
	// verdict may decide about a job itself.
	verdict func(doc map[string]any) *result

	mu    sync.Mutex
	start time.Time
	calls int
	sizes []int             // jobs of each call
	ids   map[string]string // key → id
	order []string          // keys in the order in which their jobs were taken
	docs  []map[string]any  // jobs taken
	asked []string          // keys of all jobs of all calls
}

func (l *lane) serve(t *testing.T) *fakeAPI {
	t.Helper()
	l.t, l.ids = t, map[string]string{}
	if l.clock == nil {
		l.clock = newClock()
	}
	l.start = l.clock.now()
	return newFakeAPI(t, map[string]http.HandlerFunc{"POST /v1/destinations/bank/jobs/batch": l.batch})
}

func (l *lane) batch(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.before != nil && l.before(l.calls, w, r) {
		return
	}
	if kind := r.Header.Get("Content-Type"); kind != typeNDJSON {
		l.t.Errorf("Content-Type %q", kind)
	}
	body, _ := io.ReadAll(r.Body)
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	l.sizes = append(l.sizes, len(lines))
	results := make([]result, len(lines))
	refused := 0
	for i, line := range lines {
		if results[i] = l.take(line); results[i].Status == http.StatusTooManyRequests {
			results[i].RetryAfterMS = l.free(refused).Milliseconds()
			refused++
		}
	}
	if l.lose != nil && l.lose(l.calls) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", typeJSON)
	_ = json.NewEncoder(w).Encode(map[string]any{"results": results})
}

// free is when the place after n others becomes free.
func (l *lane) free(n int) time.Duration {
	drained := l.clock.now().Sub(l.start)
	return l.every*time.Duration(n+1) - drained%l.every
}

func (l *lane) take(line []byte) result {
	var doc map[string]any
	if err := json.Unmarshal(line, &doc); err != nil {
		return result{Status: http.StatusBadRequest, Code: "malformed", Detail: "the body is not JSON"}
	}
	key, _ := doc["idempotency_key"].(string)
	l.asked = append(l.asked, key)
	if key == "" {
		l.t.Errorf("job without a key: %s", line)
	}
	yes, no := true, false
	if id, ok := l.ids[key]; ok {
		return result{Status: http.StatusAccepted, ID: id, State: "ready", Replayed: &yes}
	}
	if l.verdict != nil {
		if r := l.verdict(doc); r != nil {
			return *r
		}
	}
	if l.capacity > 0 && len(l.ids)-int(l.clock.now().Sub(l.start)/l.every) >= l.capacity {
		return result{Status: http.StatusTooManyRequests, Code: "queue_full"}
	}
	l.ids[key] = fmt.Sprintf("id-%d", len(l.ids)+1)
	l.order = append(l.order, key)
	l.docs = append(l.docs, doc)
	return result{Status: http.StatusAccepted, ID: l.ids[key], State: "ready", Replayed: &no}
}

// numbered makes n jobs, one a line.
func numbered(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, `{"body":{"n":%d}}`+"\n", i)
	}
	return b.String()
}

// inOrder fails the test unless the lane took the numbered jobs 1 to n, each
// once and in their order.
func (l *lane) inOrder(n int) {
	l.t.Helper()
	if len(l.docs) != n {
		l.t.Fatalf("%d jobs were taken, want %d", len(l.docs), n)
	}
	for i, doc := range l.docs {
		if got := fmt.Sprint(doc["body"]); got != fmt.Sprintf("map[n:%d]", i+1) {
			l.t.Fatalf("job %d is %s: not in the order of the file", i+1, got)
		}
	}
}
