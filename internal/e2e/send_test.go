package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// payments is a bank's own client library: it knows a base URL and nothing of us.
type payments struct {
	base   string
	header http.Header // what its user has it send with each request
	client *http.Client
}

// answer is the bank's, of which the library reads status, headers and body.
func (p payments) call(method, path string, body []byte) (answer, error) {
	q, err := http.NewRequest(method, p.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	q.Header = p.header.Clone()
	q.Header.Set("Content-Type", "application/vnd.bank+json")
	q.Header.Set("Authorization", "Bearer of-the-bank")
	q.Header.Add("X-Trace", "b")
	q.Header.Add("X-Trace", "a")
	q.AddCookie(&http.Cookie{Name: "session", Value: "secret"})
	res, err := p.client.Do(q)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, text}, err
}

// echoBank answers with what it got: the status that a path asks for, and the body.
func echoBank(t testing.TB, got chan<- received) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body) // a torn one shows in what is kept
		got <- received{q.Method, q.RequestURI, string(body), q.Header.Clone(), q.ContentLength, len(q.TransferEncoding) > 0}
		status := http.StatusCreated
		if strings.Contains(q.URL.Path, "/refuse") {
			status = http.StatusPaymentRequired
		}
		w.Header().Set("Content-Type", "application/vnd.bank+json; v=2")
		w.Header().Set("Location", "/payouts/77")
		w.Header()["X-Part"] = []string{"2", "1"}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"got":%d}`, len(body))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// putKept makes a destination whose answers are kept.
func (r *rig) putKept(destination, url string, rate int, more string) {
	r.Helper()
	r.do(http.MethodPut, r.at(destination), fmt.Sprintf(`{"target": {"http": {"url": %q, "timeout": "2s",
		"keep_response": {"body": "4KiB", "headers": ["Content-Type", "Location", "X-Part", "Connection"]}}},
		"queue": {"max_job_bytes": "2MiB"}, "limits": [{"rate": %d, "per": "1s"}], "retry": {"max_attempts": 2, "min_backoff": "100ms", "max_backoff": "200ms"}%s}`,
		url, rate, more), http.StatusOK, http.StatusCreated)
}

func TestABanksClientSendsThroughUs(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(2)
	got := make(chan received, 64)
	bank := echoBank(t, got) + "/v1"
	r.putKept("bank", bank, 200, "")

	whole := make([]byte, 256)
	for i := range whole {
		whole[i] = byte(i)
	}
	direct := payments{bank, http.Header{}, r.client}
	through := payments{r.at("bank") + "/send", http.Header{"Prefer": {"wait=20"}, "Via": {"1.1 secret"}}, r.client}
	for _, tc := range []struct {
		method, path string
		body         []byte
	}{
		{"POST", "/payouts?mode=fast&b=2&a=1&a=%2F+", whole},
		{"PUT", "/a%2Fb/c%20d;e=f/", bytes.Repeat(whole, 4096)}, // 1 MiB
		{"POST", "/refuse", []byte(`{"amount": 1.50}`)},
		{"GET", "/payouts/77", nil},
		{"HEAD", "/payouts/77", nil},
		{"PATCH", "/payouts/77?", []byte("\n")},
		{"DELETE", "/payouts/77", nil},
		{"OPTIONS", "", nil},
	} {
		want, err := direct.call(tc.method, tc.path, tc.body)
		if err != nil {
			t.Fatal(err)
		}
		asked := <-got
		a, err := through.call(tc.method, tc.path, tc.body)
		if err != nil {
			t.Fatal(err)
		}
		passed := <-got
		if a.status != want.status || !bytes.Equal(a.body, want.body) || a.header.Get("Tundish-Response") != "kept" || a.header.Get("Tundish-Job-Id") == "" {
			t.Errorf("%s %s: %d %q %v, the bank itself %d %q", tc.method, tc.path, a.status, a.body, a.header, want.status, want.body)
		}
		for _, name := range []string{"Content-Type", "Location", "X-Part"} {
			if !slices.Equal(a.header[name], want.header[name]) {
				t.Errorf("%s %s: %s %q, the bank itself %q", tc.method, tc.path, name, a.header[name], want.header[name])
			}
		}
		checkPassed(t, asked, passed)
	}
}

// checkPassed compares a request that came through us with the one that did not; the
// length of no body need not be told.
func checkPassed(t *testing.T, asked, passed received) {
	t.Helper()
	if passed.method != asked.method || passed.uri != asked.uri || passed.body != asked.body || passed.length != asked.length || passed.chunked {
		t.Errorf("%s %s (%d bytes) came as %s %s (%d bytes, chunked %v)", asked.method, asked.uri, asked.length, passed.method, passed.uri, passed.length, passed.chunked)
	}
	ours := []string{"Idempotency-Key", "Traceparent", "Tundish-Attempt", "Tundish-Job-Id"}
	for _, name := range append([]string{"Authorization", "Cookie", "Accept-Encoding"}, ours...) {
		delete(asked.header, name)
	}
	for _, name := range ours {
		if passed.header.Get(name) == "" {
			t.Errorf("%s is missing", name)
		}
		delete(passed.header, name)
	}
	delete(asked.header, "Content-Length")
	delete(passed.header, "Content-Length")
	if fmt.Sprint(passed.header) != fmt.Sprint(asked.header) {
		t.Errorf("headers %v came as %v", asked.header, passed.header)
	}
}

func TestSendingToBanksThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(1)
	got := make(chan received, 8)
	r.put("plain", contract{URL: echoBank(t, got), Rate: 50})
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	r.putKept("silent", "http://"+silent.Addr().String(), 50, "")
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	r.putKept("gone", "http://"+gone.Addr().String(), 50, "")

	for destination, want := range map[string]int{"plain": http.StatusCreated, "silent": http.StatusGatewayTimeout, "gone": http.StatusBadGateway} {
		a, err := r.try(http.MethodPost, r.at(destination)+"/send/x", `{"a":1}`, "Prefer", "wait=20")
		if err != nil || a.status != want {
			t.Errorf("%s: %v, %d %s, want %d", destination, err, a.status, a.body, want)
			continue
		}
		if want == http.StatusCreated {
			if a.header.Get("Tundish-Response") != "status-only" || len(a.body) != 0 {
				t.Errorf("%s: %q %v", destination, a.body, a.header)
			}
			continue
		}
		p := decode[struct {
			Code, ID string
			Status   int
		}](r, a)
		if p.Code != "unavailable" || p.ID != a.header.Get("Tundish-Job-Id") || p.Status != want {
			t.Errorf("%s: %s", destination, a.body)
		}
		if j := r.job(destination, p.ID); j.State != "dead" || len(j.Attempts) != 2 {
			t.Errorf("%s: %+v", destination, j)
		}
	}
}

// Many wait at a bank whose rate makes some of them wait longer than they
// would; a repeat is told what the first was; a stop keeps nobody waiting.
func TestManyWaitForTheirJobs(t *testing.T) {
	t.Parallel()
	const callers, rate = 60, 20
	r := newRig(t, false)
	door := r.startEnqueuer()
	r.startWorkers(2)
	got := make(chan received, 2*callers)
	r.putKept("bank", echoBank(t, got), rate, "")

	answers := make([]answer, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			var err error
			answers[i], err = r.try(http.MethodPost, r.at("bank")+"/send/x", fmt.Sprint(i), "Prefer", "wait=1", "Idempotency-Key", fmt.Sprint("k", i))
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	told := map[int]int{}
	for _, a := range answers {
		told[a.status]++
	}
	if told[http.StatusCreated] < 1 || told[http.StatusAccepted] < 1 || told[http.StatusCreated]+told[http.StatusAccepted] != callers {
		t.Errorf("answers %v", told)
	}
	r.settled("bank")
	for i, a := range answers {
		again, err := r.try(http.MethodPost, r.at("bank")+"/send/x", fmt.Sprint(i), "Prefer", "wait=1", "Idempotency-Key", fmt.Sprint("k", i))
		if err != nil || again.status != http.StatusCreated || again.header.Get("Idempotent-Replayed") != "true" || again.header.Get("Tundish-Job-Id") != a.header.Get("Tundish-Job-Id") {
			t.Fatalf("repeat %d: %v, %d %v", i, err, again.status, again.header)
		}
	}
	if len(got) != callers {
		t.Errorf("%d requests for %d keys", len(got), callers)
	}

	r.pause("bank")
	held := make(chan answer, 1)
	go func() {
		a, err := r.try(http.MethodPost, r.at("bank")+"/send/x", "held", "Prefer", "wait=30")
		if err != nil {
			t.Error(err)
		}
		held <- a
	}()
	r.eventually("the held job", patience, func() bool { return r.live("bank").Depth == 1 })
	began := time.Now()
	door.signal(t, syscall.SIGTERM)
	if a := <-held; a.status != http.StatusAccepted || time.Since(began) > 5*time.Second {
		t.Errorf("after %s of the stop: %d %s", time.Since(began), a.status, a.body)
	}
	door.endedWell(t)
}

func TestCurlSendsThroughUs(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("there is no curl")
	}
	r := newRig(t, false)
	r.startEnqueuer()
	r.startWorkers(1)
	got := make(chan received, 8)
	r.putKept("bank", echoBank(t, got), 50, "")
	big := strings.Repeat("x", 1<<20) // curl asks to go on before it sends this
	cmd := exec.Command(curl, "-sS", "-H", "Prefer: wait=20", "-H", "Expect: 100-continue", "-H", "Transfer-Encoding: chunked", "--data-binary", "@-", "-w", "\n%{json}", r.at("bank")+"/send/p?x=1")
	cmd.Stdin = strings.NewReader(big)
	out, err := cmd.CombinedOutput()
	body, report, _ := strings.Cut(string(out), "\n")
	var said struct {
		Code int `json:"http_code"`
	}
	if err != nil || json.Unmarshal([]byte(report), &said) != nil || said.Code != http.StatusCreated || body != fmt.Sprintf(`{"got":%d}`, len(big)) {
		t.Fatalf("%v: %s", err, out)
	}
	if q := <-got; q.uri != "/p?x=1" || q.body != big || q.chunked || q.header.Get("Expect") != "" {
		t.Errorf("%s, %d bytes, %v", q.uri, len(q.body), q.header)
	}
}
