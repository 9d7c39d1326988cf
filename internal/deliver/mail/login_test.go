package mail

import (
	"context"
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // what CRAM-MD5 is made of
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"net/textproto"
	"strings"
	"testing"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// values are what references stand for, by name.
type values map[string]string

func (v values) Value(_ *destination.Contract, r destination.Reference) (string, error) {
	if value, ok := v[r.Name]; ok {
		return value, nil
	}
	return "", fmt.Errorf("%s: is not known", r)
}

func TestLogInsAreChosenByStrength(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ offered, want string }{
		{"PLAIN LOGIN SCRAM-SHA-1 SCRAM-SHA-256", "SCRAM-SHA-256"}, {"PLAIN SCRAM-SHA-1", "SCRAM-SHA-1"}, {"LOGIN", "LOGIN"},
		{"CRAM-MD5 PLAIN", "PLAIN"}, {"CRAM-MD5", "CRAM-MD5"}, {"NTLM XOAUTH2", ""}, {"", ""},
	} {
		if name, auth := choose(strings.Fields(tc.offered), username, password, "h"); name != tc.want || (auth == nil) != (tc.want == "") {
			t.Errorf("of %q %q is chosen, want %q", tc.offered, name, tc.want)
		}
	}
}

// Servers that know old log-ins alone, and the words they ask with.
func TestOldLogIns(t *testing.T) {
	t.Parallel()
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	digest := hmac.New(md5.New, []byte(password))
	digest.Write([]byte("<1@office.test>"))
	cram := b64(username + " " + hex.EncodeToString(digest.Sum(nil)))
	for name, tc := range map[string]struct {
		says map[string]string
		want job.Outcome
		text string
	}{
		"LOGIN": {map[string]string{"EHLO": "250-x\r\n250 AUTH LOGIN", "AUTH": "334 " + b64("User name?"), b64(username): "334 " + b64("Secret?"), b64(password): "235 in"},
			job.OutcomeDelivered, ""},
		"LOGIN, refused": {map[string]string{"EHLO": "250-x\r\n250 AUTH LOGIN", "AUTH": "334 ", b64(username): "334 ", b64(password): "535 not " + password},
			job.OutcomeAuth, "AUTH LOGIN: 535, the log-in was refused"},
		"CRAM-MD5": {map[string]string{"EHLO": "250-x\r\n250 AUTH CRAM-MD5", "AUTH": "334 " + b64("<1@office.test>"), cram: "235 in"}, job.OutcomeDelivered, ""},
		"none known": {map[string]string{"EHLO": "250-x\r\n250 AUTH NTLM"}, job.OutcomeAuth,
			"the server offers no log-in that is known here: SCRAM-SHA-256, SCRAM-SHA-1, PLAIN, LOGIN, CRAM-MD5"},
		"none offered": {nil, job.OutcomeAuth, "the server offers no log-in that is known here: SCRAM-SHA-256, SCRAM-SHA-1, PLAIN, LOGIN, CRAM-MD5"},
		"too many": {map[string]string{"EHLO": "250-x\r\n250 AUTH PLAIN", "AUTH": "454 4.7.0 too many log-ins"}, job.OutcomeThrottled,
			"AUTH PLAIN: 454, the log-in was refused"},
		"cut": {map[string]string{"EHLO": "250-x\r\n250 AUTH PLAIN", "AUTH": cut}, job.OutcomeConnect, "AUTH: the other side closed the connection"},
		"no base64": {map[string]string{"EHLO": "250-x\r\n250 AUTH LOGIN", "AUTH": "334 %"}, job.OutcomeAuth,
			"AUTH LOGIN: the log-in failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			o := playOn(t, tls.NewListener(l, authority().server()), tc.says)
			a := attemptOf(t, o.Addr().String(), destination.ImplicitTLS, hello())
			a.Contract.SMTP.Username, a.Contract.SMTP.Password = username, password
			r := newSender(t).Send(context.Background(), a)
			if r.Outcome != tc.want || r.Error != tc.text {
				t.Errorf("%+v, want %s: %s", r, tc.want, tc.text)
			}
		})
	}
}

func TestRepliesThatAskForLess(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"421 4.7.0 Too many connections from your host":                                       true,
		"421 4.7.28 Our system has detected an unusual rate":                                  true,
		"454 Throttling failure: Maximum sending rate exceeded.":                              true,
		"451 4.7.650 temporarily rate limited":                                                true,
		"450 4.7.1 Error: too much mail from 1.2.3.4":                                         true,
		"421 4.3.2 Too many concurrent sessions":                                              true,
		"452 4.5.3 Too many recipients":                                                       false,
		"450 4.2.1 The user is receiving mail too quickly":                                    false,
		"451 4.7.1 Greylisted, please try again later":                                        false,
		"421 4.3.0 shutting down, moderate your expectations":                                 false,
		"550 5.7.1 rate limit":                                                                false,
		"250 too many":                                                                        false,
		"421 4.4.2 Message submission rate for this client has exceeded the configured limit": true,
		"421 4.4.2 mx.example Error: timeout exceeded":                                        false,
		"452 too many recipients":                                                             false,
		"421 too many messages in this connection":                                            false,
		"421 4.7.0 Too many messages on this connection":                                      false,
	} {
		if got := throttling(replyIn(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// What is about one mail must not stop the others; what is about the server must.
func TestRepliesAboutTheMailAndAboutTheServer(t *testing.T) {
	t.Parallel()
	const mail, server, one = "mail", "server", "mail at a recipient, else server"
	for text, want := range map[string]string{
		"450 4.2.0 <ann@a.example>: Recipient address rejected: Greylisted": mail,
		"451 4.7.1 Greylisting in action, please come back in 00:05:00":     mail,
		"451 Graylisted, try later":                                         mail,
		"451 4.7.1 Greylisted: too many new senders, try later":             mail,
		"421 4.7.0 greylisted":                                              mail,
		"450 4.2.1 The user is receiving mail too quickly":                  mail,
		"452 4.2.2 mailbox full":                                            mail,
		"452 4.5.3 too many recipients":                                     mail,
		"450 4.1.8 cannot find your domain":                                 mail,
		"421 too many messages in this connection":                          mail,
		"450 mailbox busy":                                                  mail,
		"451 Temporary failure, please try again later":                     one,
		"452 no room": one,
		"451 4.4.3 cannot resolve the recipient's domain": one,
		"451 4.0.0 something":                             one,
		"451 4.3.0 Temporary lookup failure":              server,
		"452 4.3.1 Insufficient system storage":           server,
		"421 4.3.2 shutting down":                         server,
		"421 4.4.2 timeout exceeded":                      server,
		"421 Service not available":                       server,
	} {
		reply := replyIn(text)
		for recipient, about := range map[bool]bool{true: want != server, false: want == mail} {
			outcome := map[bool]job.Outcome{true: job.OutcomePostponed, false: job.OutcomeUnready}[about]
			if got := replyOutcome(reply, recipient); got != outcome {
				t.Errorf("%s, to a recipient %v: %s, want %s", text, recipient, got, outcome)
			}
		}
	}
}

// replyIn reads a reply of one line.
func replyIn(text string) *textproto.Error {
	return &textproto.Error{Code: int(text[0]-'0')*100 + int(text[1]-'0')*10 + int(text[2]-'0'), Msg: text[4:]}
}
