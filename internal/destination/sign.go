package destination

import "strings"

// Sign says how requests are signed, so that the destination knows the sender.
type Sign struct {
	Scheme  SignScheme // empty: not signed
	Secrets []string   // each with a reference; more than one while secrets are being changed
}

// SignScheme names how a signature is made.
type SignScheme string

// StandardWebhooks signs id, time and body as the Standard Webhooks specification says.
const StandardWebhooks SignScheme = "standard_webhooks"

// maxSignSecrets bounds the signatures of a request; two are enough to change a secret.
const maxSignSecrets = 5

func (o *object) given(name string) bool { return o.v.fields[name] != nil }

func sign(o *object) Sign {
	v := o.get("sign")
	if v == nil {
		return Sign{}
	}
	o = o.p.open(v, o.part)
	defer o.close()
	s := Sign{Scheme: SignScheme(o.choice("scheme", "", string(StandardWebhooks)))}
	if !o.given("scheme") {
		o.missing("scheme", string(StandardWebhooks))
	}
	for _, item := range o.items("secrets", maxSignSecrets) {
		s.Secrets = append(s.Secrets, secretText(o.p, item))
	}
	if v := o.v.fields["secrets"]; v == nil {
		o.missing("secrets", "a list of 1 to 5 references, such as ${file:/run/secrets/bank}")
	} else if v.kind == list && len(v.items) == 0 {
		o.p.invalid(v, "secrets: the list is empty; give 1 to %d references", maxSignSecrets)
	}
	return s
}

// signatureHeader says whether a signed request has a header of its own of this name.
func signatureHeader(name string) bool {
	switch strings.ToLower(name) {
	case "webhook-id", "webhook-timestamp", "webhook-signature":
		return true
	}
	return false
}

// signatureIsFree refuses fixed headers that would stand where the signature goes.
func signatureIsFree(c *Contract, root *value, p *problems) {
	if c.Target.Sign.Scheme == "" {
		return
	}
	for _, h := range c.Target.Headers {
		if signatureHeader(h.Name) {
			p.invalid(root.find("target.http.headers").fields[h.Name], "headers: %s is set by target.http.sign", h.Name)
		}
	}
	if signatureHeader(c.Idempotency.Header) {
		p.invalid(root.find("idempotency.header"), "idempotency.header (%s) is set by target.http.sign", c.Idempotency.Header)
	}
}
