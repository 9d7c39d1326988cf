package bank

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// BenchmarkBank is one request on a kept connection, its caller included.
func BenchmarkBank(b *testing.B) {
	bank, err := New(Config{Rate: 1_000_000, Per: time.Second, Refuse: true})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer bank.Wait()
	defer cancel()
	addr, err := bank.Serve(ctx, "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	request := []byte("POST /pay HTTP/1.1\r\nHost: bank\r\nTundish-Job-Id: AZGx0123456789abcdefgh\r\n" +
		"Idempotency-Key: AZGx0123456789abcdefgh\r\nTundish-Attempt: 1\r\nContent-Length: 12\r\n\r\n{\"amount\":1}")
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		r := bufio.NewReader(c)
		for p.Next() {
			if _, err := c.Write(request); err != nil {
				b.Error(err)
				return
			}
			answer, err := http.ReadResponse(r, nil)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
	})
}
