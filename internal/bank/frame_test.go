package bank

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFramerFindsWhereRequestsBegin(t *testing.T) {
	t.Parallel()
	for name, requests := range map[string][]string{
		"no body":        {"GET / HTTP/1.1\r\nHost: b\r\n\r\n", "GET /2 HTTP/1.1\r\nHost: b\r\n\r\n"},
		"a body":         {"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", "GET / HTTP/1.1\r\n\r\n"},
		"a tricky body":  {"POST / HTTP/1.1\r\ncontent-length:4\r\n\r\n\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"},
		"chunks":         {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\na\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"},
		"a trailer":      {"POST / HTTP/1.1\r\nTrailer: T\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: 1\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"},
		"chunks win":     {"POST / HTTP/1.1\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"},
		"bare newlines":  {"GET / HTTP/1.1\nHost: b\n\n", "GET / HTTP/1.1\n\n"},
		"empty body":     {"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"},
		"a long header":  {"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 1000) + "\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"},
		"a similar name": {"POST / HTTP/1.1\r\nX-Content-Length: 50\r\nContent-Lengthy: 3\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"},
	} {
		checkFraming(t, name, requests, func(left int) int { return left })
		checkFraming(t, name+", byte by byte", requests, func(int) int { return 1 })
	}
}

func TestFramerFindsThemHoweverTheBytesAreCut(t *testing.T) {
	t.Parallel()
	body := rapid.StringOfN(rapid.RuneFrom([]rune("a\r\n0:")), 0, 30, -1)
	rapid.Check(t, func(t *rapid.T) {
		var requests []string
		for range rapid.IntRange(1, 6).Draw(t, "requests") {
			request := "POST /p HTTP/1.1\r\nTundish-Job-Id: x\r\n"
			if rapid.Bool().Draw(t, "chunked") {
				request += "transfer-encoding: Chunked\r\n\r\n"
				for range rapid.IntRange(0, 3).Draw(t, "chunks") {
					if part := body.Draw(t, "chunk"); part != "" {
						request += fmt.Sprintf("%x\r\n%s\r\n", len(part), part)
					}
				}
				request += "0\r\n\r\n"
			} else {
				part := body.Draw(t, "body")
				request += fmt.Sprintf("CONTENT-LENGTH: %d \r\n\r\n%s", len(part), part)
			}
			requests = append(requests, request)
		}
		checkFraming(t, "drawn", requests, func(left int) int { return rapid.IntRange(1, left).Draw(t, "cut") })
	})
}

// checkFraming feeds the requests back to back in pieces as cut says, and
// counts after each piece.
func checkFraming(t rapid.TB, name string, requests []string, cut func(left int) int) {
	t.Helper()
	var begins []int
	stream := ""
	for _, r := range requests {
		begins = append(begins, len(stream))
		stream += r
	}
	var f framer
	for fed, begun := 0, 0; fed < len(stream); {
		n := cut(len(stream) - fed)
		begun += f.feed([]byte(stream[fed : fed+n]))
		fed += n
		want := 0
		for _, b := range begins {
			if b < fed {
				want++
			}
		}
		if begun != want {
			t.Fatalf("%s: %d requests begin in %q, framer says %d", name, want, stream[:fed], begun)
		}
	}
}

func TestFramerGivesUpWhereTheServerDoes(t *testing.T) {
	t.Parallel()
	for _, first := range []string{
		"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n",
	} {
		var f framer
		if begun := f.feed([]byte(first + "GET / HTTP/1.1\r\n\r\n")); begun != 1 {
			t.Errorf("%q: %d requests begin, want 1", first, begun)
		}
	}
}

func TestFramerSkipsALineEndAfterABody(t *testing.T) {
	t.Parallel()
	var f framer
	stream := "POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx\r\n"
	if begun := f.feed([]byte(stream)); begun != 1 {
		t.Fatalf("%d requests begin, want 1", begun)
	}
	if begun := f.feed([]byte("GET / HTTP/1.1\r\n\r\n")); begun != 1 {
		t.Errorf("%d requests begin after it, want 1", begun)
	}
}
