package e2e

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"tundish/internal/bank"
)

// postOffice is a mail server of this process that notes when each MAIL FROM
// came and for which job.
type postOffice struct {
	addr      *net.TCPAddr
	greylists bool // whom it has not seen before, but for one

	mu       sync.Mutex
	arrivals []bank.Arrival
	conns    int
	logins   []string        // username and password of those that were let in
	met      map[string]bool // recipients
}

// wrongUser is whom no office lets in.
const wrongUser = "nobody"

// startPostOffice serves in clear text without a config of TLS, and lets log in with one.
func (r *rig) startPostOffice(config *tls.Config) *postOffice {
	r.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	o := &postOffice{addr: l.Addr().(*net.TCPAddr), met: map[string]bool{}}
	server := smtp.NewServer(smtp.BackendFunc(o.session))
	server.TLSConfig = config
	server.ErrorLog = log.New(io.Discard, "", 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	r.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return o
}

func (o *postOffice) session(*smtp.Conn) (smtp.Session, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conns++
	return &mailSession{o: o}, nil
}

func (o *postOffice) seen() (arrivals []bank.Arrival, conns int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]bank.Arrival(nil), o.arrivals...), o.conns
}

func (o *postOffice) logIns() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.logins...)
}

// mailSession is one connection.
type mailSession struct {
	o  *postOffice
	at int64 // when MAIL FROM came
}

func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	if !s.o.greylists || s.o.met[to] || strings.HasPrefix(to, "known@") {
		return nil
	}
	s.o.met[to] = true
	return &smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 2, 0}, Message: "greylisted"}
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth notes who logs in; whom it refuses it tells all that it knows.
func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, pass string) error {
		if user == wrongUser {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "not " + user + " with " + pass}
		}
		s.o.mu.Lock()
		defer s.o.mu.Unlock()
		s.o.logins = append(s.o.logins, user+" "+pass)
		return nil
	}), nil
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error {
	s.at = bank.Monotonic()
	return nil
}

// Data takes a mail; its Message-ID begins with the job's id.
func (s *mailSession) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m, err := netmail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return err
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(m.Header.Get("Message-ID"), "<"), "@")
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	s.o.arrivals = append(s.o.arrivals, bank.Arrival{Job: id, At: s.at, Attempt: 1, Status: http.StatusOK})
	return nil
}

func TestMailsGoAtTheRate(t *testing.T) {
	t.Parallel()
	const rate, mails = 50, 100
	r := newRig(t, true)
	r.startEnqueuer()
	o := r.startPostOffice(nil)
	r.do(http.MethodPut, r.at("mail"), fmt.Sprintf(`{"target": {"smtp": {"host": "127.0.0.1", "port": %d, "from": "shop@b.example", "tls": "none"}},
		"limits": [{"name": "tps", "algorithm": "leaky_bucket", "rate": %d, "per": "1s"}]}`, o.addr.Port, rate), http.StatusCreated)
	r.startWorkers(2)
	var lines strings.Builder
	for i := range mails {
		fmt.Fprintf(&lines, `{"email": {"to": "ann%d@a.example", "subject": "Order %d", "text": "Thank you"}}`+"\n", i, i)
	}
	ids := r.pushBatch("mail", lines.String())
	r.settled("mail")
	c := bank.Case{Rate: rate, Per: time.Second, Jobs: mails}
	r.eventually("a line in the write logs for each mail", patience, func() bool {
		c.Arrivals, _ = o.seen()
		c.Writes = r.writesAfter("mail", 0)
		return len(c.Writes) >= mails && len(c.Arrivals) >= mails
	})
	if v := bank.Judge(c); !v.OK {
		t.Error(v)
	}
	if _, conns := o.seen(); conns > mails/2 {
		t.Errorf("%d connections for %d mails", conns, mails)
	}
	if j := r.job("mail", ids[0]); j.State != "delivered" || len(j.Attempts) != 1 || j.Attempts[0].Outcome != "delivered" {
		t.Errorf("%+v", j)
	}
}
