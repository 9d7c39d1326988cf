package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	webhook "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tundish/internal/redistest"
)

// plants are secrets that a test has put somewhere, and where.
type plants map[string]string

// plant makes a secret that is found again wherever it turns up.
func (p plants) plant(where string) string {
	s := fmt.Sprintf("PLANT-%s-%d", where, time.Now().UnixNano())
	p[s] = where
	return s
}

// within fails the test for each secret, in any spelling, in a text.
func (p plants) within(t testing.TB, place, text string) {
	t.Helper()
	for s, where := range p {
		b := []byte(s)
		for _, spelling := range []string{s, base64.StdEncoding.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b), hex.EncodeToString(b), url.QueryEscape(s)} {
			if strings.Contains(text, spelling) {
				t.Errorf("%s holds the secret of %s", place, where)
			}
		}
	}
}

// vault is a folder of secrets.
type vault struct {
	*rig
	plants
	dir string
}

func (v *vault) file(name, text string) string {
	v.Helper()
	path := filepath.Join(v.dir, name)
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		v.Fatal(err)
	}
	return path
}

// pair makes a certificate and its key in files; a line of the key is planted.
func (v *vault) pair() (cert, key string) {
	v.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		v.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		v.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		v.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	v.plants[strings.Split(text, "\n")[2]] = "tls key"
	return v.file("client.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))), v.file("client.key", text)
}

// secure is a destination with TLS that asks for a certificate; ca is the file
// of who made its own, and config serves others with it.
func (v *vault) secure(got chan<- received) (url, ca string, config *tls.Config) {
	v.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body) // a torn one shows in what is kept
		header := q.Header.Clone()
		header.Set("Test-Certificates", fmt.Sprint(len(q.TLS.PeerCertificates)))
		got <- received{method: q.Method, body: string(body), header: header}
		_, _ = io.WriteString(w, "taken: "+q.Header.Get("X-Token")+" "+q.Header.Get("Authorization"))
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	v.Cleanup(s.Close)
	return s.URL, v.file("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))),
		&tls.Config{Certificates: s.TLS.Certificates}
}

// issuer gives a token, planted as well; broken repeats what it was sent.
func (v *vault) issuer() string {
	token := v.plant("token")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/broken" {
			w.WriteHeader(http.StatusBadRequest)
			id, secret, _ := q.BasicAuth()
			fmt.Fprintf(w, `{"error":%q,"error_description":%q}`, id, secret)
			return
		}
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","expires_in":3600}`, token)
	}))
	v.Cleanup(s.Close)
	return s.URL
}

// dump is all that Redis holds, as text.
func dump(t testing.TB, client redis.UniversalClient) string {
	t.Helper()
	ctx := context.Background()
	var out strings.Builder
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, key := range keys {
		fmt.Fprintln(&out, key)
		var value any
		switch kind := client.Type(ctx, key).Val(); kind {
		case "string":
			value, err = client.Get(ctx, key).Result()
		case "hash":
			value, err = client.HGetAll(ctx, key).Result()
		case "zset":
			value, err = client.ZRangeWithScores(ctx, key, 0, -1).Result()
		case "set":
			value, err = client.SMembers(ctx, key).Result()
		case "list":
			value, err = client.LRange(ctx, key, 0, -1).Result()
		case "none": // ended meanwhile
		default:
			t.Errorf("%s is a %s, which is not looked at", key, kind)
		}
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		fmt.Fprintf(&out, "%q\n%v\n", value, value)
	}
	return out.String()
}

