package bank

import (
	"bytes"
	"strconv"
	"strings"
)

// framer follows the bytes of a connection to tell where each HTTP/1.1 request
// begins. net/http does not say: it reads ahead, so a pipelined request may be
// complete in memory long before its handler runs, and the rest of a body looks
// like a new request to anyone who only counts reads.
type framer struct {
	part    part
	line    []byte // the beginning of a line that has not ended
	left    int64  // bytes of a body or chunk still to come
	chunked bool
}

type part int

const (
	between    part = iota // the next byte begins a request
	inHead                 // request line and header
	inBody                 // left bytes of it
	inSize                 // the size line of a chunk
	inChunk                // left bytes of it, the line end after it included
	inTrailer              // lines after the last chunk
	unreadable             // net/http refuses this too and closes
)

// longLine is how much of a line is kept: no line that matters here is longer.
const longLine = 256

// maxChunk keeps a chunk with its line end within an int64.
const maxChunk = 1 << 62

// feed takes the next bytes and returns how many requests begin in them.
func (f *framer) feed(p []byte) int {
	begun := 0
	for len(p) > 0 {
		switch f.part {
		case between:
			if p[0] == '\r' || p[0] == '\n' { // some clients end a body with a line end
				p = p[1:]
				continue
			}
			begun++
			f.part, f.left, f.chunked = inHead, 0, false
		case inBody, inChunk:
			n := min(f.left, int64(len(p)))
			p, f.left = p[n:], f.left-n
			if f.left == 0 {
				f.part = f.after()
			}
		case unreadable:
			return begun
		default:
			p = f.takeLine(p)
		}
	}
	return begun
}

// after is what follows a body or chunk.
func (f *framer) after() part {
	if f.part == inChunk {
		return inSize
	}
	return between
}

// takeLine consumes up to the end of the present line and acts on it when it
// has come.
func (f *framer) takeLine(p []byte) []byte {
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		f.keep(p)
		return nil
	}
	line := p[:end]
	if len(f.line) > 0 {
		f.keep(line)
		line = f.line
	}
	f.endLine(bytes.TrimSuffix(line, []byte("\r")))
	f.line = f.line[:0]
	return p[end+1:]
}

func (f *framer) keep(p []byte) {
	f.line = append(f.line, p[:min(len(p), longLine-len(f.line))]...)
}

func (f *framer) endLine(line []byte) {
	switch {
	case f.part == inSize:
		f.beginChunk(line)
	case len(line) > 0:
		if f.part == inHead {
			f.header(line)
		}
	case f.part == inTrailer:
		f.part = between
	case f.chunked:
		f.part = inSize
	case f.left > 0:
		f.part = inBody
	default:
		f.part = between
	}
}

// header notes what the line says about the length of the body.
func (f *framer) header(line []byte) {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return
	}
	switch {
	case isName(name, "Content-Length"):
		n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
		if err != nil || n < 0 {
			f.part = unreadable
			return
		}
		f.left = n
	case isName(name, "Transfer-Encoding"):
		f.chunked = strings.EqualFold(string(bytes.TrimSpace(value)), "chunked")
	}
}

// isName compares without the allocation of a string where it cannot match.
func isName(name []byte, want string) bool {
	return len(name) == len(want) && strings.EqualFold(string(name), want)
}

func (f *framer) beginChunk(line []byte) {
	size, _, _ := strings.Cut(string(line), ";")
	n, err := strconv.ParseInt(strings.TrimSpace(size), 16, 64)
	switch {
	case err != nil || n < 0 || n > maxChunk:
		f.part = unreadable
	case n == 0:
		f.part = inTrailer
	default:
		f.part, f.left = inChunk, n+int64(len("\r\n"))
	}
}
