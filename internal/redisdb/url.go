package redisdb

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Mode says what kind of Redis a URL names.
type Mode string

// The modes.
const (
	Single   Mode = "single"
	Cluster  Mode = "cluster"
	Sentinel Mode = "sentinel"
)

// forms is what an error about a URL says is allowed.
const forms = "allowed: redis://[user:password@]host:port/db, rediss:// for TLS, unix://[user:password@]/path?db=0, " +
	"redis://host1:port,host2:port/ for Cluster, redis+sentinel://host1:port,host2:port/master?db=0&sentinel_password=…"

// target is a URL, read.
type target struct {
	mode     Mode
	tls      bool
	unix     bool
	addrs    []string // host:port; the path of a socket
	username string
	password string
	db       int

	master           string // with Sentinel
	sentinelUsername string
	sentinelPassword string
}

// schemes maps a scheme to what it fixes.
var schemes = map[string]target{
	"redis":           {mode: Single},
	"rediss":          {mode: Single, tls: true},
	"unix":            {mode: Single, unix: true},
	"redis+cluster":   {mode: Cluster},
	"rediss+cluster":  {mode: Cluster, tls: true},
	"redis+sentinel":  {mode: Sentinel},
	"rediss+sentinel": {mode: Sentinel, tls: true},
}

// CheckURL says what is wrong with a URL, without its password.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

// parseURL reads a URL. It does not use url.Parse, which refuses several hosts
// and quotes the whole URL, password included, in its errors.
func parseURL(raw string) (target, error) {
	t, err := readURL(raw)
	if err != nil {
		return target{}, fmt.Errorf("redis URL: %w; %s", err, forms)
	}
	return t, nil
}

func readURL(raw string) (target, error) {
	scheme, rest, found := strings.Cut(raw, "://")
	t, known := schemes[scheme]
	if !found || !known {
		return t, errors.New("the scheme is not known")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	hosts := authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		hosts = authority[i+1:]
		if err := t.readUser(authority[:i]); err != nil {
			return t, err
		}
	}
	if err := t.readQuery(query); err != nil {
		return t, err
	}
	if t.unix {
		return t, t.readSocket(hosts, path)
	}
	if err := t.readHosts(hosts); err != nil {
		return t, err
	}
	return t, t.readPath(strings.Trim(path, "/"))
}

func (t *target) readUser(user string) error {
	name, password, _ := strings.Cut(user, ":")
	var err1, err2 error
	t.username, err1 = url.PathUnescape(name)
	t.password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return errors.New("the user or password has a bad %-escape")
	}
	return nil
}

func (t *target) readQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the part after '?' cannot be read")
	}
	for name, v := range values {
		value := v[len(v)-1]
		switch {
		case name == "db":
			if err := t.readDB(value); err != nil {
				return err
			}
		case name == "sentinel_username" && t.mode == Sentinel:
			t.sentinelUsername = value
		case name == "sentinel_password" && t.mode == Sentinel:
			t.sentinelPassword = value
		default:
			return fmt.Errorf("the parameter %.40q is not known here", name)
		}
	}
	return nil
}

func (t *target) readDB(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return errors.New("the database must be a number, 0 or more")
	}
	t.db = n
	return nil
}

func (t *target) readSocket(hosts, path string) error {
	if hosts != "" || path == "" || path == "/" {
		return errors.New("unix:// needs the absolute path of a socket and no host")
	}
	t.addrs = []string{path}
	return nil
}

func (t *target) readHosts(list string) error {
	port := "6379"
	if t.mode == Sentinel {
		port = "26379"
	}
	for _, h := range strings.Split(list, ",") {
		addr, err := hostPort(h, port)
		if err != nil {
			return err
		}
		t.addrs = append(t.addrs, addr)
	}
	if len(t.addrs) > 1 && t.mode == Single {
		t.mode = Cluster
	}
	return nil
}

func hostPort(s, port string) (string, error) {
	host := s
	switch {
	case strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]"):
		host = s[1 : len(s)-1]
	case strings.Contains(s, ":"):
		var err error
		if host, port, err = net.SplitHostPort(s); err != nil {
			return "", errors.New("a host has more than one ':' (write IPv6 in brackets, and %-escape '/', '?' and '#' in a password)")
		}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", errors.New("a port is not a number from 1 to 65535")
	}
	if host == "" || strings.ContainsAny(host, " \t#@") {
		return "", errors.New("a host is missing or not valid")
	}
	return net.JoinHostPort(host, port), nil
}

func (t *target) readPath(path string) error {
	switch {
	case t.mode == Sentinel:
		if path == "" || strings.Contains(path, "/") {
			return errors.New("redis+sentinel:// needs the name of the master as its path")
		}
		t.master = path
	case path != "":
		if err := t.readDB(path); err != nil {
			return err
		}
	}
	if t.mode == Cluster && t.db != 0 {
		return errors.New("a Cluster has database 0 only")
	}
	return nil
}
