package app

import (
	"log"
	"log/slog"
	"regexp"
	"strings"
)

// quietStandardLog leads what Go's own packages write to the standard log into
// ours, at debug level: there it has our form, and what it says of a connection
// is told by outcomes and metrics already.
func quietStandardLog(to *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(standardLog{to.With("component", "go")})
}

type standardLog struct{ log *slog.Logger }

// quoted is a quoted string, of which the end may be cut off.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?`)

// Write logs a message without what it quotes, which others have sent us.
func (s standardLog) Write(message []byte) (int, error) {
	s.log.Debug(quoted.ReplaceAllLiteralString(strings.TrimSpace(string(message)), "…"))
	return len(message), nil
}
