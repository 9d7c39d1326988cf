package redistest

import (
	"context"
	"testing"
)

func TestNodesShareTheSlots(t *testing.T) {
	t.Parallel()
	nodes := StartNodes(t, 3)
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} { // on all three
		if err := nodes[0].Client(t).Set(context.Background(), key, 1, 0).Err(); err != nil {
			t.Errorf("set %s: %v", key, err)
		}
	}
	for _, s := range nodes {
		if n := s.node(t).DBSize(context.Background()).Val(); n == 0 {
			t.Errorf("%s holds no key", s.Addr())
		}
	}
}

func TestReplicaTakesOver(t *testing.T) {
	t.Parallel()
	master := Start(t)
	replicas := []*Server{Replica(t, master), Replica(t, master)}
	sentinel := Sentinel(t, master, replicas...)
	if err := master.Client(t).Set(context.Background(), "key", "kept", 0).Err(); err != nil {
		t.Fatal(err)
	}
	master.AwaitReplicas(t, 2)
	master.Kill(t)
	next := NextMaster(t, sentinel, master)
	if next != replicas[0].Addr() && next != replicas[1].Addr() {
		t.Errorf("%s became master", next)
	}
}
