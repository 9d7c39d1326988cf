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
	mux    *http.ServeMux
	ready  atomic.Pointer[readiness] // nil: starting
}

// readiness lists why a service cannot work now, and what is worth knowing though it can.
type readiness func() (reasons, notes []string)

// setReady ends the start: from now on ready is asked.
func (a *admin) setReady(ready readiness) { a.ready.Store(&ready) }

// handle adds a call that changes something: no page of another site may make it.
func (a *admin) handle(pattern string, handler http.HandlerFunc) {
	a.mux.Handle(pattern, http.NewCrossOriginProtection().Handler(handler))
}

func (a *admin) readyz(w http.ResponseWriter, _ *http.Request) {
	reasons, notes := []string{"starting: waiting for Redis"}, []string(nil)
	if ready := a.ready.Load(); ready != nil {
		reasons, notes = (*ready)()
	}
	if len(reasons) > 0 {
		writeJSON(w, http.StatusServiceUnavailable, map[string]any{"status": "not_ready", "reasons": reasons})
		return
	}
	answer := map[string]any{"status": "ready"}
	if len(notes) > 0 {
		answer["reasons"] = notes
	}
	writeJSON(w, http.StatusOK, answer)
}

// startAdmin listens at once, so that a service which waits for Redis is alive and not ready.
func startAdmin(ctx context.Context, addr string, profile bool, reg *prometheus.Registry, log *slog.Logger) (*admin, error) {
	mux := http.NewServeMux()
	a := &admin{mux: mux}
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}))
	// Alive says nothing of Redis: a Redis outage must not restart the fleet.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", a.readyz)
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
