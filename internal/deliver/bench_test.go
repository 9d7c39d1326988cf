package deliver

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"tundish/internal/job"
)

func benchServer(b *testing.B, secure bool) (*httptest.Server, *Sender) {
	b.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s := newSender(b, start(srv, secure))
	b.Cleanup(srv.Close)
	return srv, s
}

func BenchmarkSend(b *testing.B) {
	for _, secure := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "tls"}[secure], func(b *testing.B) {
			srv, s := benchServer(b, secure)
			body := bytes.Repeat([]byte("x"), 512)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				a := attemptTo(srv.URL)
				a.Job.Request.Body = body
				for pb.Next() {
					if r := s.Send(background, a); r.Outcome != job.OutcomeDelivered {
						b.Errorf("%+v", r)
					}
				}
			})
		})
	}
}

// warm opens connections, so that handshakes do not compete for the processor
// with what is measured.
func warm(b *testing.B, s *Sender, url string, conns int) {
	b.Helper()
	at := time.Now().Add(500 * time.Millisecond)
	var wg sync.WaitGroup
	for range conns {
		wg.Go(func() {
			a := attemptTo(url)
			a.At = at
			wantOutcome(b, s.Send(background, a), job.OutcomeDelivered, true)
		})
	}
	wg.Wait()
	b.ResetTimer()
}

// BenchmarkLateness writes at 500 slots a second and reports how long after its
// slot a request was written.
func BenchmarkLateness(b *testing.B) {
	const step = 2 * time.Millisecond
	for _, secure := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "tls"}[secure], func(b *testing.B) {
			srv, s := benchServer(b, secure)
			warm(b, s, srv.URL, 64)
			late := make([]time.Duration, b.N)
			senders := make(chan struct{}, 64)
			var wg sync.WaitGroup
			first := time.Now().Add(50 * time.Millisecond)
			for i := range b.N {
				senders <- struct{}{}
				wg.Go(func() {
					defer func() { <-senders }()
					a := attemptTo(srv.URL)
					a.At = first.Add(time.Duration(i) * step)
					r := s.Send(background, a)
					if r.Outcome != job.OutcomeDelivered {
						b.Errorf("%+v", r)
					}
					late[i] = r.StartedAt.Sub(a.At)
				})
			}
			wg.Wait()
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)/2].Microseconds()), "p50-µs-late")
			b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "p99-µs-late")
			b.ReportMetric(float64(late[len(late)-1].Microseconds()), "max-µs-late")
		})
	}
}
