package bank

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// site is a bank that serves for one test, and a caller of it.
type site struct {
	*Bank
	t      *testing.T
	url    string
	client *http.Client
	stop   context.CancelFunc
}

func open(t *testing.T, c Config) *site {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	addr, err := b.Serve(ctx, "127.0.0.1:0")
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		b.Wait()
	})
	return &site{Bank: b, t: t, url: "http://" + addr, client: &http.Client{Transport: transport}, stop: cancel}
}

// send makes one request as a worker would.
func (s *site) send(id string, attempt int) (status int, header http.Header, body string, err error) {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodPost, s.url+"/pay?q=1", struct{ io.Reader }{strings.NewReader(`{"amount":1}`)})
	if err != nil {
		s.t.Fatal(err)
	}
	r.ContentLength = 12
	r.Header.Set("Tundish-Job-Id", id)
	r.Header.Set("Idempotency-Key", "key-"+id)
	r.Header.Set("Tundish-Attempt", strconv.Itoa(attempt))
	return s.do(r)
}

func (s *site) do(r *http.Request) (int, http.Header, string, error) {
	answer, err := s.client.Do(r)
	if err != nil {
		return 0, nil, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Header, string(body), err
}

func (s *site) call(method, path string) (int, http.Header, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	status, header, body, err := s.do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return status, header, body
}
