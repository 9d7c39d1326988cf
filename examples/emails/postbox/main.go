// Command postbox is the other side of the example: a mail server that takes
// everything and prints a line for each mail.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"sync/atomic"

	"github.com/emersion/go-smtp"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:2525", "address to listen on")
	flag.Parse()
	var count atomic.Int64
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{count: &count}, nil }))
	server.Addr = *listen
	log.Fatal(server.ListenAndServe())
}

// session is one connection.
type session struct {
	count *atomic.Int64
	to    []string
}

func (s *session) Reset()                                    { s.to = nil }
func (s *session) Logout() error                             { return nil }
func (s *session) Mail(string, *smtp.MailOptions) error      { return nil }
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error { s.to = append(s.to, to); return nil }

func (s *session) Data(r io.Reader) error {
	m, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	fmt.Printf("mail %d: %q from %s to %s%s\n", s.count.Add(1), m.Header.Get("Subject"), m.Header.Get("From"), strings.Join(s.to, ", "),
		attached(m.Header.Get("Content-Type"), m.Body))
	return nil
}

// attached names the files of a mail.
func attached(contentType string, body io.Reader) (names string) {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return ""
	}
	parts := multipart.NewReader(body, params["boundary"])
	for {
		p, err := parts.NextPart()
		if err != nil {
			return names
		}
		if p.FileName() != "" {
			names += " with " + p.FileName()
		}
	}
}
