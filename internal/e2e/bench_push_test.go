package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// bareFlag makes the test binary serve the bare handler instead of running
// tests: what a push is held against must be a process of its own as well.
const bareFlag = "serve-bare-handler"

func init() {
	if len(os.Args) == 2 && os.Args[1] == bareFlag {
		serveBare()
	}
}

// serveBare answers every request with 202 after reading its body.
func serveBare() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "bare handler on %s:\n", listener.Addr())
	err = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

var bareServes = regexp.MustCompile(`bare handler on (\S+):`)

func (r *rig) startBare() (addr string, pid int) {
	r.Helper()
	self, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	p := spawn(r, "bare handler", self, bareFlag)
	return p.said(r, bareServes)[1], p.cmd.Process.Pid
}

// caller is a connection over which requests go that were made before: what it
// costs is little beside what a server does, which is what is measured.
type caller struct {
	conn net.Conn
	in   *bufio.Reader
}

func dial(t testing.TB, addr string) *caller {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return &caller{conn, bufio.NewReaderSize(conn, 64<<10)}
}

// call sends the request and reads the whole answer.
func (c *caller) call(request []byte, want string) error {
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	status, err := c.in.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(status, "HTTP/1.1 "+want) {
		rest, _ := c.in.Peek(c.in.Buffered())
		return fmt.Errorf("answered %q, want %s: %s", status, want, rest)
	}
	length, chunked := 0, false
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= len("\r\n") {
			break
		}
		if bytes.HasPrefix(line, []byte("Content-Length: ")) {
			_, err = fmt.Sscan(string(line[len("Content-Length: "):]), &length)
		} else if bytes.HasPrefix(line, []byte("Transfer-Encoding: chunked")) {
			chunked = true
		}
		if err != nil {
			return err
		}
	}
	if chunked {
		return c.skipChunks()
	}
	_, err = c.in.Discard(length)
	return err
}

func (c *caller) skipChunks() error {
	for {
		size := 0
		if _, err := fmt.Fscanf(c.in, "%x\r\n", &size); err != nil {
			return err
		}
		if _, err := c.in.Discard(size + len("\r\n")); err != nil || size == 0 {
			return err
		}
	}
}

// pushMode is one way to push.
type pushMode struct {
	name        string
	connections int
	jobs        int // in a request
	path        string
	status      string
	body        string
	contentType string
}

// pushed is what a server did in a run: requests a second, and its processor time for each in µs.
type pushed struct{ rate, cpu []float64 }

// run asks the server of the process for as many answers as it gives over so many kept connections.
func (m *pushMode) run(t testing.TB, to *pushed, pid int, addr, path, status string, d time.Duration) {
	t.Helper()
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", path, addr, m.contentType, len(m.body), m.body)
	callers := make(chan *caller, m.connections)
	for range m.connections {
		c := dial(t, addr)
		defer c.conn.Close()
		callers <- c
	}
	round := func(d time.Duration) (int, time.Duration) {
		counts := make([]int, m.connections)
		took := among(m.connections, m.connections, func(i int) {
			c := <-callers
			for until := time.Now().Add(d); time.Now().Before(until); counts[i]++ {
				if err := c.call(request, status); err != nil {
					t.Errorf("%s: %v", m.name, err)
					return
				}
			}
			callers <- c
		})
		sum := 0
		for _, n := range counts {
			sum += n
		}
		return sum, took
	}
	round(d / 10) // connections are made and buffers grown
	if t.Failed() {
		t.FailNow() // a connection is missing
	}
	before := cpu(t, pid)
	n, took := round(d)
	to.rate = append(to.rate, perSecond(n, took))
	to.cpu = append(to.cpu, micros(cpu(t, pid)-before)/float64(max(n, 1)))
}

// BenchmarkPushHTTP pushes to an enqueuer, and the same requests to a handler
// that only reads their body: two processes, in turn, with the same client.
func BenchmarkPushHTTP(b *testing.B) {
	s := &section{file: "20-push-http", title: "Pushes over HTTP",
		about: fmt.Sprintf("Requests over kept connections to an enqueuer process, and the same requests to a process whose handler reads the body and answers 202; "+
			"bodies of %d bytes. The client is lean, and shares the machine with the servers and Redis. *Ratio* is ours over the bare handler's; "+
			"with one connection the bar is on the time of a push, over that of the bare handler and one PING of Redis together. "+
			"*CPU* is that of the enqueuer, and of the bare handler's process.", smallBody),
		head: []string{"connections", "jobs/request", "requests/s", "jobs/s", "bare handler", "ratio", "time over bare + PING", "CPU/request", "of the bare handler", "bar"}}
	r := newRig(b, true)
	r.startEnqueuer()
	bare, barePID := r.startBare()
	l := openLanes(b, r.redis)
	single := string(bodyOf(smallBody))
	one := `{"body":` + single + `}`
	modes := []pushMode{
		{name: "one", connections: 1, jobs: 1, path: "/jobs", status: "202", body: one, contentType: "application/json"},
		{name: "many", connections: manyCallers, jobs: 1, path: "/jobs", status: "202", body: one, contentType: "application/json"},
		{name: "batch", connections: 1, jobs: 100, path: "/jobs/batch", status: "200", body: strings.Repeat(one+"\n", 100), contentType: "application/x-ndjson"},
	}
	d := either(200*time.Millisecond, 1500*time.Millisecond)
	ours, theirs := make([]pushed, len(modes)), make([]pushed, len(modes))
	var ping []float64
	addr := strings.TrimPrefix(r.enqueuers[0].url, "http://")
	for b.Loop() {
		for i := range modes {
			m := &modes[i]
			l.empty()
			l.apply("bank", "https://bank.example/", 50, time.Second, roomy)
			m.run(b, &ours[i], r.enqueuers[0].cmd.Process.Pid, addr, "/v1/destinations/bank"+m.path, m.status, d)
			m.run(b, &theirs[i], barePID, bare, "/", "202", d)
		}
		ping = append(ping, l.ping(d/4))
	}
	for i := range modes {
		m := &modes[i]
		own, other := median(ours[i].rate), median(theirs[i].rate)
		held, over := "", ""
		switch m.name {
		case "one":
			ratio := 1 / own / (1/other + median(ping))
			held, over = bar(ratio <= 2.5, "time ≤ 2.5"), fmt.Sprintf("%.2f", ratio)
		case "many":
			held = bar(own/other >= 0.3, "ratio ≥ 0.3")
		}
		s.row(count(m.connections), count(m.jobs), count(own), count(own*float64(m.jobs)), count(other), fmt.Sprintf("%.2f", own/other), over,
			fmt.Sprintf("%.0f µs", median(ours[i].cpu)), fmt.Sprintf("%.0f µs", median(theirs[i].cpu)), held)
		b.ReportMetric(own/other, m.name+"-ratio")
	}
	s.note("One PING took %.0f µs, one request to the bare handler over one connection %.0f µs.", 1e6*median(ping), 1e6/median(theirs[0].rate))
	s.publish(b)
}

// ping is how many seconds one PING takes, asked by the client that the enqueuer uses.
func (l *lanes) ping(d time.Duration) float64 {
	l.Helper()
	n, begin := 0, time.Now()
	for ; time.Since(begin) < d; n++ {
		if err := l.db.Client().Ping(context.Background()).Err(); err != nil {
			l.Fatal(err)
		}
	}
	return time.Since(begin).Seconds() / float64(n)
}
