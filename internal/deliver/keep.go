package deliver

import (
	"io"
	"net/http"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// maxKeptHeaderBytes bounds the values of the headers that are kept.
const maxKeptHeaderBytes = 8 << 10

// keep makes what is kept of an answer, without its body; nil when nothing is.
func keep(k *destination.KeepResponse, resp *http.Response) *job.Response {
	if k.Body == 0 && len(k.Headers) == 0 {
		return nil
	}
	kept := &job.Response{HTTPStatus: resp.StatusCode}
	left := maxKeptHeaderBytes
	for _, name := range k.Headers {
		for _, value := range resp.Header.Values(name) {
			if left -= len(value); left < 0 {
				kept.Truncated = true
				return kept
			}
			kept.Headers = append(kept.Headers, job.Header{Name: http.CanonicalHeaderKey(name), Value: value})
		}
	}
	return kept
}

// bodyOf reads the part of a body that is kept, and says in the response
// whether there was more, or it broke off.
type bodyOf struct {
	kept *job.Response
	most int64
}

func (b *bodyOf) wanted() bool { return b.kept != nil && b.most > 0 }

// read reads at most limit bytes of a body and answers how many they were.
func (b *bodyOf) read(body io.Reader, limit int64) (int64, error) {
	if !b.wanted() {
		return io.Copy(io.Discard, io.LimitReader(body, limit))
	}
	text, err := io.ReadAll(io.LimitReader(body, min(b.most, limit)))
	b.kept.Body = text
	n := int64(len(text))
	if err != nil {
		b.kept.Truncated = true
		return n, err
	}
	more, err := io.Copy(io.Discard, io.LimitReader(body, limit-n))
	b.kept.Truncated = b.kept.Truncated || more > 0 || err != nil
	return n + more, err
}
