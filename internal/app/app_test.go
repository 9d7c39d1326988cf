package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tundish/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func common(t *testing.T, url string) Common {
	return Common{RedisURL: url, Namespace: redistest.Namespace(t), LogLevel: "info", LogFormat: "text"}
}

func workerConfig(c Common) WorkerConfig {
	return WorkerConfig{Common: c, AdminListen: "127.0.0.1:0", Concurrency: "100", StopGrace: "5s", AllowPrivateTargets: []string{"127.0.0.0/8"}}
}

func enqueuerConfig(c Common) EnqueuerConfig {
	return EnqueuerConfig{Common: c, Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", MetricsDestinations: "200"}
}

// startEnqueuer starts an enqueuer that ends with the test.
func startEnqueuer(t *testing.T, c EnqueuerConfig) *Enqueuer {
	t.Helper()
	e, err := NewEnqueuer(c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	return e
}

// startWorker starts a worker that ends with the test.
func startWorker(t *testing.T, c WorkerConfig) *Worker {
	t.Helper()
	w, err := NewWorker(c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// bankAt50 is the path of a file with the destination "bank" at 50 per second.
func bankAt50(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "d.yaml")
	write(t, path, strings.ReplaceAll(bankFile, "%RATE%", "50"))
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// freeAddress is a loopback address that nobody listened on a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// eventually asks until ok or the time is over.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(15 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 15 s: %s", what)
		}
	}
}

func TestEveryBadFlagIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	write(t, keys, "producers: [{name: 7}]\n")
	for name, c := range map[string]struct {
		validate func() error
		want     []string
	}{
		"worker": {
			func() error {
				w := WorkerConfig{Common: Common{LogLevel: "loud", LogFormat: "xml"}, AdminListen: "nowhere", Concurrency: "0", StopGrace: "25",
					AllowPrivateTargets: []string{"10.0.0.0/33"}}
				return w.Validate()
			},
			[]string{"--log-level", "--log-format", "--admin-listen", "--concurrency", "1 to 100000", "--stop-grace", "--allow-private-targets"},
		},
		"enqueuer": {
			func() error {
				e := EnqueuerConfig{Common: Common{LogLevel: "info", LogFormat: "text"}, Listen: "127.0.0.1:99999", AdminListen: "127.0.0.1:0",
					TLSCert: "x", MetricsDestinations: "many", Destinations: filepath.Join(t.TempDir(), "none.yaml"), Keys: keys}
				return e.Validate()
			},
			[]string{"--listen", "--tls-cert", "--metrics-destinations", "--destinations", "--keys"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.validate()
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %s", err, want)
				}
			}
		})
	}
}

