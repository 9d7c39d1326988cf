package redistest

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// joinWithin is how long nodes may take to know each other.
const joinWithin = 20 * time.Second

// Nodes are the masters of a Cluster without replicas. While one is away the
// others serve their slots.
type Nodes []*Server

// StartNodes starts a Cluster of n masters that share the slots evenly.
func StartNodes(t testing.TB, n int, opts ...Option) Nodes {
	t.Helper()
	nodes := make(Nodes, n)
	for i := range n {
		own := func(s *Server) { s.slots = [2]int{i * (lastSlot + 1) / n, (i+1)*(lastSlot+1)/n - 1} }
		all := append([]Option{WithCluster(), own, WithConfig("cluster-require-full-coverage", "no"),
			WithConfig("cluster-node-timeout", "2000")}, opts...)
		nodes[i] = Start(t, all...)
	}
	ctx := context.Background()
	for _, s := range nodes[1:] {
		if err := s.node(t).Do(ctx, "CLUSTER", "MEET", "127.0.0.1", nodes[0].port, nodes[0].port+20000).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:" + strconv.Itoa(n)}
	for _, s := range nodes {
		s.waitForInfo(t, func() (string, error) { return s.node(t).ClusterInfo(ctx).Result() }, want...)
	}
	return nodes
}

// URL names all nodes.
func (n Nodes) URL() string {
	var addrs []string
	for _, s := range n {
		addrs = append(addrs, s.Addr())
	}
	return "redis://" + strings.Join(addrs, ",") + "/"
}

// Replica starts a server that copies master, and waits until it has.
func Replica(t testing.TB, master *Server, opts ...Option) *Server {
	t.Helper()
	s := Start(t, append([]Option{WithConfig("replicaof", "127.0.0.1", strconv.Itoa(master.port))}, opts...)...)
	s.waitForInfo(t, func() (string, error) { return s.node(t).Info(context.Background(), "replication").Result() }, "master_link_status:up")
	return s
}

// node is a client of this server alone.
func (s *Server) node(t testing.TB) *redis.Client {
	t.Helper()
	c := redis.NewClient(s.options())
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// waitForInfo waits until what a server says of itself has each of the lines.
func (s *Server) waitForInfo(t testing.TB, info func() (string, error), lines ...string) {
	t.Helper()
	for end := time.Now().Add(joinWithin); ; <-time.After(20 * time.Millisecond) {
		text, err := info()
		missing := ""
		for _, l := range lines {
			if !strings.Contains("\r\n"+text, "\r\n"+l+"\r\n") {
				missing = l
			}
		}
		if err == nil && missing == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: no %q within %s: %v\n%s", s.Addr(), missing, joinWithin, err, text)
		}
	}
}

// Holds says whether a key of this pattern is on the node.
func (s *Server) Holds(t testing.TB, pattern string) bool {
	t.Helper()
	keys, err := s.node(t).Keys(context.Background(), pattern).Result()
	if err != nil {
		t.Fatal(err)
	}
	return len(keys) > 0
}

// AwaitReplicas waits until n replicas have all that was written so far.
func (s *Server) AwaitReplicas(t testing.TB, n int) {
	t.Helper()
	c := s.node(t).Conn() // WAIT looks at the writes of its own connection
	defer c.Close()
	if err := c.Set(context.Background(), "redistest:wait", 1, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Wait(context.Background(), n, joinWithin).Result(); err != nil || int(got) < n {
		t.Fatalf("%d of %d replicas within %s: %v", got, n, joinWithin, err)
	}
}

// Move moves the slot of the keys of this pattern, all of one slot, to another
// node while clients go on, as an operator's tool does: a few keys at a time,
// so that calls find them on both sides.
func (n Nodes) Move(t testing.TB, pattern string, from, to int) {
	t.Helper()
	ctx, source, target := context.Background(), n[from].node(t), n[to].node(t)
	must := func(c *redis.Client, args ...any) any {
		t.Helper()
		reply, err := c.Do(ctx, args...).Result()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return reply
	}
	keys := must(source, "KEYS", pattern).([]any)
	if len(keys) == 0 {
		t.Fatalf("%s holds no key like %s", n[from].Addr(), pattern)
	}
	slot := must(source, "CLUSTER", "KEYSLOT", keys[0])
	old, next := must(source, "CLUSTER", "MYID"), must(target, "CLUSTER", "MYID")
	must(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", old)
	must(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", next)
	for {
		some := must(source, "CLUSTER", "GETKEYSINSLOT", slot, 5).([]any)
		if len(some) == 0 {
			break
		}
		<-time.After(30 * time.Millisecond)
		must(source, append([]any{"MIGRATE", "127.0.0.1", n[to].port, "", 0, joinWithin.Milliseconds(), "KEYS"}, some...)...)
	}
	must(target, "CLUSTER", "SETSLOT", slot, "NODE", next)
	must(source, "CLUSTER", "SETSLOT", slot, "NODE", next)
}
