package background

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"
)

const (
	// sayAgain is for how long a kind of message must not have come before it is
	// said again: asynq repeats itself each few seconds while Redis does not serve.
	sayAgain = 10 * time.Minute
	// maxSaid bounds the kinds that are remembered.
	maxSaid = 100
)

// logger lets asynq log through slog, a level lower: nothing that it does here
// needs somebody at once, and it warns of what is ordinary, such as a stop. What
// it repeats is said once and then at debug level.
type logger struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	said map[string]time.Time // kind of message → when it came last
}

func newLogger(log *slog.Logger) *logger {
	return &logger{log: log, now: time.Now, said: map[string]time.Time{}}
}

// varying is what differs between messages of a kind: numbers, ids and addresses.
var varying = regexp.MustCompile(`[0-9a-fA-F-]*[0-9][0-9a-fA-F-]*`)

func (l *logger) say(level slog.Level, args []any) {
	text := fmt.Sprint(args...)
	if l.repeats(varying.ReplaceAllString(text, "#")) {
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, text)
}

func (l *logger) repeats(kind string) bool {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	last, ok := l.said[kind]
	if !ok && len(l.said) >= maxSaid {
		clear(l.said)
	}
	l.said[kind] = now
	return ok && now.Sub(last) < sayAgain
}

func (l *logger) Debug(args ...any) { l.say(slog.LevelDebug, args) }
func (l *logger) Info(args ...any)  { l.say(slog.LevelDebug, args) }
func (l *logger) Warn(args ...any)  { l.say(slog.LevelInfo, args) }
func (l *logger) Error(args ...any) { l.say(slog.LevelWarn, args) }

// Fatal is asynq's word for a server that cannot go on; the process decides.
func (l *logger) Fatal(args ...any) { l.say(slog.LevelError, args) }
