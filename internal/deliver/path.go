package deliver

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"tundish/internal/job"
)

// ValidatePath checks that a job's path (with its query) can be sent and stays
// below the target's URL, also for a server that decodes escapes twice or reads
// a backslash as a slash. The error quotes neither path nor query.
func ValidatePath(targetURL, path string) error {
	_, err := join(targetURL, path)
	return err
}

// join puts a job's path below a target's URL. The escaped form is kept as the
// producer wrote it.
func join(targetURL, path string) (*url.URL, error) {
	base, err := parseTarget(targetURL)
	if err != nil {
		return nil, err
	}
	if len(path) > job.MaxPathBytes {
		return nil, fmt.Errorf("path is longer than %d bytes", job.MaxPathBytes)
	}
	below, query, hasQuery := strings.Cut(path, "?")
	if err := checkPath(below); err != nil {
		return nil, err
	}
	if err := checkQuery(query); err != nil {
		return nil, err
	}
	u := &url.URL{Scheme: base.Scheme, Host: base.Host, RawQuery: query, ForceQuery: hasQuery}
	escaped := base.EscapedPath()
	if below != "" {
		escaped = strings.TrimSuffix(escaped, "/") + "/" + strings.TrimPrefix(below, "/")
	}
	u.RawPath = escaped
	if u.Path, err = url.PathUnescape(escaped); err != nil {
		return nil, errors.New("path has a broken percent escape")
	}
	return u, nil
}

func parseTarget(targetURL string) (*url.URL, error) {
	u, err := url.Parse(targetURL)
	if err != nil {
		return nil, errors.New("the target's URL cannot be parsed")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the target's URL is neither http nor https")
	case u.Hostname() == "":
		return nil, errors.New("the target's URL has no host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the target's URL has a user, query or fragment")
	}
	return u, nil
}

// checkPath looks at the part before the query.
func checkPath(p string) error {
	if strings.HasPrefix(p, "//") {
		return errors.New("path must not begin with // (another host)")
	}
	for i := range len(p) {
		if !isPathByte(p[i]) {
			return errors.New("path has characters that must be percent-encoded")
		}
	}
	if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ":") {
		return errors.New("path must not be an absolute URL")
	}
	return checkDecoded(p)
}

// checkDecoded looks at the path as written and after each round of decoding.
func checkDecoded(p string) error {
	if _, err := url.PathUnescape(p); err != nil {
		return errors.New("path has a broken percent escape")
	}
	const rounds = 3
	for range rounds {
		if err := checkSegments(p); err != nil {
			return err
		}
		next := unescapeWhole(p)
		if next == p {
			return nil
		}
		p = next
	}
	return checkSegments(p)
}

// unescapeWhole decodes the escapes that are whole and leaves any other percent
// sign: what %25 became must not hide what stands beside it.
func unescapeWhole(p string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(p, "%")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		if decoded, err := url.PathUnescape("%" + rest[:min(2, len(rest))]); err == nil {
			out.WriteString(decoded)
			p = rest[2:]
			continue
		}
		out.WriteByte('%')
		p = rest
	}
}

func checkSegments(p string) error {
	for i := range len(p) {
		if c := p[i]; c < ' ' || c == 0x7f || c == '\\' {
			return errors.New("path has a control character or a backslash")
		}
	}
	for s := range strings.SplitSeq(p, "/") {
		// Some servers cut what follows a semicolon before they resolve dots.
		if name, _, _ := strings.Cut(s, ";"); name == ".." {
			return errors.New("path must not contain .. (it stays below the target)")
		}
	}
	return nil
}

// checkQuery keeps out only what would end the request line or the query.
func checkQuery(q string) error {
	for i := range len(q) {
		if c := q[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return errors.New("query has characters that must be percent-encoded")
		}
	}
	return nil
}

// isPathByte says whether RFC 3986 lets a byte stand in a path as it is.
func isPathByte(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("-._~!$&'()*+,;=:@/%", c) >= 0
}
