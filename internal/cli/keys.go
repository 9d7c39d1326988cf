package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"tundish/internal/api"
)

type keysCreateCmd struct {
	Name         string   `arg:"" help:"The producer: who will use the key."`
	Scopes       []string `required:"" placeholder:"SCOPE,…" help:"What it may do: enqueue, read, payload, operate, manage."`
	Destinations []string `default:"*" placeholder:"PATTERN,…" help:"Destinations it sees, with * for any text. Default: all."`
	ExpiresAt    string   `name:"expires-at" placeholder:"TIME" help:"When it ends, such as 2027-01-01T00:00:00Z."`
}

var scopes = []string{
	string(api.ScopeEnqueue), string(api.ScopeRead), string(api.ScopePayload), string(api.ScopeOperate), string(api.ScopeManage),
}

const maxProducerName = 63

func (c *keysCreateCmd) check(p *problems) {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }
	if c.Name == "" || len(c.Name) > maxProducerName || strings.ContainsFunc(c.Name, odd) {
		p.add("NAME: give 1 to %d visible ASCII characters without a colon", maxProducerName)
	}
	for _, s := range c.Scopes {
		if !slices.Contains(scopes, s) {
			p.add("--scopes: %q is not a scope; the scopes are %s", s, strings.Join(scopes, ", "))
		}
	}
	for _, d := range c.Destinations {
		if d == "" || strings.Trim(d, "abcdefghijklmnopqrstuvwxyz0123456789._-*") != "" {
			p.add("--destinations: %q is not a pattern of a-z, 0-9, '.', '_', '-' and '*'", d)
		}
	}
	if c.ExpiresAt != "" {
		if _, err := time.Parse(time.RFC3339, c.ExpiresAt); err != nil {
			p.add("--expires-at: %q is not an RFC 3339 time with a zone, such as 2027-01-01T00:00:00Z", c.ExpiresAt)
		}
	}
}

// keysFile is what `keys create` writes of keys.yaml.
type keysFile struct {
	Producers []producerEntry `yaml:"producers" json:"producers"`
}

type producerEntry struct {
	Name         string     `yaml:"name" json:"name"`
	Keys         []keyEntry `yaml:"keys" json:"keys"`
	Scopes       []string   `yaml:"scopes,flow" json:"scopes"`
	Destinations []string   `yaml:"destinations,flow" json:"destinations"`
}

type keyEntry struct {
	SHA256    string `yaml:"sha256" json:"sha256"`
	ExpiresAt string `yaml:"expires_at,omitempty" json:"expires_at,omitempty"`
}

// run prints the key, this once and never again, and what keys.yaml needs to
// know it. Each form keeps the two apart: -o name is the key alone, -o yaml
// the file alone, with the key on stderr.
func (c *keysCreateCmd) run(_ context.Context, s *session) error {
	key, sum := api.GenerateKey()
	producer := producerEntry{Name: c.Name, Keys: []keyEntry{{sum, c.ExpiresAt}}, Scopes: c.Scopes, Destinations: c.Destinations}
	file, err := yaml.Marshal(keysFile{[]producerEntry{producer}})
	if err != nil {
		return err
	}
	switch s.flags.Output {
	case formName:
		return s.printf("%s\n", key)
	case formJSON:
		return s.write(append(encode(map[string]any{"key": key, "producer": producer}), '\n'))
	case formYAML:
		report(s.stderr, &failure{text: "the key, shown this once: " + key})
		return s.write(file)
	}
	s.talk("The key is shown this once; the server keeps only its hash.")
	return s.printf("%s\n\n# for keys.yaml\n%s", key, file)
}
