package bank

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	flushEvery = 50 * time.Millisecond
	flushBytes = 64 << 10 // asks for a flush before its time
	maxBuffer  = 16 << 20 // more than that waits only when the disk stands still
	atDigits   = 19       // of a stamp: a fixed width, so that a torn line shows
)

// WriteLog records when each request was written, one line each: lane, job id,
// slot in µs, CLOCK_MONOTONIC in ns. Safe for concurrent use; a nil WriteLog
// records nothing. A killed process loses at most the last 100 ms.
type WriteLog struct {
	file    *os.File
	wake    chan struct{} // something waits to be flushed
	full    chan struct{} // much waits
	closing chan struct{}
	stopped chan struct{}
	once    sync.Once

	mu         sync.Mutex
	lines      []byte
	err        error // the first
	unrecorded int64
}

// Open opens the write log at path; what it holds already is kept.
func Open(path string) (*WriteLog, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("write log: %w", err)
	}
	if err := endLine(f); err != nil {
		return nil, errors.Join(fmt.Errorf("write log: %w", err), f.Close())
	}
	l := &WriteLog{
		file:    f,
		wake:    make(chan struct{}, 1),
		full:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
	}
	go l.run()
	return l, nil
}

// endLine ends a line that a killed process left torn, so that ours begin on
// their own.
func endLine(f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, size-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = f.WriteString("\n")
	return err
}

// Record notes that a request is being written now. slotMicros is its slot, in
// microseconds of the lane's logical time. Call it right before the Write.
func (l *WriteLog) Record(lane, jobID string, slotMicros int64) {
	if l == nil {
		return
	}
	l.record(Write{Lane: lane, Job: jobID, Slot: slotMicros, At: Monotonic()})
}

func (l *WriteLog) record(w Write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch n := len(l.lines); {
	case n >= maxBuffer:
		l.unrecorded++
		return
	case n == 0:
		nudge(l.wake)
	case n >= flushBytes:
		nudge(l.full)
	}
	l.lines = w.append(l.lines)
}

// run flushes whenever something was recorded, and sleeps for good otherwise.
func (l *WriteLog) run() {
	defer close(l.stopped)
	var spare []byte
	timer := time.NewTimer(flushEvery)
	defer timer.Stop()
	for {
		select {
		case <-l.wake:
		case <-l.closing:
			l.flush(spare)
			return
		}
		timer.Reset(flushEvery)
		select {
		case <-timer.C:
		case <-l.full:
		case <-l.closing:
		}
		spare = l.flush(spare)
	}
}

// flush writes whole lines in one call, outside the lock, and returns the
// buffer that became free.
func (l *WriteLog) flush(spare []byte) []byte {
	l.mu.Lock()
	lines := l.lines
	l.lines = spare[:0]
	l.mu.Unlock()
	if len(lines) == 0 {
		return lines
	}
	if _, err := l.file.Write(lines); err != nil {
		l.fail(err)
	}
	return lines
}

// Close writes what is left. It returns what went wrong since Open.
func (l *WriteLog) Close() error {
	if l == nil {
		return nil
	}
	l.once.Do(func() { close(l.closing) })
	<-l.stopped
	if err := l.file.Close(); !errors.Is(err, os.ErrClosed) {
		l.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && l.unrecorded > 0 {
		return fmt.Errorf("write log: the disk was too slow: %d writes went unrecorded", l.unrecorded)
	}
	return l.err
}

// fail keeps the first error: a full disk repeats itself.
func (l *WriteLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && err != nil {
		l.err = fmt.Errorf("write log: %w", err)
	}
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// append adds the line of w to b.
func (w Write) append(b []byte) []byte {
	b = appendField(b, w.Lane)
	b = appendField(b, w.Job)
	b = strconv.AppendInt(b, w.Slot, 10)
	b = append(b, ' ')
	var digits [20]byte
	at := strconv.AppendInt(digits[:0], w.At, 10)
	for range atDigits - len(at) {
		b = append(b, '0')
	}
	return append(append(b, at...), '\n')
}

// appendField adds s and a space; an empty name would shift the fields.
func appendField(b []byte, s string) []byte {
	if s == "" {
		s = "-"
	}
	return append(append(b, s...), ' ')
}
