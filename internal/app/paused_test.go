package app

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"tundish/internal/redistest"
)

// post asks the admin address to change something, as a page of origin if one is given.
func post(t *testing.T, url, origin string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	_ = resp.Body.Close()
	return resp.StatusCode
}

// bankAt is a destination that tells of each request.
func bankAt(t *testing.T) (url string, calls chan struct{}) {
	t.Helper()
	calls = make(chan struct{}, 16)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls <- struct{}{} })}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Shutdown(context.Background()); <-done })
	return "http://" + listener.Addr().String() + "/", calls
}

// A worker that was started paused is alive and ready, says so, and takes its
// first job when it is told to.
func TestStartPaused(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	shared := common(t, server.URL())
	url, calls := bankAt(t)
	file := t.TempDir() + "/d.yaml"
	write(t, file, strings.ReplaceAll(strings.ReplaceAll(bankFile, "%RATE%", "50"), "http://192.0.2.1/pay", url))
	ec := enqueuerConfig(shared)
	ec.Destinations = file
	e := startEnqueuer(t, ec)
	wc := workerConfig(shared)
	wc.StartPaused = true
	w := startWorker(t, wc)
	admin := "http://" + w.AdminAddr()
	if code, body := get(t, admin+"/readyz"); code != http.StatusOK || !strings.Contains(body, "started paused") {
		t.Errorf("readyz: %d %s", code, body)
	}
	if status, _ := push(t, e.Addr()); status != http.StatusAccepted {
		t.Fatalf("push: %d", status)
	}
	if _, body := get(t, admin+"/metrics"); !strings.Contains(body, "\ntundish_worker_paused 1\n") {
		t.Error("the metric does not show the pause")
	}
	if status := post(t, admin+"/resume", "http://elsewhere.example"); status != http.StatusForbidden {
		t.Errorf("a page of another site resumed it: %d", status)
	}
	if !w.drain.LastLoop().IsZero() && w.drain.LastLoop().Unix() != 0 {
		t.Error("the drain has looked for jobs")
	}
	for range 2 { // repeating is harmless
		if status := post(t, admin+"/resume", ""); status != http.StatusOK {
			t.Errorf("resume: %d", status)
		}
	}
	select {
	case <-calls:
	case <-t.Context().Done():
		t.Fatal("the job did not go")
	}
	if code, body := get(t, admin+"/readyz"); code != http.StatusOK || strings.Contains(body, "paused") {
		t.Errorf("readyz: %d %s", code, body)
	}
}

// Stopping a worker that never began is a clean end.
func TestStopWhileStartPaused(t *testing.T) {
	t.Parallel()
	c := workerConfig(common(t, redistest.Shared(t).URL()))
	c.StartPaused = true
	w, err := NewWorker(c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Stop()
}
