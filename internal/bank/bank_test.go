package bank

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tundish/internal/job"
)

func TestStampsLieBetweenSendingAndAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Rate: 1000, Per: time.Second})
	type span struct{ sent, answered int64 }
	var spans []span
	for i := range 50 { // on one kept connection
		sent := Monotonic()
		if status, _, _, err := s.send(fmt.Sprint(i), i+1); status != 200 || err != nil {
			t.Fatalf("request %d: %d, %v", i, status, err)
		}
		spans = append(spans, span{sent, Monotonic()})
	}
	arrivals, _ := s.Arrivals()
	if len(arrivals) != len(spans) {
		t.Fatalf("%d arrivals, want %d", len(arrivals), len(spans))
	}
	for i, a := range arrivals {
		if a.At < spans[i].sent || a.At > spans[i].answered {
			t.Errorf("request %d: stamp %d outside %v", i, a.At, spans[i])
		}
		want := Arrival{Job: fmt.Sprint(i), Key: fmt.Sprint("key-", i), At: a.At, Attempt: i + 1, Status: 200}
		if a != want {
			t.Errorf("arrival %d = %+v, want %+v", i, a, want)
		}
	}
}

func TestRefusesWhatIsAboveTheRate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config Config
		want   int
	}{
		"with the default spread": {Config{Rate: 5, Per: time.Hour, Refuse: true}, 6},
		"without spread":          {Config{Rate: 5, Per: time.Hour, Refuse: true, Spread: NoSpread}, 5},
		"with a burst":            {Config{Rate: 5, Per: time.Hour, Refuse: true, Spread: NoSpread, Burst: 3}, 7},
		"only counting":           {Config{Rate: 5, Per: time.Hour}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, c.config)
			accepted := 0
			for i := range 10 {
				status, header, body, err := s.send(fmt.Sprint(i), 1)
				switch {
				case err != nil:
					t.Fatal(err)
				case status == 200:
					accepted++
				case status != 429 || !strings.Contains(body, "above the rate"):
					t.Errorf("request %d: %d %s", i, status, body)
				default:
					if wait, _ := strconv.Atoi(header.Get("Retry-After")); wait < 3500 || wait > 3600 {
						t.Errorf("Retry-After = %q, want almost an hour", header.Get("Retry-After"))
					}
				}
			}
			if accepted != c.want {
				t.Errorf("%d accepted, want %d", accepted, c.want)
			}
			r := s.Report()
			if r.Accepted != c.want || r.Worst != 10 || r.Requests != 10 || r.OK {
				t.Errorf("report = %+v", r)
			}
		})
	}
}

func TestAnswersConcurrently(t *testing.T) {
	t.Parallel()
	const callers = 30
	var all sync.WaitGroup // every handler waits for every other
	all.Add(callers)
	s := open(t, Config{Rate: 1000, Per: time.Second, Script: func(int, *http.Request) *Answer {
		all.Done()
		all.Wait()
		return nil
	}})
	var callersDone sync.WaitGroup
	for i := range callers {
		callersDone.Go(func() {
			if status, _, _, err := s.send(fmt.Sprint(i), 1); status != 200 || err != nil {
				t.Errorf("caller %d: %d, %v", i, status, err)
			}
		})
	}
	callersDone.Wait()
	if r := s.Report(); r.Requests != callers || r.Jobs != callers || r.Duplicates != 0 {
		t.Errorf("report = %+v", r)
	}
}

func TestScript(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Rate: 1, Per: time.Hour, Spread: NoSpread, Refuse: true, Script: func(n int, r *http.Request) *Answer {
		switch n {
		case 1:
			return &Answer{Status: 503, Header: http.Header{"retry-after": {"7"}}, Body: "later"}
		case 2:
			return &Answer{HangUp: true}
		case 3: // the bank decides, and has a place: what a script answers takes none
			return &Answer{Header: http.Header{"X-Ref": {r.Header.Get("Tundish-Job-Id")}}}
		}
		return nil
	}})
	status, header, body, err := s.send("a", 1)
	if status != 503 || header.Get("Retry-After") != "7" || body != "later" || err != nil {
		t.Errorf("first: %d %v %q %v", status, header, body, err)
	}
	if status, _, _, err = s.send("a", 2); err == nil {
		t.Errorf("second: answered %d, want a broken connection", status)
	}
	if status, header, _, err = s.send("a", 3); status != 200 || header.Get("X-Ref") != "a" || err != nil {
		t.Errorf("third: %d %v %v", status, header, err)
	}
	if status, _, _, err = s.send("b", 1); status != 429 || err != nil {
		t.Errorf("fourth: %d %v, want 429 by default", status, err)
	}
	arrivals, _ := s.Arrivals()
	var got []int
	for _, a := range arrivals {
		got = append(got, a.Status)
	}
	if fmt.Sprint(got) != "[503 0 200 429]" {
		t.Errorf("statuses = %v", got)
	}
}

