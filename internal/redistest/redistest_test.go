package redistest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) { Main(m) }

func TestSharedIsOneServer(t *testing.T) {
	t.Parallel()
	a, b := Shared(t), Shared(t)
	if a != b {
		t.Fatalf("two servers: %s and %s", a.Addr(), b.Addr())
	}
	opts, err := redis.ParseURL(a.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(opts)
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestNamespacesDiffer(t *testing.T) {
	t.Parallel()
	if a, b := Namespace(t), Namespace(t); a == b {
		t.Fatalf("both are %s", a)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		opts []Option
		want string
	}{
		{"empty without persistence", nil, ""},
		{"kept with AOF", []Option{WithAOF()}, "v"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := Start(t, tt.opts...)
			c := s.Client(t)
			if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			pid := s.PID()
			s.Restart(t)
			if s.PID() == pid {
				t.Fatal("the process is the old one")
			}
			got, err := c.Get(t.Context(), "k").Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Fatalf("k = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Kill(t)
	if err := s.ping(); err == nil {
		t.Fatal("a killed server answers")
	}
}

func TestStopAndCont(t *testing.T) {
	t.Parallel()
	s := Start(t)
	o := s.options()
	o.ContextTimeoutEnabled = true
	c := redis.NewClient(o)
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Fatal("a stopped server answers")
	}
	s.Cont(t)
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	s := Start(t, WithConfig("maxmemory", "10mb"))
	s.Config(t, "maxmemory-policy", "allkeys-lru")
	for name, want := range map[string]string{"maxmemory": "10485760", "maxmemory-policy": "allkeys-lru"} {
		got, err := s.Client(t).ConfigGet(t.Context(), name).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got[name] != want {
			t.Errorf("%s = %q, want %q", name, got[name], want)
		}
	}
}

func TestClusterTakesWrites(t *testing.T) {
	t.Parallel()
	s := SharedCluster(t)
	if err := s.Client(t).Set(t.Context(), Namespace(t), "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestStartSaysWhyItFailed(t *testing.T) {
	t.Parallel()
	_, err := start(t.TempDir(), []Option{WithConfig("no-such-parameter", "1")})
	if err == nil || !strings.Contains(err.Error(), "no-such-parameter") {
		t.Fatalf("error %v does not name the parameter", err)
	}
}

func TestMini(t *testing.T) {
	t.Parallel()
	opts, err := redis.ParseURL(MiniURL(Mini(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(opts)
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s, err := start(b.TempDir(), nil)
		if err != nil {
			b.Fatal(err)
		}
		s.proc.kill()
	}
}
