package mail

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
)

// What a server of the script may do instead of answering.
const (
	hang = "hang" // say nothing
	cut  = "cut"  // end the connection
	drip = "drip" // say a byte from time to time, and never a whole line
)

// steps of a mail, in their order; "." is the end of its data.
var steps = []string{"greeting", "EHLO", "MAIL", "RCPT", "DATA", "."}

// script is a server that plays a part: what it says at each step.
type script struct {
	net.Listener
	says map[string]string
	wg   sync.WaitGroup
	stop chan struct{}

	mu    sync.Mutex
	wait  map[string]chan struct{} // closed when the step was heard
	heard []string                 // every command, of all connections
	conns []net.Conn
}

// play serves says, and for the rest what a server says that takes all.
func play(t *testing.T, says map[string]string) *script {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return playOn(t, l, says)
}

// playOn plays on a listener.
func playOn(t *testing.T, l net.Listener, says map[string]string) *script {
	t.Helper()
	s := &script{Listener: l, says: map[string]string{"greeting": "220 script.test", "DATA": "354 go on"}, stop: make(chan struct{})}
	for step, line := range says {
		s.says[step] = line
	}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.wg.Go(func() { defer c.Close(); s.serve(c) })
		}
	})
	t.Cleanup(func() {
		close(s.stop)
		_ = l.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *script) serve(c net.Conn) {
	if !s.say(c, "greeting") {
		return
	}
	in := bufio.NewScanner(c)
	in.Buffer(nil, 1<<20)
	data := false
	for in.Scan() {
		step, _, _ := strings.Cut(in.Text(), " ")
		switch {
		case data && in.Text() != ".":
			continue
		case data:
			step, data = ".", false
		case step == "DATA" && s.says["DATA"][0] == '3':
			data = true
		}
		s.mu.Lock()
		s.heard = append(s.heard, step)
		if c := s.wait[step]; c != nil {
			close(c)
			delete(s.wait, step)
		}
		s.mu.Unlock()
		if !s.say(c, step) {
			return
		}
	}
}

// say answers a step; false when the part ends there.
func (s *script) say(c net.Conn, step string) bool {
	line := s.says[step]
	switch line {
	case hang:
		<-s.stop
		return false
	case cut:
		return false
	case drip:
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return false
			case <-tick.C:
				if _, err := c.Write([]byte("2")); err != nil {
					return false
				}
			}
		}
	case "":
		line = "250 ok"
	}
	_, err := fmt.Fprintf(c, "%s\r\n", line)
	return err == nil
}

// reached is closed when a step is heard for the first time from now on.
func (s *script) reached(step string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{})
	if strings.Contains(strings.Join(s.heard, " ")+" ", step+" ") {
		close(c)
		return c
	}
	if s.wait == nil {
		s.wait = map[string]chan struct{}{}
	}
	s.wait[step] = c
	return c
}

func (s *script) commands() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.heard, " ")
}

// At each step of a mail: what the server does, and how the attempt ends. The
// class is what matters; nothing before the final dot is ambiguous.
func TestFaultsAtEachStep(t *testing.T) {
	t.Parallel()
	before := map[string]bool{"greeting": true, "EHLO": true} // of any mail
	const garbage = "what?"
	for _, step := range steps {
		for fault, want := range map[string]job.Outcome{
			hang:                                   job.OutcomeUnfinished,
			cut:                                    job.OutcomeUnfinished,
			drip:                                   job.OutcomeUnfinished,
			garbage:                                job.OutcomeUnfinished,
			"2" + strings.Repeat("5", 300<<10):     job.OutcomeUnfinished,
			"421 4.3.2 shutting down":              job.OutcomeUnready,
			"421 4.7.0 too many connections":       job.OutcomeThrottled,
			"454 Throttling failure: sending rate": job.OutcomeThrottled,
			"450 4.2.1 mailbox gets too many":      job.OutcomePostponed,
			"451 4.7.1 greylisted, come again in 300 s": job.OutcomePostponed,
			"550 5.7.1 no":           job.OutcomeRejected,
			"554 no":                 job.OutcomeRejected,
			"530 5.7.0 log in first": job.OutcomeAuth,
			"150 what":               job.OutcomeUnfinished,
		} {
			name := fault[:min(len(fault), 12)]
			t.Run(step+"/"+name, func(t *testing.T) {
				t.Parallel()
				want, endless := want, fault == hang || fault == drip
				switch {
				case before[step] && want != job.OutcomeThrottled:
					want = job.OutcomeConnect
					if endless {
						want = job.OutcomeConnectTimeout
					}
				case step == "." && endless:
					want = job.OutcomeTimeout
				case step == "." && fault == cut:
					want = job.OutcomeReset
				case step == "." && want == job.OutcomeUnfinished:
					want = job.OutcomeInvalidReply
				}
				o := play(t, map[string]string{step: fault, "HELO": fault})
				// Time runs out only where that is the fault.
				const brief = 300 * time.Millisecond
				s := newSender(t, func(c *Config) {
					if endless && before[step] {
						c.DialTimeout = brief
					}
				})
				a := attemptOf(t, o.Addr().String(), destination.NoTLS, hello())
				if endless {
					a.Timeout = brief
				}
				r := s.Send(context.Background(), a)
				if r.Outcome != want || r.Error == "" || r.Wrote == before[step] || len(r.Error) > 250 {
					t.Errorf("%+v, want %s", r, want)
				}
				if heard := o.commands(); step != "." && strings.Contains(heard, "DATA .") {
					t.Errorf("the final dot was sent: %s", heard)
				}
			})
		}
	}
}

