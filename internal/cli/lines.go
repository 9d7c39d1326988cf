package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"tundish/internal/destination"
)

// The bounds of one batch.
const (
	batchJobs  = 1000
	batchBytes = 8 << 20
)

// linger is how long a batch waits for a slow stream to fill it.
const linger = 50 * time.Millisecond

// item is one job of a file on its way.
type item struct {
	line  int64
	start int64  // bytes of the file before the line
	end   int64  // and with it
	doc   []byte // one line of JSON with an idempotency key
	due   time.Time
	tries int  // that failed through no fault of the job
	holds bool // it waits for a place that those behind it would need as well
}

// lines reads the jobs of a stream. It reads ahead in a goroutine, because a
// read of a terminal or a pipe cannot be cancelled.
type lines struct {
	items chan *item
	err   error // of reading; valid once items is closed
}

// readAhead is how many jobs are read beyond the window: few, since each may be large.
const readAhead = 16

// errTooLong marks a line that no batch can hold.
var errTooLong = errors.New("the line is longer than " + destination.FormatSize(batchBytes))

// readLines begins to read. Lines before from are skipped, empty lines are no
// jobs. A line that is too long comes as an item without doc.
func readLines(ctx context.Context, in io.Reader, from int64, run string) *lines {
	l := &lines{items: make(chan *item, readAhead)}
	go func() {
		defer close(l.items)
		l.err = scan(in, func(it *item) bool {
			if it.line < from {
				return true
			}
			if it.doc != nil {
				it.doc = withKey(it.doc, fmt.Sprintf("%s-%d", run, it.line))
			}
			if len(it.doc) >= batchBytes {
				it.doc = nil
			}
			select {
			case l.items <- it:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	return l
}

// scan calls take for each line that is not empty, until it says stop.
func scan(in io.Reader, take func(*item) bool) error {
	r := bufio.NewReaderSize(in, 64<<10)
	var end int64
	for n := int64(1); ; n++ {
		line, read, err := readLine(r)
		end += read
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		doc := bytes.TrimSpace(line)
		if line == nil || len(doc) > 0 {
			it := &item{line: n, start: end - read, end: end}
			if line != nil {
				it.doc = doc
			}
			if !take(it) {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
}

// readLine reads to the end of a line; nil for one that is too long, which is
// read and forgotten.
func readLine(r *bufio.Reader) (line []byte, read int64, err error) {
	line = []byte{}
	for {
		part, err := r.ReadSlice('\n')
		read += int64(len(part))
		if line != nil {
			line = append(line, part...)
		}
		if read > batchBytes {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, read, err
		}
	}
}

// withKey gives a job that has no idempotency_key the one of its line. All
// else stays byte for byte; what is no JSON object is left for the API to
// refuse.
func withKey(doc []byte, key string) []byte {
	if !json.Valid(doc) || doc[0] != '{' {
		return doc
	}
	var o object
	d := json.NewDecoder(bytes.NewReader(doc))
	_, _ = d.Token() // the document is valid: nothing below can fail
	null := false
	for d.More() {
		name, _ := d.Token()
		var value json.RawMessage
		_ = d.Decode(&value)
		if name == "idempotency_key" {
			if string(value) != "null" {
				return doc
			}
			null = true
			continue
		}
		o.raw(fmt.Sprint(name), value)
	}
	if null { // absent and null are the same, and twice is an error
		o.text("idempotency_key", key)
		return o.bytes()
	}
	rest := bytes.TrimLeft(doc[1:], " \t\r\n")
	separator := ","
	if rest[0] == '}' {
		separator = ""
	}
	return fmt.Appendf(nil, `{"idempotency_key":%s%s%s`, compact(key), separator, rest)
}