func TestAdminPages(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Rate: 1000, Per: time.Second})
	for range 2 {
		if _, _, _, err := s.send("a", 1); err != nil {
			t.Fatal(err)
		}
	}
	_, _, body := s.call("GET", "/_bank/report")
	var report Report
	if err := json.Unmarshal([]byte(body), &report); err != nil {
		t.Fatal(err)
	}
	if report.Requests != 2 || report.Duplicates != 1 || report.Jobs != 1 || report.Statuses[200] != 2 || report.OK {
		t.Errorf("report = %+v", report)
	}
	if text := report.String(); !strings.Contains(text, "NOT within") || !strings.Contains(text, "1 twice") {
		t.Errorf("report reads:\n%s", text)
	}
	_, header, body := s.call("GET", "/_bank/stamps")
	arrivals, err := ReadArrivals(strings.NewReader(body))
	want, _ := s.Arrivals()
	if err != nil || fmt.Sprint(arrivals) != fmt.Sprint(want) || header.Get("Tundish-Bank-Forgotten") != "0" {
		t.Errorf("stamps = %v, %v, want %v", arrivals, err, want)
	}
	if status, _, _ := s.call("POST", "/_bank/reset"); status != 204 {
		t.Errorf("reset: %d", status)
	}
	if r := s.Report(); r.Requests != 0 || r.Worst != 0 {
		t.Errorf("after reset: %+v", r)
	}
	if status, _, _ := s.call("GET", "/_bank/reset"); status != 405 {
		t.Errorf("GET reset: %d, want 405", status)
	}
	if r := s.Report(); r.Requests != 0 {
		t.Errorf("the bank's own pages count as requests: %+v", r)
	}
}

func TestReadArrivalsSaysWhichEntryIsBroken(t *testing.T) {
	t.Parallel()
	arrivals, err := ReadArrivals(strings.NewReader("{\"job\":\"a\",\"at_ns\":1}\n{\"job\":"))
	if len(arrivals) != 1 || err == nil || !strings.Contains(err.Error(), "entry 2") {
		t.Errorf("ReadArrivals = %v, %v", arrivals, err)
	}
}

func TestABankThatForgotIsNoProof(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Rate: 1000, Per: time.Second, Keep: 8})
	for i := range 10 {
		if _, _, _, err := s.send(fmt.Sprint(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.Report(); r.Forgotten != 2 || r.Requests != 8 || r.OK || !strings.Contains(r.String(), "2 older") {
		t.Errorf("report = %+v", r)
	}
}

func TestStoppingDoesNotWaitForSlowAnswers(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	s := open(t, Config{Rate: 10, Per: time.Second, Script: func(int, *http.Request) *Answer {
		close(arrived)
		return &Answer{Delay: time.Hour}
	}})
	answered := make(chan int, 1)
	go func() {
		status, _, _, _ := s.send("a", 1)
		answered <- status
	}()
	<-arrived
	s.stop()
	s.Wait()
	if status := <-answered; status != 200 {
		t.Errorf("the answer under way: %d, want 200 at once", status)
	}
}

func TestServeNeedsAnAddress(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Rate: 1, Per: time.Second})
	if _, err := s.Serve(t.Context(), strings.TrimPrefix(s.url, "http://")); err == nil {
		t.Error("two banks serve at one address")
	}
}

func TestNewNamesEveryBadField(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Rate: 0, Per: 0, Burst: -1, Spread: time.Second, Latency: -1, Keep: -1})
	problem, ok := errors.AsType[*job.Error](err)
	if !ok || problem.Code != job.CodeInvalid {
		t.Fatalf("New = %v", err)
	}
	var got []string
	for _, f := range problem.Fields {
		got = append(got, f.Pointer)
	}
	if want := "[/rate /per /burst /spread /latency /keep]"; fmt.Sprint(got) != want {
		t.Errorf("fields = %v, want %s", got, want)
	}
	if _, err := New(Config{Rate: 50, Per: time.Second}); err != nil {
		t.Errorf("New with defaults: %v", err)
	}
}
