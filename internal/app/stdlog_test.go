package app

import (
	"log"
	"log/slog"
	"strings"
	"testing"
)

func TestStandardLogIsQuiet(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]string{
		slog.LevelInfo:  "",
		slog.LevelDebug: `level=DEBUG msg="Unsolicited response received on idle HTTP channel starting with …; err=<nil>" component=go` + "\n",
	} {
		var out strings.Builder
		handler := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
		l := log.New(standardLog{slog.New(handler).With("component", "go")}, "", 0)
		l.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", "S3CR3T \"and\" more\x00", error(nil))
		if got := out.String(); got != want {
			t.Errorf("at %s: %q, want %q", level, got, want)
		}
	}
}
