package deliver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"tundish/internal/destination"
)

// identity is with which certificates a connection was made. It is part of what
// connections are shared by: those of one destination are never used for another
// with other certificates, nor for its own after they changed. It holds a key;
// nothing prints it.
type identity struct {
	ca, cert, key string // PEM
	serverName    string
}

// identity reads the certificates that a contract names.
func (r *resolving) identity(t *destination.TLS) identity {
	ca, cert, key := t.Files()
	return identity{ca: r.pem("ca_file", ca), cert: r.pem("cert_file", cert), key: r.pem("key_file", key), serverName: t.ServerName}
}

func (r *resolving) pem(field string, ref destination.Reference) string {
	if ref == (destination.Reference{}) {
		return ""
	}
	text, err := r.secrets.Value(r.contract, ref)
	if err != nil {
		r.failed(fmt.Errorf("tls: %s: %w", field, err))
	}
	return text
}

var (
	errNoCertificate = errors.New("tls: ca_file: there is no certificate in it (PEM)")
	errNoPair        = errors.New("tls: cert_file and key_file: they are not a certificate and its key (PEM)")
)

// config makes the TLS settings; roots are trusted when there is no ca_file. The
// error repeats nothing of the files.
func (i identity) config(roots *x509.CertPool) (*tls.Config, error) {
	c := &tls.Config{RootCAs: roots, ServerName: i.serverName, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	if i.ca != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(i.ca)) {
			return nil, errNoCertificate
		}
	}
	if i.cert != "" {
		pair, err := tls.X509KeyPair([]byte(i.cert), []byte(i.key))
		if err != nil {
			return nil, errNoPair
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