// Of a mail whose data did not all leave, no server must take what it has.
func TestNoFinalDotAfterACut(t *testing.T) {
	t.Parallel()
	read, broke := make(chan struct{}), make(chan error, 1)
	o := newOffice(t, false, func(o *office) {
		o.onRead = func() { <-read }
		o.onCut = func(err error) { broke <- err }
	})
	e := hello()
	e.Text = strings.Repeat("more than the buffers of a connection take\n", 1<<18)
	a := attemptOf(t, o.addr, destination.StartTLS, e)
	a.Timeout = 500 * time.Millisecond
	if r := newSender(t).Send(context.Background(), a); r.Outcome != job.OutcomeUnfinished || !strings.Contains(r.Error, "DATA: no answer within") {
		t.Errorf("%+v", r)
	}
	close(read)
	if err := <-broke; err == nil || len(o.all()) != 0 {
		t.Errorf("%v, %d mails", err, len(o.all()))
	}
}

// A stop in the middle of a mail is no attempt.
func TestStopBeforeAndAfterTheFinalDot(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"RCPT", "."} {
		o := play(t, map[string]string{step: hang})
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() {
			<-o.reached(step)
			cancel(deliver.ErrStopped)
		}()
		r := newSender(t).Send(ctx, attemptOf(t, o.Addr().String(), destination.NoTLS, hello()))
		if r.Outcome != job.OutcomeInterrupted || !r.Wrote {
			t.Errorf("%s: %+v", step, r)
		}
	}
}

// After a refusal the connection is told to forget the mail, and carries the next.
func TestRefusalKeepsTheConnection(t *testing.T) {
	t.Parallel()
	for step, want := range map[string]string{
		"MAIL": "EHLO MAIL RSET MAIL RSET",
		"RCPT": "EHLO MAIL RCPT RSET MAIL RCPT RSET",
		"DATA": "EHLO MAIL RCPT DATA RSET MAIL RCPT DATA RSET",
		".":    "EHLO MAIL RCPT DATA . MAIL RCPT DATA .",
	} {
		o := play(t, map[string]string{step: "451 later"})
		s := newSender(t)
		for range 2 {
			if r := s.Send(context.Background(), attemptOf(t, o.Addr().String(), destination.NoTLS, hello())); r.Outcome.Class() != job.Retry {
				t.Errorf("%s: %+v", step, r)
			}
		}
		if heard := o.commands(); heard != want {
			t.Errorf("%s: heard %s, want %s", step, heard, want)
		}
	}
}

func TestClosingReplyEndsTheConnection(t *testing.T) {
	t.Parallel()
	o := play(t, map[string]string{"MAIL": "421 bye"})
	s := newSender(t)
	for range 2 {
		s.Send(context.Background(), attemptOf(t, o.Addr().String(), destination.NoTLS, hello()))
	}
	if heard := o.commands(); heard != "EHLO MAIL EHLO MAIL" {
		t.Errorf("heard %s", heard)
	}
}

