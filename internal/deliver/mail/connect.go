package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"tundish/internal/deliver"
	"tundish/internal/deliver/kept"
	"tundish/internal/destination"
)

// target is what connections are shared by: a log-in belongs to its connection,
// and one with a password that was changed is used no more. Nothing prints it.
type target struct {
	host               string
	port               int
	mode               destination.MailTLS
	username, password string // what the references of the contract stand for
}

func (s *Sender) targetOf(c *destination.Contract) (target, error) {
	t := c.SMTP
	out := target{host: t.Host, port: t.Port, mode: t.TLS}
	if t.Username == "" {
		return out, nil
	}
	value := func(r destination.Reference) (string, error) { return s.cfg.Secrets.Value(c, r) }
	var err error
	if out.username, err = destination.Expand(t.Username, value); err != nil {
		return out, &loginError{text: "username: " + deliver.ShortText(err.Error(), maxReplyText)}
	}
	if out.password, err = destination.Expand(t.Password, value); err != nil {
		return out, &loginError{text: "password: " + deliver.ShortText(err.Error(), maxReplyText)}
	}
	return out, nil
}

const (
	// askAfter is how long a connection lies unused before it is asked whether
	// it still stands: what is on the way may have forgotten it without a word.
	askAfter = 5 * time.Second
	// askWithin bounds the answer to that.
	askWithin = 2 * time.Second
)

// conn is a connection that is logged in and between two mails.
type conn struct {
	line    *deliver.Line
	replies *bounded
	client  *smtp.Client
	age     kept.Age
}

// Close ends it.
func (c *conn) Close() { _ = c.line.Close() }

// Rest makes sure that all was read: what the server said beyond it would be
// taken for the answer to the next command.
func (c *conn) Rest() bool {
	c.line.Keep()
	return c.client.Text.R.Buffered() == 0 && !c.age.Over()
}

// Stands says whether a kept connection can be used.
func (c *conn) Stands(ctx context.Context, unused time.Duration) bool {
	if c.Ended() || unused < askAfter {
		return !c.Ended()
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	unhook := context.AfterFunc(ctx, c.Close)
	c.replies.left = maxReplyBytes
	err := c.client.Noop()
	return unhook() && err == nil && c.client.Text.R.Buffered() == 0
}

// Ended says whether the server has ended it.
func (c *conn) Ended() bool { return c.line.Dead() }

// maxReplyBytes bounds what a server may say while a connection is made, and
// during each mail.
const maxReplyBytes = 256 << 10

// bounded ends a connection whose other side says too much.
type bounded struct {
	net.Conn
	left int
}

var errTooMuch = errors.New("the server's replies are too long")

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// connector makes the connections to a target.
func (s *Sender) connector(t target) (kept.Maker[*conn], error) {
	return kept.Maker[*conn]{Dial: func(ctx context.Context) (*conn, error) { return s.dial(ctx, t) }}, nil
}

// dial makes a connection, up to the point where a mail can follow.
func (s *Sender) dial(ctx context.Context, t target) (_ *conn, err error) {
	line, err := deliver.DialLine(ctx, net.JoinHostPort(t.host, strconv.Itoa(t.port)), s.cfg.AllowPrivate, t.mode == destination.NoTLS)
	if err != nil {
		return nil, deliver.DialError(err, false, s.cfg.DialTimeout)
	}
	unhook := context.AfterFunc(ctx, func() { _ = line.Close() })
	c := &conn{line: line, replies: &bounded{line, maxReplyBytes}, age: kept.NewAge(s.cfg.MaxAge)}
	err = s.prepare(ctx, c, t)
	if !unhook() {
		err = deliver.DialError(context.Cause(ctx), false, s.cfg.DialTimeout)
	}
	if err != nil {
		_ = line.Close()
		return nil, err
	}
	return c, nil
}

func (s *Sender) prepare(ctx context.Context, c *conn, t target) error {
	config := &tls.Config{ServerName: t.host, RootCAs: s.cfg.RootCAs, MinVersion: tls.VersionTLS12}
	below := net.Conn(c.replies)
	if t.mode == destination.ImplicitTLS {
		encrypted := tls.Client(c.replies, config)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return deliver.DialError(err, true, s.cfg.DialTimeout)
		}
		below = encrypted
	}
	var err error
	if c.client, err = smtp.NewClient(below, t.host); err != nil {
		return &stepError{"greeting", err}
	}
	if err := c.client.Hello(s.cfg.Hello); err != nil {
		return &stepError{"EHLO", err}
	}
	if t.mode == destination.StartTLS {
		if err := s.startTLS(c.client, config); err != nil {
			return err
		}
	}
	return logIn(c.client, t)
}

// startTLS encrypts the connection or fails: what is asked for in clear text an
// attacker can leave out of the answer.
func (s *Sender) startTLS(client *smtp.Client, config *tls.Config) error {
	if offered, _ := client.Extension("STARTTLS"); !offered {
		return &tlsError{"the server offers no STARTTLS"}
	}
	err := client.StartTLS(config)
	reply := replyOf(err)
	switch {
	case reply != nil:
		return &tlsError{replyText("STARTTLS", reply)}
	case err != nil:
		return deliver.DialError(err, true, s.cfg.DialTimeout)
	}
	return nil
}

// logIn proves who we are. No error holds what the server answered: it may
// repeat what it was sent.
func logIn(client *smtp.Client, t target) error {
	if t.username == "" {
		return nil
	}
	if encrypted, err := client.GetTLSConnectionState(); err != nil || !encrypted.HandshakeComplete {
		return &loginError{text: "no log-in without TLS"}
	}
	_, offered := client.Extension("AUTH")
	name, auth := choose(strings.Fields(strings.ToUpper(offered)), t.username, t.password, t.host)
	if auth == nil {
		return &loginError{text: "the server offers no log-in that is known here: " + strings.Join(known, ", ")}
	}
	err := client.Auth(auth)
	reply := replyOf(err)
	switch {
	case err == nil:
		return nil
	case reply != nil:
		return &loginError{text: fmt.Sprintf("AUTH %s: %d, the log-in was refused", name, reply.Code), throttled: throttling(reply)}
	case broke(err):
		return &stepError{"AUTH", err}
	}
	return &loginError{text: fmt.Sprintf("AUTH %s: the log-in failed", name)}
}

// known are the log-ins we know, those first that do not show the password.
var known = []string{"SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN", "LOGIN", "CRAM-MD5"}

func choose(offered []string, username, password, host string) (string, smtp.Auth) {
	for _, name := range known {
		if !slices.Contains(offered, name) {
			continue
		}
		switch name {
		case "SCRAM-SHA-256":
			return name, smtp.ScramSHA256Auth(username, password)
		case "SCRAM-SHA-1":
			return name, smtp.ScramSHA1Auth(username, password)
		case "PLAIN":
			return name, smtp.PlainAuth("", username, password, host, false)
		case "LOGIN":
			return name, smtp.LoginAuth(username, password, host, false)
		case "CRAM-MD5":
			return name, smtp.CRAMMD5Auth(username, password)
		}
	}
	return "", nil
}
