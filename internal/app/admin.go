package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// admin serves /metrics, /healthz and /readyz.
type admin struct {
	server *http.Server
	addr   string
	done   chan struct{}
	ready  atomic.Pointer[func() []string] // nil: starting
}

// setReady ends the start: from now on ready lists why the service cannot work.
func (a *admin) setReady(ready func() []string) { a.ready.Store(&ready) }

func (a *admin) reasons() []string {
	if ready := a.ready.Load(); ready != nil {
		return (*ready)()
	}
	return []string{"starting: waiting for Redis"}
}

// startAdmin listens at once, so that a service which waits for Redis is alive and not ready.
func startAdmin(ctx context.Context, addr string, profile bool, reg *prometheus.Registry, log *slog.Logger) (*admin, error) {
	a := &admin{}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}))
	// Alive says nothing of Redis: a Redis outage must not restart the fleet.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if reasons := a.reasons(); len(reasons) > 0 {
			writeJSON(w, http.StatusServiceUnavailable, map[string]any{"status": "not_ready", "reasons": reasons})
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{"status": "ready"})
	})
	if profile {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	var err error
	a.server, a.addr, a.done, err = serve(ctx, addr, mux, log, "", "")
	return a, err
}

func (a *admin) stop() { shutdown(a.server, a.done) }

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client went away
}

// serve listens and serves until shutdown, with TLS when there is a
// certificate; done closes when it has ended.
func serve(ctx context.Context, addr string, handler http.Handler, log *slog.Logger, cert, key string) (*http.Server, string, chan struct{}, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run := func() error { return server.Serve(listener) }
		if cert != "" {
			run = func() error { return server.ServeTLS(listener, cert, key) }
		}
		if err := run(); !errors.Is(err, http.ErrServerClosed) {
			log.Error("a server ended", "addr", addr, "error", err)
		}
	}()
	return server, listener.Addr().String(), done, nil
}

// shutdown lets requests under way end, for at most ten seconds.
func shutdown(server *http.Server, done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
	<-done
}