// A connection that the server closed while it was unused costs nothing.
func TestServerClosesIdleConnection(t *testing.T) {
	t.Parallel()
	o := play(t, nil)
	s := newSender(t)
	a := attemptOf(t, o.Addr().String(), destination.NoTLS, hello())
	asked := 0
	a.Gate = func() error { asked++; return nil }
	mustSend(t, s, a)
	o.mu.Lock()
	server := o.conns[0]
	o.mu.Unlock()
	if _, err := fmt.Fprint(server, "421 4.4.2 idle for too long\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
	waitFor(t, "the end to arrive", s.pools.Unused()[0].Ended)
	mustSend(t, s, a)
	if heard, want := o.commands(), "EHLO MAIL RCPT DATA . EHLO MAIL RCPT DATA ."; heard != want || asked != 2 {
		t.Errorf("heard %s, want %s; asked %d times", heard, want, asked)
	}
}

// What a server says beyond its last reply is not taken for the answer to the next mail.
func TestWordsBehindTheReplyEndTheConnection(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"421 4.3.2 shutting down", "250 ok", "354 go on"} {
		o := play(t, map[string]string{".": "250 taken\r\n" + more})
		s := newSender(t)
		a := attemptOf(t, o.Addr().String(), destination.NoTLS, hello())
		for range 3 {
			mustSend(t, s, a)
		}
		if heard, want := o.commands(), strings.TrimSpace(strings.Repeat("EHLO MAIL RCPT DATA . ", 3)); heard != want {
			t.Errorf("%s: heard %s, want %s", more, heard, want)
		}
	}
}

// It is noticed right before the write, too, when the end comes after the
// attempt has taken the connection.
func TestServerClosesConnectionBeforeTheSlot(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// One that takes long to make is taken long before its slot.
	o := playOn(t, &late{Listener: l, from: time.After(100 * time.Millisecond)}, nil)
	s := newSender(t)
	a := attemptOf(t, o.Addr().String(), destination.NoTLS, hello())
	mustSend(t, s, a)
	a.At = time.Now().Add(300 * time.Millisecond)
	done := make(chan deliver.Result, 1)
	go func() { done <- s.Send(context.Background(), a) }()
	waitFor(t, "the connection to be taken", func() bool { return len(s.pools.Unused()) == 0 })
	o.mu.Lock()
	_ = o.conns[0].Close()
	o.mu.Unlock()
	if r := <-done; r.Outcome != job.OutcomeDelivered {
		t.Errorf("%+v", r)
	}
	if heard, want := o.commands(), "EHLO MAIL RCPT DATA . EHLO MAIL RCPT DATA ."; heard != want {
		t.Errorf("heard %s, want %s", heard, want)
	}
}

// late takes its first connection when from comes.
type late struct {
	net.Listener
	from <-chan time.Time
	once sync.Once
}

func (l *late) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	l.once.Do(func() { <-l.from })
	return c, err
}

// A connection that lay unused for long is asked whether it still stands.
func TestConnectionIsAskedAfterAWhile(t *testing.T) {
	t.Parallel()
	for noop, want := range map[string]string{"": "EHLO MAIL RCPT DATA . NOOP MAIL RCPT DATA .", cut: "EHLO MAIL RCPT DATA . NOOP EHLO MAIL RCPT DATA ."} {
		o := play(t, map[string]string{"NOOP": noop})
		s := newSender(t)
		a := attemptOf(t, o.Addr().String(), destination.NoTLS, hello())
		mustSend(t, s, a)
		c := s.pools.Unused()[0]
		if !c.Stands(context.Background(), askAfter/2) {
			t.Error("it does not stand after a short time")
		}
		if stands := c.Stands(context.Background(), 2*askAfter); stands != (noop == "") {
			t.Errorf("NOOP %q: it stands: %v", noop, stands)
		}
		mustSend(t, s, a)
		if heard := o.commands(); heard != want {
			t.Errorf("heard %s, want %s", heard, want)
		}
	}
}

// A greeting that takes longer than a slot can wait is not for nothing.
func TestSlowConnectionIsKeptForTheNextSlot(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	from := make(chan time.Time)
	o := playOn(t, &late{Listener: l, from: from}, nil)
	s := newSender(t)
	a := attemptOf(t, o.Addr().String(), destination.NoTLS, hello())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if r := s.Send(ctx, a); r.Outcome != job.OutcomeConnectTimeout || r.Wrote {
		t.Errorf("%+v", r)
	}
	close(from)
	waitFor(t, "the connection to be kept", func() bool { return len(s.pools.Unused()) == 1 })
	mustSend(t, s, a)
	if heard, want := o.commands(), "EHLO MAIL RCPT DATA ."; heard != want {
		t.Errorf("heard %s, want %s", heard, want)
	}
}

func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	r := newSender(t).Send(context.Background(), attemptOf(t, l.Addr().String(), destination.StartTLS, hello()))
	if r.Outcome != job.OutcomeRefused || r.Wrote {
		t.Errorf("%+v", r)
	}
	a := attemptOf(t, l.Addr().String(), destination.StartTLS, hello())
	a.Contract.SMTP.Host = "no-such-host.invalid"
	if r = newSender(t).Send(context.Background(), a); r.Outcome != job.OutcomeDNS || r.Wrote {
		t.Errorf("%+v", r)
	}
}
