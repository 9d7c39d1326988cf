package mail

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"go.uber.org/goleak"

	"tundish/internal/deliver"
	"tundish/internal/destination"
	"tundish/internal/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

const (
	username = "shop"
	password = "S3CR3T"
)

// newSender makes a Sender that may dial loopback and ends with the test.
func newSender(t testing.TB, change ...func(*Config)) *Sender {
	t.Helper()
	cfg := Config{AllowPrivate: loopback, RootCAs: authority().pool, Hello: "worker.test"}
	for _, f := range change {
		f(&cfg)
	}
	s := New(cfg)
	t.Cleanup(s.Close)
	return s
}

// hello is a mail without anything odd in it.
func hello() *job.Email {
	return &job.Email{To: []string{"<ann@a.example>"}, Subject: "Hello", Text: "Dear Ann"}
}

// attemptOf makes an attempt of a mail to a server on loopback.
func attemptOf(t testing.TB, addr string, mode destination.MailTLS, e *job.Email) deliver.Attempt {
	t.Helper()
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	body, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return deliver.Attempt{
		Lane: "mail",
		Contract: &destination.Contract{
			Name:        "mail",
			MaxInFlight: 10,
			SMTP:        &destination.SMTPTarget{Host: ap.Addr().String(), Port: int(ap.Port()), From: `"Shop" <shop@b.example>`, TLS: mode},
			Idempotency: destination.Idempotency{Header: "Idempotency-Key"},
		},
		Job: &job.Job{ID: job.NewID(), CreatedAt: time.Date(2026, 11, 30, 9, 0, 0, 5e6, time.UTC),
			Request: job.Request{ContentType: job.EmailType, Body: body}},
		Number: 1, Key: "shop:order-77", Timeout: 5 * time.Second,
	}
}

// received is a mail as it came.
type received struct {
	from string
	to   []string
	data []byte
	utf8 bool
	conn int // the connection, counted from 1
	mail time.Time
}

// office is a real SMTP server in the test's process.
type office struct {
	*smtp.Server
	addr string

	// hooks; nil: all is well
	onMail func(from string) error
	onRcpt func(to string) error
	onRead func()          // before the data of a mail is read
	onCut  func(err error) // the data of a mail broke off
	onData func(m *received) error

	mu    sync.Mutex
	mails []received
	conns int
	auths []string
}

// newOffice serves on loopback; implicit: TLS from the first byte.
func newOffice(t testing.TB, implicit bool, change ...func(*office)) *office {
	t.Helper()
	o := &office{}
	o.Server = smtp.NewServer(o)
	o.Domain = "office.test"
	o.TLSConfig = authority().server()
	o.EnableSMTPUTF8 = true
	o.ErrorLog = log.New(io.Discard, "", 0)
	for _, f := range change {
		f(o)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.addr = l.Addr().String()
	if implicit {
		l = tls.NewListener(l, o.TLSConfig)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = o.Serve(l)
	}()
	t.Cleanup(func() {
		_ = o.Close()
		_ = l.Close() // which Serve may not have told the server of yet
		<-done
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = o.Shutdown(ctx)
	})
	return o
}

// plainly makes an office that knows no TLS.
func plainly(o *office) { o.TLSConfig = nil }

func (o *office) NewSession(*smtp.Conn) (smtp.Session, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conns++
	return &session{o: o, conn: o.conns}, nil
}

func (o *office) all() []received {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]received(nil), o.mails...)
}

func (o *office) connections() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conns
}

// session is one connection to the office.
type session struct {
	o    *office
	conn int
	m    received
}

func (s *session) Reset()        { s.m = received{} }
func (s *session) Logout() error { return nil }

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, pass string) error {
		s.o.mu.Lock()
		s.o.auths = append(s.o.auths, user)
		s.o.mu.Unlock()
		if user != username || pass != password {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "who is " + user + " with " + pass + "?"}
		}
		return nil
	}), nil
}

func (s *session) Mail(from string, opts *smtp.MailOptions) error {
	s.m = received{from: from, conn: s.conn, mail: time.Now(), utf8: opts != nil && opts.UTF8}
	if s.o.onMail != nil {
		return s.o.onMail(from)
	}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.o.onRcpt != nil {
		if err := s.o.onRcpt(to); err != nil {
			return err
		}
	}
	s.m.to = append(s.m.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	if s.o.onRead != nil {
		s.o.onRead()
	}
	var b bytes.Buffer
	if _, err := io.Copy(&b, r); err != nil {
		if s.o.onCut != nil {
			s.o.onCut(err)
		}
		return err
	}
	s.m.data = b.Bytes()
	if s.o.onData != nil {
		if err := s.o.onData(&s.m); err != nil {
			return err
		}
	}
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	s.o.mails = append(s.o.mails, s.m)
	return nil
}

// ca is an authority that only these tests trust.
type ca struct {
	pool *x509.CertPool
	cert tls.Certificate
}

var authority = sync.OnceValue(func() *ca {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "office.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &ca{pool, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
})

func (c *ca) server() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{c.cert}} }
