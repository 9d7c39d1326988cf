package bank

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"tundish/internal/job"
)

// The defaults of a Config, and NoSpread for one that allows none.
const (
	DefaultSpread = 2 * time.Millisecond
	DefaultKeep   = 1_000_000
	NoSpread      = time.Duration(-1)
)

const (
	maxRate   = 1_000_000
	maxPer    = 31 * 24 * time.Hour
	stopGrace = time.Second // for answers under way when the bank stops
)

// Config says what the bank holds its callers to.
type Config struct {
	Rate  int64         // requests per Per
	Per   time.Duration // the window
	Burst int64         // the window may hold Rate + Burst − 1; default 1

	// Spread is the variation of the path delay that the bank allows on top
	// when it refuses, default 2 ms; NoSpread allows none.
	Spread time.Duration
	// Latency is how long an answer takes. Requests are answered concurrently.
	Latency time.Duration
	// Refuse answers 429 with a Retry-After to what is above the rate.
	// Otherwise the bank only counts.
	Refuse bool
	// Keep is how many arrivals are remembered, default 1,000,000.
	Keep int
	// Script, when set, decides the answer to the nth request (from 1, in the
	// order in which handlers start); nil leaves it to the bank. It is called
	// concurrently.
	Script func(n int, r *http.Request) *Answer
}

// Answer is a scripted behaviour.
type Answer struct {
	Status int // 0: as the bank decides
	Header http.Header
	Body   string
	Delay  time.Duration // instead of Config.Latency; 0: at once
	HangUp bool          // close the connection without an answer
}

// Bank is a strict destination.
type Bank struct {
	config Config
	gate   *gate
	ledger ledger
	seen   atomic.Int64
	admin  *http.ServeMux
	serves sync.WaitGroup
}

// New makes a bank. The error, a *job.Error, names every field that is wrong.
func New(config Config) (*Bank, error) {
	if config.Burst == 0 {
		config.Burst = 1
	}
	if config.Spread == 0 {
		config.Spread = DefaultSpread
	}
	config.Spread = max(config.Spread, 0)
	if config.Keep == 0 {
		config.Keep = DefaultKeep
	}
	if err := config.validate(); err != nil {
		return nil, err
	}
	b := &Bank{
		config: config,
		gate:   newGate(config.allowed(), config.Per),
		ledger: ledger{keep: config.Keep},
	}
	b.admin = b.adminMux()
	return b, nil
}

// allowed is the most requests that the bank lets into one window.
func (c *Config) allowed() int64 { return Allowed(c.Rate, c.Burst, c.Per, c.Spread) }

func (c *Config) validate() error {
	var fields []job.FieldError
	check := func(ok bool, pointer, want string) {
		if !ok {
			fields = append(fields, job.FieldError{Pointer: pointer, Detail: want, Code: job.CodeInvalid})
		}
	}
	check(c.Rate >= 1 && c.Rate <= maxRate, "/rate", fmt.Sprintf("must be 1 to %d", maxRate))
	check(c.Per >= time.Millisecond && c.Per <= maxPer, "/per", fmt.Sprintf("must be 1ms to %s", maxPer))
	check(c.Burst >= 1 && c.Burst <= maxRate, "/burst", fmt.Sprintf("must be 1 to %d", maxRate))
	check(c.Spread <= max(c.Per, 0), "/spread", "must not be longer than per")
	check(c.Latency >= 0, "/latency", "must not be negative")
	check(c.Keep >= 1, "/keep", "must be at least 1")
	if len(fields) > 0 {
		return &job.Error{Code: job.CodeInvalid, Detail: "bank", Fields: fields}
	}
	return nil
}

// Serve listens on addr and serves until ctx ends. It returns the address that
// it listens on as soon as it does; Wait returns when all has ended.
func (b *Bank) Serve(ctx context.Context, addr string) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("bank: %w", err)
	}
	server := &http.Server{
		Handler:           b.Handler(),
		ConnContext:       b.ConnContext,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // callers that hang up are no news
		// It would answer without us, and the stamp would go to the next request.
		DisableGeneralOptionsHandler: true,
	}
	ended := make(chan struct{})
	b.serves.Go(func() {
		defer close(ended)
		_ = server.Serve(b.Listener(l)) // ends only with the server
	})
	b.serves.Go(func() {
		select {
		case <-ctx.Done():
		case <-ended:
		}
		stop(server)
	})
	return l.Addr().String(), nil
}

// stop lets answers under way go out, then ends the rest.
func stop(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	if err := server.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		_ = server.Close()
	}
}

// Wait returns when every Serve whose context ended has stopped.
func (b *Bank) Wait() { b.serves.Wait() }
