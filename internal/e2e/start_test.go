package e2e

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"tundish/internal/bank"
)

func TestProgramsWaitForRedis(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.redis.Kill(t)
	r.spawnEnqueuer()
	r.spawnWorker()
	waits := regexp.MustCompile(`Redis cannot serve yet`)
	for _, s := range []*server{r.enqueuers[0], r.workers[0]} {
		s.said(t, waits)
	}
	r.redis.Restart(t)
	r.enqueuers[0].awaitEnqueuer(r)
	r.workers[0].awaitWorker(r)
	for _, s := range []*server{r.enqueuers[0], r.workers[0]} {
		r.eventually(s.name+" is ready", patience, func() bool {
			a, err := r.try(http.MethodGet, s.admin+"/readyz", "")
			return err == nil && a.status == http.StatusOK
		})
	}
	site := r.startBank(bank.Config{})
	r.put("bank", contract{URL: site.url, Rate: 50})
	r.arrived(site, r.push("bank", 1), patience)
}

func TestBadFlagsAreRefusedAllAtOnce(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, program string
		flags         []string
		want          []string
	}{
		{"all of an enqueuer", "enqueuer", []string{"--log-level", "loud", "--log-format", "xml", "--listen", "nowhere", "--metrics-destinations", "0",
			"--tls-cert", "cert.pem", "--destinations", "missing.yaml"},
			[]string{"--log-level", "--log-format", "--listen", "--metrics-destinations", "--tls-key", "--destinations"}},
		{"all of a worker", "worker", []string{"--admin-listen", "127.0.0.1:http", "--concurrency", "many", "--stop-grace", "25", "--allow-private-targets", "ten",
			"--redis-url", "http://127.0.0.1", "--namespace", "A:b"},
			[]string{"--admin-listen", "--concurrency", "--stop-grace", "--allow-private-targets", "--redis-url", "--namespace"}},
		{"every interface without keys", "enqueuer", []string{"--listen", "0.0.0.0:0"}, []string{"--listen", "--keys", "--insecure-no-auth"}},
		{"a name without keys", "enqueuer", []string{"--listen", "tundish.example:8080"}, []string{"--listen", "--keys", "--insecure-no-auth"}},
		{"an unknown flag", "worker", []string{"--rate", "50"}, []string{"--rate"}},
		{"a URL with a password", "worker", []string{"--redis-url", "redis://:geheim@127.0.0.1:x/0"}, []string{"--redis-url"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := spawn(t, c.program, program(t, c.program), c.flags...)
			if code := p.exit(t); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			for _, want := range c.want {
				if !strings.Contains(p.log(), want) {
					t.Errorf("%q is not named in:\n%s", want, p.log())
				}
			}
			if strings.Contains(p.log(), "geheim") {
				t.Error("the password is shown")
			}
		})
	}
}