func TestOpenAddressNeedsKeys(t *testing.T) {
	t.Parallel()
	for listen, refused := range map[string]bool{"0.0.0.0:8080": true, ":8080": true, "192.0.2.1:80": true, "[::]:80": true,
		"127.0.0.1:8080": false, "[::1]:8080": false, "localhost:8080": false} {
		c := enqueuerConfig(Common{RedisURL: "redis://127.0.0.1/0", Namespace: "default", LogLevel: "info", LogFormat: "text"})
		c.Listen = listen
		err := c.Validate()
		if refused != (err != nil) {
			t.Errorf("%s: %v", listen, err)
		}
		if refused && (!strings.Contains(err.Error(), "--keys") || !strings.Contains(err.Error(), "--insecure-no-auth")) {
			t.Errorf("%s: %v does not say what to do", listen, err)
		}
		c.InsecureNoAuth = true
		if err := c.Validate(); err != nil {
			t.Errorf("%s with --insecure-no-auth: %v", listen, err)
		}
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	bad := workerConfig(Common{RedisURL: "redis://127.0.0.1/0", Namespace: "default", LogLevel: "info", LogFormat: "text"})
	bad.Concurrency = "none"
	if code := RunWorker(t.Context(), bad, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "--concurrency") {
		t.Errorf("bad flag: exit %d, %q", code, stderr.String())
	}
	check := enqueuerConfig(Common{RedisURL: "redis://127.0.0.1/0", Namespace: "default", LogLevel: "info", LogFormat: "text", Check: true})
	if code := RunEnqueuer(t.Context(), check, &stderr); code != exitDone {
		t.Errorf("--check: exit %d", code)
	}
	wrong := workerConfig(Common{RedisURL: "http://x", Namespace: "default", LogLevel: "error", LogFormat: "text"})
	if code := RunWorker(t.Context(), wrong, io.Discard); code != exitUsage {
		t.Errorf("bad URL: exit %d", code)
	}
}

// A service that comes up before its Redis is alive, not ready, and becomes
// ready by itself; stopping it while it waits is a clean end.
func TestServicesWaitForRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Stop(t)
	config := workerConfig(common(t, server.URL()))
	config.AdminListen = freeAddress(t) // known before the start has ended
	w, err := NewWorker(config, quiet())
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() { started <- w.Start(t.Context()) }()
	eventually(t, "the admin address listens", func() bool {
		conn, err := net.Dial("tcp", config.AdminListen)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	if code, _ := get(t, "http://"+config.AdminListen+"/healthz"); code != http.StatusOK {
		t.Errorf("healthz while Redis is away: %d", code)
	}
	if code, body := get(t, "http://"+config.AdminListen+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "waiting for Redis") {
		t.Errorf("readyz while Redis is away: %d %s", code, body)
	}
	server.Cont(t)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if code, body := get(t, "http://"+w.AdminAddr()+"/readyz"); code != http.StatusOK {
		t.Errorf("readyz: %d %s", code, body)
	}
}

func TestStopWhileWaitingForRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Stop(t)
	defer server.Cont(t)
	w, err := NewWorker(workerConfig(common(t, server.URL())), quiet())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Start(ctx); err == nil {
		t.Error("started without Redis")
	}
}

const bankFile = `destinations:
  - name: bank
    target: {http: {url: "http://192.0.2.1/pay"}}
    limits: [{name: tps, algorithm: leaky_bucket, rate: %RATE%, per: 1s}]
`

func destinationRate(t *testing.T, addr string) (float64, int) {
	t.Helper()
	code, body := get(t, "http://"+addr+"/v1/destinations/bank")
	var d struct {
		Contract struct{ Limits []struct{ Rate float64 } }
	}
	if code != http.StatusOK {
		return 0, code
	}
	if err := json.Unmarshal([]byte(body), &d); err != nil || len(d.Contract.Limits) != 1 {
		t.Fatalf("%v: %s", err, body)
	}
	return d.Contract.Limits[0].Rate, code
}

// The file is applied at start, when it changes, also by rename, and when
// Redis comes back empty. A broken one changes nothing and shows in a metric.
func TestDestinationsFile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	path := bankAt50(t)
	c := enqueuerConfig(common(t, server.URL()))
	c.Destinations = path
	e := startEnqueuer(t, c)
	if rate, _ := destinationRate(t, e.Addr()); rate != 50 {
		t.Fatalf("rate %v after the start", rate)
	}
	write(t, path+".new", strings.ReplaceAll(bankFile, "%RATE%", "7"))
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new rate is in force", func() bool { rate, _ := destinationRate(t, e.Addr()); return rate == 7 })

	reload := func() bool {
		_, body := get(t, "http://"+e.AdminAddr()+"/metrics")
		return strings.Contains(body, "\ntundish_config_last_reload_successful{file=\"destinations\"} 1\n")
	}
	write(t, path, "destinations: [{name: bank, limits: no}]\n")
	eventually(t, "the broken file shows in the metric", func() bool { return !reload() })
	if rate, _ := destinationRate(t, e.Addr()); rate != 7 {
		t.Errorf("rate %v after a broken file", rate)
	}
	write(t, path, strings.ReplaceAll(bankFile, "%RATE%", "9"))
	eventually(t, "the mended file is applied", func() bool { rate, _ := destinationRate(t, e.Addr()); return rate == 9 && reload() })

	client := server.Client(t)
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the destination is back after a loss of memory", func() bool { rate, _ := destinationRate(t, e.Addr()); return rate == 9 })
	// It was known on another installation: its slots are treated as used.
	keys, err := client.Keys(t.Context(), "*:bank:state").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("state keys %v, %v", keys, err)
	}
	if srv := client.HGet(t.Context(), keys[0], "srv").Val(); srv != "lost" {
		t.Errorf("srv = %q, want lost", srv)
	}
}

// What the file no longer names goes on, says so, and may be deleted by hand.
func TestVanishedDestinationIsOrphaned(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	path := filepath.Join(t.TempDir(), "d.yaml")
	both := strings.ReplaceAll(bankFile, "%RATE%", "50")
	write(t, path, both)
	c := enqueuerConfig(common(t, server.URL()))
	c.Destinations = path
	e := startEnqueuer(t, c)
	bank := "http://" + e.Addr() + "/v1/destinations/bank"
	remove := func() int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, bank, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer http.DefaultClient.CloseIdleConnections()
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if status := remove(); status != http.StatusConflict {
		t.Errorf("deleted while the file names it: %d", status)
	}
	write(t, path, "destinations: []\n")
	orphaned := func() bool { _, body := get(t, bank); return strings.Contains(body, `"state_reasons":["orphaned: `) }
	eventually(t, "it is shown as orphaned", orphaned)
	write(t, path, both)
	eventually(t, "the file takes it again", func() bool { return !orphaned() })
	write(t, path, "destinations: []\n")
	eventually(t, "it is orphaned again", orphaned)
	if status := remove(); status != http.StatusOK {
		t.Errorf("delete: %d", status)
	}
}

// Two files that name one destination: the first set owns it.
func TestAFileLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	shared := common(t, server.URL())
	start := func(set, rate string) *Enqueuer {
		path := filepath.Join(t.TempDir(), set+".yaml")
		write(t, path, "set: "+set+"\n"+strings.ReplaceAll(bankFile, "%RATE%", rate))
		c := enqueuerConfig(shared)
		c.Destinations = path
		return startEnqueuer(t, c)
	}
	start("payments", "50")
	other := start("mails", "99")
	if rate, _ := destinationRate(t, other.Addr()); rate != 50 {
		t.Errorf("rate %v; another set's file changed it", rate)
	}
}

func TestFleetMetrics(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	c := enqueuerConfig(common(t, server.URL()))
	c.Destinations = bankAt50(t)
	e := startEnqueuer(t, c)
	_, body := get(t, "http://"+e.AdminAddr()+"/metrics")
	for _, want := range []string{
		`tundish_queue_jobs{destination="bank",state="ready"} 0`, `tundish_queue_capacity_jobs{destination="bank"} 10000`,
		`tundish_limit_rate_per_second{destination="bank",limit="tps"} 50`, `tundish_destination_state{destination="bank",state="running"} 1`,
		`tundish_build_info{`, `tundish_redis_up 1`, `tundish_redis_errors_total{kind="network"} 0`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
}
