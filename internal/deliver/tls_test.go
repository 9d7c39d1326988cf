package deliver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// certificate makes one for a name, signed by itself, as PEM.
func certificate(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

// mutual is a destination called bank.example that asks for a certificate and
// keeps who came.
type mutual struct {
	*httptest.Server
	ca   string
	mu   sync.Mutex
	came []string // name of the caller and connection of each request
}

func newMutual(t *testing.T, clients ...string) *mutual {
	t.Helper()
	cert, key := certificate(t, "bank.example")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for _, c := range clients {
		pool.AppendCertsFromPEM([]byte(c))
	}
	m := &mutual{ca: cert}
	m.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.came = append(m.came, r.TLS.PeerCertificates[0].Subject.CommonName+" "+r.RemoteAddr)
	}))
	m.Config.ErrorLog = quiet
	m.EnableHTTP2 = true
	m.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	m.StartTLS()
	t.Cleanup(m.Close)
	return m
}

// pairOf is the setting of who comes as name, to a destination called bank.example.
func pairOf(name string) destination.TLS {
	return destination.TLS{CAFile: "/ca", CertFile: "/" + name + ".crt", KeyFile: "/" + name + ".key", ServerName: "bank.example"}
}

func withTLS(url string, set destination.TLS) Attempt {
	a := attemptTo(url)
	a.Contract.Target.TLS = set
	return a
}

// Two destinations at one address with different certificates share no
// connection; a certificate that changes is used for the next request.
func TestCertificatesOfDestinations(t *testing.T) {
	t.Parallel()
	shopCert, shopKey := certificate(t, "shop")
	hookCert, hookKey := certificate(t, "hook")
	m := newMutual(t, shopCert, hookCert)
	files := held{"/ca": m.ca, "/shop.crt": shopCert, "/shop.key": shopKey, "/hook.crt": hookCert, "/hook.key": hookKey}
	s := newSender(t, with(files))
	shop, hook := pairOf("shop"), pairOf("hook")
	for _, set := range []destination.TLS{shop, hook, shop, hook} {
		wantOutcome(t, s.Send(background, withTLS(m.URL, set)), job.OutcomeDelivered, true)
	}
	files["/shop.crt"], files["/shop.key"] = hookCert, hookKey
	wantOutcome(t, s.Send(background, withTLS(m.URL, shop)), job.OutcomeDelivered, true)
	var names []string
	conns := map[string]string{}
	for _, c := range m.came {
		name, conn, _ := strings.Cut(c, " ")
		names = append(names, name)
		if before, ok := conns[conn]; ok && before != name {
			t.Errorf("%s and %s came on one connection", before, name)
		}
		conns[conn] = name
	}
	if got := strings.Join(names, " "); got != "shop hook shop hook hook" || len(conns) != 2 {
		t.Errorf("came as %s on %d connections, want 2", got, len(conns))
	}
}

// With TLS 1.3 a server refuses our certificate when the request has left already:
// it has read nothing of it, so nothing is in doubt.
func TestRefusedCertificateLeavesNoDoubt(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, "shop")
	m := newMutual(t)
	srv := serveRaw(t, func(_ *rawServer, _ int, c net.Conn) {
		if err := tls.Server(c, m.TLS).Handshake(); err == nil {
			t.Error("the server took the certificate")
		}
		_, _ = io.Copy(io.Discard, c) // a reset would overtake what it said
	})
	url := "https://" + srv.Addr().String()
	s := newSender(t, with(held{"/ca": m.ca, "/shop.crt": cert, "/shop.key": key}))
	for want, set := range map[string]destination.TLS{
		"the other side: tls: certificate required":          {CAFile: "/ca", ServerName: "bank.example"},
		"the other side: tls: unknown certificate authority": pairOf("shop"),
	} {
		for range 10 {
			if r := s.Send(background, withTLS(url, set)); r.Wrote && (r.Outcome != job.OutcomeTLS || r.Error != want) || r.Outcome.Class() != job.Retry {
				t.Errorf("%+v, want %s", r, want)
			}
		}
	}
}

// Over HTTP/2 it comes before the request: who does not like our certificate
// never says how many streams it takes.
func TestCertificatesOverHTTP2(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, "shop")
	m := newMutual(t, cert)
	s := newSender(t, with(held{"/ca": m.ca, "/crt": cert, "/key": key}))
	send := func(set destination.TLS) Result {
		a := withTLS(m.URL, set)
		a.Contract.Target.HTTP2 = true
		return s.Send(background, a)
	}
	good := destination.TLS{CAFile: "/ca", CertFile: "/crt", KeyFile: "/key", ServerName: "bank.example"}
	for range 2 {
		wantOutcome(t, send(good), job.OutcomeDelivered, true)
	}
	r := send(destination.TLS{CAFile: "/ca", ServerName: "bank.example"})
	wantOutcome(t, r, job.OutcomeTLS, false)
	if !strings.HasPrefix(r.Error, "TLS handshake: ") || len(m.came) != 2 || m.came[0] != m.came[1] {
		t.Errorf("%q; came as %v", r.Error, m.came)
	}
}

func TestCertificatesThatDoNotFit(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, "shop")
	other, otherKey := certificate(t, "other")
	m := newMutual(t, cert)
	files := held{"/ca": m.ca, "/shop.crt": cert, "/shop.key": key, "/other.crt": other, "/other.key": otherKey, "/not": "s3cret"}
	for name, tc := range map[string]struct {
		set   destination.TLS
		fault string // empty: the attempt fails in the handshake
	}{
		"no certificate":   {destination.TLS{CAFile: "/ca", ServerName: "bank.example"}, ""},
		"another":          {pairOf("other"), ""},
		"wrong name":       {destination.TLS{CAFile: "/ca", CertFile: "/shop.crt", KeyFile: "/shop.key", ServerName: "shop.example"}, ""},
		"wrong authority":  {destination.TLS{CAFile: "/other.crt", CertFile: "/shop.crt", KeyFile: "/shop.key", ServerName: "bank.example"}, ""},
		"file is missing":  {destination.TLS{CAFile: "/none"}, "tls: ca_file: ${file:/none}: is not set"},
		"no authority":     {destination.TLS{CAFile: "/not"}, "tls: ca_file: there is no certificate"},
		"another's key":    {destination.TLS{CertFile: "/shop.crt", KeyFile: "/other.key"}, "tls: cert_file and key_file: they are not"},
		"key is no secret": {destination.TLS{CertFile: "/shop.crt", KeyFile: "/not"}, "tls: cert_file and key_file: they are not"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSender(t, with(files))
			a := withTLS(m.URL, tc.set)
			r := s.Send(background, a)
			if tc.fault == "" {
				if r.Outcome.Class() != job.Retry && r.Outcome.Class() != job.Ambiguous || r.Outcome == job.OutcomeNotSent || s.Check(a.Contract) != nil {
					t.Errorf("%+v", r)
				}
				return
			}
			wantOutcome(t, r, job.OutcomeNotSent, false)
			if err := s.Check(a.Contract); r.Fault == nil || err == nil || !strings.HasPrefix(r.Fault.Error(), tc.fault) || err.Error() != r.Fault.Error() || strings.Contains(r.Error, "s3cret") {
				t.Errorf("fault %v, check %v, want %q", r.Fault, err, tc.fault)
			}
		})
	}
}
