package destination

import "strings"

// Auth says how a worker proves to the destination who it is. At most one is set.
type Auth struct {
	Basic  *Basic
	OAuth2 *OAuth2
}

// Basic is HTTP Basic authentication (RFC 7617).
type Basic struct {
	Username string
	Password string // with a reference
}

// OAuth2 is the client credentials grant (RFC 6749, section 4.4).
type OAuth2 struct {
	TokenURL     string
	ClientID     string
	ClientSecret string // with a reference
	Scopes       []string
}

const (
	maxScopes   = 32
	maxIDBytes  = 1024
	maxScopeLen = 256
)

func auth(o *object) Auth {
	v := o.get("auth")
	if v == nil {
		return Auth{}
	}
	o = o.p.open(v, o.part)
	defer o.close()
	basic, oauth2 := o.given("basic"), o.given("oauth2")
	switch {
	case basic && oauth2:
		o.p.invalid(v, "auth: basic and oauth2 exclude each other; give one")
	case !basic && !oauth2 && v.kind == dict && !o.part:
		o.p.invalid(v, "auth: is empty; give basic or oauth2")
	}
	var a Auth
	if basic {
		a.Basic = basicAuth(o.section("basic"))
	}
	if oauth2 {
		a.OAuth2 = clientCredentials(o.section("oauth2"))
	}
	o.get("basic") // known, also when not given
	o.get("oauth2")
	return a
}

func basicAuth(o *object) *Basic {
	defer o.close()
	return &Basic{Username: o.withReferences("username"), Password: o.secret("password")}
}

func clientCredentials(o *object) *OAuth2 {
	defer o.close()
	a := &OAuth2{TokenURL: o.url("token_url"), ClientID: o.withReferences("client_id"), ClientSecret: o.secret("client_secret")}
	for _, item := range o.items("scopes", maxScopes) {
		if item.kind != text || !scope(item.text) {
			o.p.invalid(item, "%s: not a scope; give 1 to %d visible ASCII characters without blanks, \" and \\", item.label(), maxScopeLen)
			continue
		}
		a.Scopes = append(a.Scopes, item.text)
	}
	return a
}

// scope is a scope-token of RFC 6749, section 3.3.
func scope(s string) bool {
	return s != "" && len(s) <= maxScopeLen && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}

// secret reads a field that must be given and hold a reference.
func (o *object) secret(name string) string {
	v := o.get(name)
	if v == nil {
		o.missing(name, "a reference: "+wantReference)
	}
	return secretText(o.p, v)
}

// withReferences reads a text that must be given and may hold references.
func (o *object) withReferences(name string) string {
	v := o.get(name)
	if v == nil {
		o.missing(name, "text, or a reference: "+wantReference)
		return ""
	}
	_, wrong := references(v.text)
	switch {
	case v.kind != text || v.text == "" || len(v.text) > maxIDBytes || !fieldValue(v.text):
		o.p.invalid(v, "%s: give 1 to %d visible ASCII characters and spaces, none at the ends", v.label(), maxIDBytes)
	case wrong != "":
		o.p.invalid(v, "%s: %s", v.label(), wrong)
	}
	return v.text
}

// texts are the values of an Auth in which references may stand.
func (a *Auth) texts() []string {
	switch {
	case a.Basic != nil:
		return []string{a.Basic.Username, a.Basic.Password}
	case a.OAuth2 != nil:
		return []string{a.OAuth2.ClientID, a.OAuth2.ClientSecret}
	}
	return nil
}

// authorizationIsFree refuses a fixed header that would stand where auth puts its own.
func authorizationIsFree(c *Contract, root *value, p *problems) {
	if c.Target.Auth == (Auth{}) {
		return
	}
	for _, h := range c.Target.Headers {
		if strings.EqualFold(h.Name, "Authorization") {
			p.invalid(root.find("target.http.headers").fields[h.Name], "headers: %s is set by target.http.auth", h.Name)
		}
	}
	if strings.EqualFold(c.Idempotency.Header, "Authorization") {
		p.invalid(root.find("idempotency.header"), "idempotency.header (%s) is set by target.http.auth", c.Idempotency.Header)
	}
}

// inTheClear warns of secrets that anybody on the way can read.
func inTheClear(c *Contract) []string {
	var all []string
	if o := c.Target.Auth.OAuth2; o != nil && strings.HasPrefix(o.TokenURL, "http:") {
		all = append(all, "target.http.auth.oauth2.token_url: begins with http:; the client's secret and the token go over the network in the clear")
	}
	if c.Target.Auth != (Auth{}) && strings.HasPrefix(c.Target.URL, "http:") {
		all = append(all, "target.http.auth: target.http.url begins with http:; the credentials go over the network in the clear")
	}
	return all
}