// A secret in every place where one can be configured reaches the destination
// and nothing else: no log, metric, answer, key of Redis, error or argument.
func TestSecretsReachTheDestinationAlone(t *testing.T) {
	t.Parallel()
	p := plants{}
	password := p.plant("redis password")
	r := newRig(t, false, redistest.WithPassword(password))
	v := &vault{r, p, t.TempDir()}
	sealKey := base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("%-32.32s", p.plant("seal key"))))
	p[sealKey] = "seal key"
	flags := []string{"--redis-url-file", v.file("redis", "redis://:"+password+"@"+r.redis.Addr()+"/0"), "--seal-keys", v.file("seal", "k1:"+sealKey), "--log-level", "debug"}
	got := make(chan received, 16)
	bankURL, ca, config := v.secure(got)
	r.env = []string{"BANK_TOKEN=" + p.plant("env"), "SSL_CERT_FILE=" + ca} // for the mail server, which has no ca_file
	r.startEnqueuer(flags...)
	r.startWorkers(2, flags...)

	signing := "whsec_" + base64.StdEncoding.EncodeToString([]byte(p.plant("signing key")))
	p[signing] = "signing secret"
	sealed, client := p.plant("api"), p.plant("client secret")
	cert, key := v.pair()
	put := func(name, doc string, want int) {
		t.Helper()
		p.within(t, "the answer to PUT "+name, string(r.do(http.MethodPut, r.at(name), doc, want).body))
	}
	put("bank", fmt.Sprintf(`{"secrets":{"password":%q},`, sealed)+target(bankURL, fmt.Sprintf(`"headers":{"X-Token":"t ${env:BANK_TOKEN}"},
		"auth":{"basic":{"username":"tundish","password":"${secret:password}"}},"sign":{"scheme":"standard_webhooks","secrets":["${file:%s}"]},
		"tls":{"ca_file":%q,"cert_file":%q,"key_file":%q},"keep_response":{"body":"1KiB"}`, v.file("sign", signing), ca, cert, key))[1:], http.StatusCreated)
	oauth2 := func(path string) string {
		return target(recorder(t, got), fmt.Sprintf(`"auth":{"oauth2":{"token_url":%q,"client_id":"tundish","client_secret":"${file:%s}"}}`, v.issuer()+path, v.file("client", client)))
	}
	put("pay", oauth2("/token"), http.StatusCreated)
	put("broken", oauth2("/broken"), http.StatusCreated)
	put("missing", target(recorder(t, got), `"headers":{"X":"${env:BANK_TOKEN} ${env:NOT_SET}"}`), http.StatusCreated)
	office, mailPassword := r.startPostOffice(config), p.plant("mail password")
	for name, user := range map[string]string{"mail": "shop", "nomail": wrongUser} {
		put(name, fmt.Sprintf(`{"secrets":{"user":%q,"password":%q},"target":{"smtp":{"host":"127.0.0.1","port":%d,"from":"shop@b.example",
			"username":"${secret:user}","password":"${secret:password}"}},"limits":[{"rate":10,"per":"1s"}]}`, user, mailPassword, office.addr.Port), http.StatusCreated)
	}
	put("wrong", `{"secrets":{"a":"`+sealed+`","b":{"c":"`+sealed+`"}},"target":{"http":{"url":"http://`+sealed+`@h","auth":{"basic":{"username":"a","password":"`+sealed+`"}},"sign":"`+sealed+`"},"smtp":{"host":"h","from":"a@b","username":"u","password":"`+mailPassword+`"}}}`, http.StatusUnprocessableEntity)

	taken := ""
	for _, name := range []string{"bank", "pay"} {
		ids := r.push(name, 1)
		if name == "bank" {
			taken = ids[0]
		}
		var q received
		select {
		case q = <-got:
		case <-time.After(patience):
			t.Fatalf("nothing arrived at %s", name)
		}
		want := map[string]string{"X-Token": "t " + strings.TrimPrefix(r.env[0], "BANK_TOKEN="), "Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("tundish:"+sealed)), "Test-Certificates": "1"}
		if name == "pay" {
			want = map[string]string{}
			if auth := q.header.Get("Authorization"); !strings.HasPrefix(auth, "Bearer PLANT-token-") {
				t.Errorf("pay got %q", auth)
			}
		} else if receiver, err := webhook.NewWebhook(signing); err != nil || receiver.Verify([]byte(q.body), q.header) != nil {
			t.Errorf("the signature does not verify (%v)", err)
		}
		for header, value := range want {
			if q.header.Get(header) != value {
				t.Errorf("%s got %s: %q, want %q", name, header, q.header.Get(header), value)
			}
		}
		r.settled(name)
	}
	const mail = `{"email":{"to":"ann@a.example","text":"t"}}`
	r.pushBatch("mail", mail)
	r.settled("mail")
	if logins := office.logIns(); len(logins) != 1 || logins[0] != "shop "+mailPassword {
		t.Errorf("log-ins at the mail server: %q", logins)
	}
	lost, refused := r.push("broken", 1), r.pushBatch("nomail", mail)
	if a := r.do(http.MethodGet, r.at("bank")+"/jobs/"+taken, "", http.StatusOK); !strings.Contains(string(a.body), `"body":"taken: t ${env:BANK_TOKEN} (credentials)"`) {
		t.Errorf("of the answer was kept: %s", a.body)
	}

	r.push("missing", 1)
	r.eventually("an attempt without a token", patience, func() bool { return len(r.job("broken", lost[0]).Attempts) > 0 })
	r.eventually("a refused log-in", patience, func() bool { return len(r.job("nomail", refused[0]).Attempts) > 0 })
	r.eventually("a destination without its secret", patience, func() bool { return r.live("missing").State == "faulty" })

	for _, s := range append(r.enqueuers, r.workers...) {
		p.within(t, "the log of "+s.name, s.log())
		p.within(t, "the arguments of "+s.name, readFile(t, fmt.Sprintf("/proc/%d/cmdline", s.cmd.Process.Pid)))
		for _, page := range []string{"/metrics", "/readyz", "/healthz"} {
			p.within(t, page+" of "+s.name, string(r.do(http.MethodGet, s.admin+page, "", http.StatusOK).body))
		}
	}
	for _, page := range []string{"", "/bank", "/pay", "/broken", "/broken/jobs/" + lost[0], "/missing", "/mail", "/nomail", "/nomail/jobs/" + refused[0]} {
		a := r.do(http.MethodGet, r.enqueuers[0].url+"/v1/destinations"+page, "", http.StatusOK)
		p.within(t, "GET "+page, fmt.Sprint(a.header, string(a.body)))
	}
	all := dump(t, r.redis.Client(t))
	p.within(t, "Redis", all)
	if !strings.Contains(all, "k1:") || !strings.Contains(all, ":pay:token") {
		t.Error("nothing sealed is in Redis: what is looked at is not all")
	}
}
