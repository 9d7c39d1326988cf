package api

import (
	"strconv"
	"strings"
	"time"
)

// longestSend is how long a request may wait for the end of its job.
const longestSend = 30

// seconds is a wait as Prefer writes it; 0: none.
type seconds int

func (s seconds) duration() time.Duration { return time.Duration(s) * time.Second }
func (s seconds) String() string          { return strconv.Itoa(int(s)) }

// preferences reads Prefer headers (RFC 7240): how long to wait, and what is
// left for the destination. wait and respond-async are for us, who answer in
// its place. What cannot be read is no preference, and is passed on.
func preferences(values []string) (wait seconds, others []string) {
	seen := false // the first of a name counts
	for _, value := range values {
		rest := make([]string, 0, 2)
		for _, preference := range splitQuoted(value, ',') {
			name, given, _ := strings.Cut(splitQuoted(preference, ';')[0], "=")
			switch strings.ToLower(strings.Trim(name, " \t")) {
			case "wait":
				if !seen {
					wait, seen = waitOf(given), true
				}
			case "respond-async", "":
			default:
				rest = append(rest, strings.Trim(preference, " \t"))
			}
		}
		if len(rest) > 0 {
			others = append(others, strings.Join(rest, ", "))
		}
	}
	return wait, others
}

// waitOf reads whole seconds, bare or quoted.
func waitOf(text string) seconds {
	text = strings.Trim(text, " \t")
	if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil { // so many digits
		return longestSend
	}
	return seconds(min(n, longestSend))
}

// splitQuoted splits at a separator that stands outside quotes.
func splitQuoted(s string, separator byte) []string {
	var parts []string
	begin, inside := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && inside:
			i++
		case s[i] == '"':
			inside = !inside
		case s[i] == separator && !inside:
			parts = append(parts, s[begin:i])
			begin = i + 1
		}
	}
	return append(parts, s[begin:])
}
