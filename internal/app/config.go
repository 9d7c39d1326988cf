package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/redisdb"
	"tundish/internal/secret"
)

// Common holds the flags of both services. All values are text until Validate
// has looked at them, so that every bad one is reported at once.
type Common struct {
	RedisURL     string           `name:"redis-url" default:"redis://127.0.0.1:6379/0" help:"Redis: redis://, rediss://, unix://; several hosts make a Cluster; redis+sentinel://h1,h2/master."`
	RedisURLFile string           `name:"redis-url-file" help:"File that holds the Redis URL, instead of --redis-url."`
	SealKeys     string           `name:"seal-keys" help:"File of keys that seal secrets given through the API: lines of <key id>:<base64 of 32 bytes>; the first seals, all open."`
	Namespace    string           `default:"default" help:"Two installations on one Redis never meet when their namespaces differ."`
	LogLevel     string           `name:"log-level" default:"info" help:"debug, info, warn or error."`
	LogFormat    string           `name:"log-format" default:"text" help:"text or json."`
	Pprof        bool             `help:"Serve /debug/pprof on the admin address."`
	Check        bool             `help:"Validate flags and files, and exit."`
	Version      kong.VersionFlag `env:"-" help:"Show the version, and exit."`

	sealKeys *secret.Keyring // of SealKeys; nil: none
	fitEvery time.Duration   // how often the settings of Redis are looked at; 0: as usual
}

// ConfigError lists everything that is wrong with a configuration.
type ConfigError struct{ Problems []string }

func (e *ConfigError) Error() string { return strings.Join(e.Problems, "\n") }

// problems collects what is wrong.
type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// check adds an error: one that lists several problems as so many.
func (p *problems) check(err error, what string) {
	if err == nil {
		return
	}
	if e, ok := errors.AsType[*job.Error](err); ok && len(e.Fields) > 0 {
		for _, f := range e.Fields {
			p.add("%s: %s", what, f)
		}
		return
	}
	p.add("%s: %v", what, err)
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return &ConfigError{p}
}

func (c *Common) validate(p *problems) {
	c.redisURL(p)
	_, err := redisdb.NewKeys(c.Namespace)
	p.check(err, "--namespace")
	if _, err := parseLevel(c.LogLevel); err != nil {
		p.add("--log-level: %q is not one of debug, info, warn, error", c.LogLevel)
	}
	if c.SealKeys != "" {
		c.sealKeys, err = secret.LoadKeyring(c.SealKeys)
		p.check(err, "--seal-keys")
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		p.add("--log-format: %q is not text or json", c.LogFormat)
	}
}

// ownFiles are the files that hold our own secrets: no contract may have them sent.
func (c *Common) ownFiles() []string {
	return slices.DeleteFunc([]string{c.SealKeys, c.RedisURLFile}, func(path string) bool { return path == "" })
}

// seal is how secrets are sealed that come through the API; nil without keys.
func (c *Common) seal() func(destination, name, value string) string {
	if c.sealKeys == nil {
		return nil
	}
	return c.sealKeys.Seal
}

// redisURL looks at the URL where it was given; of a file that cannot be read
// there is nothing more to say.
func (c *Common) redisURL(p *problems) {
	from := "--redis-url"
	if c.RedisURLFile != "" {
		from = "--redis-url-file"
		text, err := os.ReadFile(c.RedisURLFile)
		if err != nil {
			p.check(err, from)
			return
		}
		c.RedisURL = strings.TrimSpace(string(text))
		if c.RedisURL == "" {
			p.add("%s: the file is empty", from)
			return
		}
	}
	p.check(redisdb.CheckURL(c.RedisURL), from)
}

func parseLevel(s string) (slog.Level, error) {
	var l slog.Level
	err := l.UnmarshalText([]byte(s))
	return l, err
}

// Logger makes the logger that the flags ask for, on stderr.
func (c *Common) Logger() *slog.Logger {
	level, _ := parseLevel(c.LogLevel) // Validate has looked
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}

// whole reads a whole number in a range.
func (p *problems) whole(flag, text string, low, high int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		p.add("%s: %q is not a whole number from %d to %d", flag, text, low, high)
	}
	return n
}

func (p *problems) duration(flag, text string, low, high time.Duration) time.Duration {
	d, err := destination.ParseDuration(text)
	if err != nil {
		p.add("%s: %v", flag, err)
	} else if d < low || d > high {
		p.add("%s: %s is not from %s to %s", flag, text, low, high)
	}
	return d
}

func (p *problems) prefixes(flag string, texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if addr, errAddr := netip.ParseAddr(text); errAddr == nil {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			p.add("%s: %q is not an address or a range such as 10.0.0.0/8", flag, text)
			continue
		}
		out = append(out, prefix)
	}
	return out
}

// address checks host:port and says whether it is loopback only.
func (p *problems) address(flag, text string) (loopback bool) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		p.add("%s: %q is not host:port", flag, text)
		return true
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		p.add("%s: port %q is not from 0 to 65535", flag, port)
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// apart reports two addresses of which only one could be listened on. Port 0
// is any that is free.
func (p *problems) apart(flag, text, other, otherText string) {
	host, port, err := net.SplitHostPort(text)
	otherHost, otherPort, errOther := net.SplitHostPort(otherText)
	if err != nil || errOther != nil { // that has been told
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n == 0 || port != otherPort {
		return
	}
	host, otherHost = strings.ReplaceAll(host, "localhost", "127.0.0.1"), strings.ReplaceAll(otherHost, "localhost", "127.0.0.1")
	if host == otherHost || everywhere(host) || everywhere(otherHost) {
		p.add("%s and %s: %s and %s cannot both be listened on; give them different ports", flag, other, text, otherText)
	}
}

// everywhere says whether host stands for all addresses of the machine.
func everywhere(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.IsUnspecified()
}
