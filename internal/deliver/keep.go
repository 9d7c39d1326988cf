package deliver

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// maxKeptHeaderBytes bounds the values of the headers that are kept.
const maxKeptHeaderBytes = 8 << 10

func keeps(k *destination.KeepResponse) bool { return k.Body > 0 || len(k.Headers) > 0 }

// keep makes what is kept of an answer, without its body; nil when nothing is.
func keep(out *outgoing, resp *http.Response) *job.Response {
	if !keeps(out.keep) {
		return nil
	}
	kept := &job.Response{HTTPStatus: resp.StatusCode}
	left := maxKeptHeaderBytes
	for _, name := range out.keep.Headers {
		for _, value := range resp.Header.Values(name) {
			if left -= len(value); left < 0 {
				kept.Truncated = true
				return kept
			}
			kept.Headers = append(kept.Headers, job.Header{Name: http.CanonicalHeaderKey(name), Value: out.hide.in(value)})
		}
	}
	return kept
}

// bodyOf reads the part of a body that is kept, and says in the response
// whether there was more, or it broke off.
type bodyOf struct {
	kept *job.Response
	most int64
	hide hiding
}

func (b *bodyOf) wanted() bool { return b.kept != nil && b.most > 0 }

// read reads at most limit bytes of a body and answers how many they were.
func (b *bodyOf) read(body io.Reader, limit int64) (int64, error) {
	if !b.wanted() {
		return io.Copy(io.Discard, io.LimitReader(body, limit))
	}
	raw, err := io.ReadAll(io.LimitReader(body, b.most+b.hide.longest()))
	n, more := int64(len(raw)), int64(0)
	if err == nil {
		more, err = io.Copy(io.Discard, io.LimitReader(body, max(1, limit-n))) // 1: is there more
	}
	text := string(raw)
	if more > 0 || err != nil {
		text = b.hide.whole(b.hide.in(b.hide.whole(text))) // before: one secret may begin with another
	} else {
		text = b.hide.in(text)
	}
	b.kept.Body = []byte(text[:min(int64(len(text)), b.most)])
	b.kept.Truncated = b.kept.Truncated || more > 0 || err != nil || int64(len(text)) > b.most
	return n + more, err
}

// hiding are secrets of a request, each with what stands in its place. An answer
// that repeats what it got is kept without them.
type hiding []string

// minHidden is the length below which a secret is not hidden: it would be found in anything.
const minHidden = 6

// add puts longer secrets first: one that begins with another is hidden whole.
func (h *hiding) add(secret, instead string) {
	if len(secret) < minHidden {
		return
	}
	at := 0
	for at < len(*h) && len((*h)[at]) >= len(secret) {
		at += 2
	}
	*h = slices.Insert(*h, at, secret, instead)
}

func (h hiding) in(text string) string {
	if len(h) == 0 {
		return text
	}
	return strings.NewReplacer(h...).Replace(text)
}

func (h hiding) longest() int64 {
	n := 0
	for i := 0; i < len(h); i += 2 {
		n = max(n, len(h[i]))
	}
	return int64(n)
}

// whole leaves out the beginning of a secret at the end of a text that goes on.
func (h hiding) whole(text string) string {
	for n := min(len(text), int(h.longest())); n > 0; n-- {
		tail := text[len(text)-n:]
		for i := 0; i < len(h); i += 2 {
			if strings.HasPrefix(h[i], tail) {
				return text[:len(text)-n]
			}
		}
	}
	return text
}
