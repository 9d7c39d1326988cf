package destination

import "tundish/internal/job"

// FilledHTTP is an HTTP target. A header is a text, or a list when its name is repeated.
type FilledHTTP struct {
	URL     string         `json:"url"`
	Method  string         `json:"method"`
	Headers map[string]any `json:"headers,omitempty"`
	Timeout string         `json:"timeout"`
	Sign    *FilledSign    `json:"sign,omitempty"`
	Auth    *FilledAuth    `json:"auth,omitempty"`
	TLS     *FilledTLS     `json:"tls,omitempty"`
	Keep    *FilledKeep    `json:"keep_response,omitempty"`
	HTTP2   bool           `json:"http2"`
}

// FilledSign is how requests are signed; the secrets are references.
type FilledSign struct {
	Scheme  string   `json:"scheme"`
	Secrets []string `json:"secrets"`
}

// FilledAuth is how a worker proves who it is; the secrets are references.
type FilledAuth struct {
	Basic  *FilledBasic  `json:"basic,omitempty"`
	OAuth2 *FilledOAuth2 `json:"oauth2,omitempty"`
}

// FilledBasic is HTTP Basic authentication.
type FilledBasic struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// FilledOAuth2 is the client credentials grant.
type FilledOAuth2 struct {
	TokenURL     string   `json:"token_url"`
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret"`
	Scopes       []string `json:"scopes,omitempty"`
}

// FilledTLS is the certificates of a target.
type FilledTLS struct {
	CAFile     string `json:"ca_file,omitempty"`
	CertFile   string `json:"cert_file,omitempty"`
	KeyFile    string `json:"key_file,omitempty"`
	ServerName string `json:"server_name,omitempty"`
}

// FilledKeep is what is kept of an answer.
type FilledKeep struct {
	Body    string   `json:"body"`
	Headers []string `json:"headers,omitempty"`
}

func filledHTTP(t HTTPTarget) FilledHTTP {
	headers := make([]job.Header, len(t.Headers))
	for i, h := range t.Headers {
		headers[i] = job.Header(h)
	}
	f := FilledHTTP{URL: t.URL, Method: t.Method, Headers: job.HeaderMap(headers), Timeout: FormatDuration(t.Timeout), HTTP2: t.HTTP2}
	if t.Sign.Scheme != "" {
		f.Sign = &FilledSign{string(t.Sign.Scheme), t.Sign.Secrets}
	}
	if t.TLS != (TLS{}) {
		f.TLS = (*FilledTLS)(&t.TLS)
	}
	if t.Keep.Body > 0 || len(t.Keep.Headers) > 0 {
		f.Keep = &FilledKeep{FormatSize(t.Keep.Body), t.Keep.Headers}
	}
	f.Auth = filledAuth(t.Auth)
	return f
}

func filledAuth(a Auth) *FilledAuth {
	if a == (Auth{}) {
		return nil
	}
	return &FilledAuth{(*FilledBasic)(a.Basic), (*FilledOAuth2)(a.OAuth2)}
}
