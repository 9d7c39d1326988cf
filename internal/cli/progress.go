package cli

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows people how far a push is.
type progress interface {
	update(t tally, line, bytes int64)
	say(format string, args ...any)     // talk: silenced by -q
	refused(format string, args ...any) // an error: never silenced
	end()
}

// newProgress shows a bar on a terminal and a line now and then elsewhere.
// size is the bytes of the file; −1 when nobody knows.
func newProgress(s *session, size int64) progress {
	plain := &plainProgress{s: s, last: s.now()}
	if s.flags.Quiet || !terminal(s.stderr) || s.getenv("TERM") == "dumb" {
		return plain
	}
	return &barProgress{plain: plain, bar: newBar(s, size)}
}

func newBar(s *session, size int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(s.stderr),
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetPredictTime(size > 0),
		progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(),
	)
}

const plainEvery = 10 * time.Second

// plainProgress writes lines.
type plainProgress struct {
	s    *session
	last time.Time
}

func (p *plainProgress) update(t tally, line, _ int64) {
	if now := p.s.now(); now.Sub(p.last) >= plainEvery {
		p.last = now
		p.say("line %d: %s", line, t)
	}
}

func (t tally) String() string { return fmt.Sprintf("%d accepted, %d refused", t.accepted, t.refused) }

func (p *plainProgress) say(format string, args ...any) { p.s.talk(format, args...) }

func (p *plainProgress) refused(format string, args ...any) {
	fmt.Fprintf(p.s.stderr, format+"\n", args...)
}

func (p *plainProgress) end() {}

// barProgress draws a bar and takes it away while it writes a line.
type barProgress struct {
	plain *plainProgress
	bar   *progressbar.ProgressBar
	drawn time.Time
}

// barEvery is how often the bar is drawn. Its own throttle would drop what
// does not come alone, and text and length come together.
const barEvery = 100 * time.Millisecond

// The bar is decoration: when it cannot be drawn, the push goes on.

func (p *barProgress) update(t tally, _, bytes int64) {
	now := p.plain.s.now()
	if now.Sub(p.drawn) < barEvery {
		return
	}
	p.drawn = now
	p.bar.Describe(t.String())
	_ = p.bar.Set64(bytes)
}

func (p *barProgress) say(format string, args ...any) {
	_ = p.bar.Clear()
	p.plain.say(format, args...)
}

func (p *barProgress) refused(format string, args ...any) {
	_ = p.bar.Clear()
	p.plain.refused(format, args...)
}

func (p *barProgress) end() { _ = p.bar.Exit(); _ = p.bar.Clear() }
