package destination

import (
	"path"
	"strings"
)

// TLS says with which certificates a worker meets the destination. The files are
// the worker's, and read again when they change.
type TLS struct {
	CAFile     string // whom to trust instead of the system's authorities; empty: those
	CertFile   string // certificate of the worker, with KeyFile
	KeyFile    string
	ServerName string // name the certificate of the destination must bear; empty: that of the URL
}

func tlsOf(o *object) TLS {
	v := o.get("tls")
	if v == nil {
		return TLS{}
	}
	o = o.p.open(v, o.part)
	defer o.close()
	t := TLS{CAFile: o.file("ca_file"), CertFile: o.file("cert_file"), KeyFile: o.file("key_file"), ServerName: o.text("server_name", "", 253)}
	if strings.ContainsFunc(t.ServerName, func(r rune) bool { return !asciiLetterOrDigit(r) && !strings.ContainsRune(".-_:", r) }) {
		o.p.bad(o.get("server_name"), "the name of a host")
	}
	if v.kind == dict && !o.part {
		pair(o, "cert_file", "key_file")
		pair(o, "key_file", "cert_file")
		if len(v.fields) == 0 {
			o.p.invalid(v, "tls: is empty; give ca_file, cert_file and key_file, or server_name")
		}
	}
	return t
}

// pair reports that one of two fields is given alone.
func pair(o *object, one, other string) {
	if o.given(one) && !o.given(other) {
		o.missing(other, "an absolute path; "+one+" needs it")
	}
}

// file reads the path of a file.
func (o *object) file(name string) string {
	s := o.text(name, "", maxReferenceBytes)
	if s != "" && (!path.IsAbs(s) || path.Clean(s) != s || reference(s)) {
		o.p.bad(o.get(name), "an absolute path without . and .. segments")
	}
	return s
}

// Files are the files a TLS names, as references that a worker resolves; one
// that is not given is zero.
func (t *TLS) Files() (ca, cert, key Reference) {
	of := func(path string) Reference {
		if path == "" {
			return Reference{}
		}
		return Reference{FromFile, path}
	}
	return of(t.CAFile), of(t.CertFile), of(t.KeyFile)
}

// tlsFits refuses tls, and HTTP/2, which is agreed on in it, where the target speaks none.
func tlsFits(c *Contract, root *value, p *problems) {
	if !strings.HasPrefix(c.Target.URL, "http:") {
		return
	}
	if c.Target.TLS != (TLS{}) {
		p.invalid(root.find("target.http.tls"), "tls: target.http.url begins with http:, which speaks no TLS; give https or leave tls out")
	}
	if c.Target.HTTP2 {
		p.invalid(root.find("target.http.http2"), "http2: target.http.url begins with http:, and HTTP/2 is for https alone; give https or leave http2 out")
	}
}
