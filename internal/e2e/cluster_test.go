package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"tundish/internal/bank"
	"tundish/internal/redistest"
)

// holder is the node on which the keys of a destination are.
func holder(t *testing.T, nodes redistest.Nodes, destination string) int {
	t.Helper()
	for i, n := range nodes {
		if n.Holds(t, "*:"+destination+":conf") {
			return i
		}
	}
	t.Fatalf("no node holds %q", destination)
	return 0
}

// The whole life of destinations that lie on three masters, and one of these
// killed: its destinations wait and go on, the others notice nothing.
func TestClusterLosesANodeAndGetsItBack(t *testing.T) {
	t.Parallel()
	takeSeats(t, false)
	nodes := redistest.StartNodes(t, 3, redistest.WithAOF())
	r := newRigOn(t, nodes.URL())
	r.startEnqueuer()
	r.startWorkers(2)
	const rate, lanes = 20, 9
	type load struct {
		name string
		site *site
		node int
		ids  []string
	}
	var loads []*load
	for i := range lanes {
		l := &load{name: fmt.Sprintf("bank-%d", i), site: r.startBank(bank.Config{Latency: 20 * time.Millisecond})}
		r.put(l.name, contract{URL: l.site.url, Rate: rate})
		l.node = holder(t, nodes, l.name)
		loads = append(loads, l)
	}
	dead := loads[0].node
	for _, l := range loads {
		l.ids = r.push(l.name, 80)
	}
	for _, l := range loads {
		r.requests(l.site, 20)
	}
	nodes[dead].Kill(t)
	others := 0
	for _, l := range loads {
		if l.node != dead {
			others++
			r.arrived(l.site, l.ids, 10*time.Second)
			r.settled(l.name)
		}
	}
	if others == 0 {
		t.Fatal("all destinations are on one node: the test tests nothing")
	}
	a, err := r.try(http.MethodPost, r.at(loads[0].name)+"/jobs", `{"body":1}`)
	if err != nil || a.status != http.StatusServiceUnavailable {
		t.Errorf("push to a destination on the dead node: %d, %v", a.status, err)
	}
	nodes[dead].Restart(t)
	for _, l := range loads {
		r.arrived(l.site, l.ids, patience)
		r.settled(l.name)
		r.mustJudge(l.name, l.site, bank.Case{Rate: rate, Per: time.Second})
	}
	for _, l := range loads {
		r.do(http.MethodDelete, r.at(l.name), "", http.StatusOK)
	}
}

// The slot of a busy destination goes from master to master and back, and the
// last one that has it is killed: pushes and sending go on soon after each.
func TestClusterMovesSlotsUnderLoad(t *testing.T) {
	t.Parallel()
	takeSeats(t, false)
	nodes := redistest.StartNodes(t, 3, redistest.WithAOF())
	r := newRigOn(t, nodes.URL())
	r.startEnqueuer()
	r.startWorkers(2)
	const rate = 50
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: rate})
	backlog := r.push("bank", 50)
	pushes := r.startStream("bank", 20*time.Millisecond)
	r.requests(site, 20)
	at := holder(t, nodes, "bank")
	for range 3 {
		to := (at + 1) % len(nodes)
		nodes.Move(t, "*:bank:conf", at, to)
		at = to
		r.sendsAgain("bank", bank.Monotonic())
		r.takenNow(pushes, soon)
		seen, _ := site.Arrivals()
		r.requests(site, len(seen)+rate/2)
	}
	taken, refused := pushes.count()
	if refused > taken/10 {
		t.Errorf("%d pushes were refused while slots moved, %d taken", refused, taken)
	}
	nodes[at].Kill(t)
	r.refusedNow(pushes)
	nodes[at].Restart(t)
	r.takenNow(pushes, 5*time.Second)
	ids, all := pushes.end()
	r.allRetryLater(all)
	t.Logf("%d pushes taken, %d refused, %d of them while slots moved", len(ids), len(all), refused)
	ids = append(ids, backlog...)
	r.recount("bank", site, ids)
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: len(ids)})
}

// A master is killed and a Sentinel makes a replica of it the next one: jobs
// that were replicated are all sent, none above the rate. Where the contract asks
// for a replica each job that was taken is; where it says at most once, none twice.
func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{
		"memory":       "",
		"replica":      `, "durability": "replica"`,
		"at_most_once": `, "durability": "replica", "delivery": "at_most_once"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failOver(t, more, more != "", name == "at_most_once")
		})
	}
}

func failOver(t *testing.T, more string, durable, once bool) {
	takeSeats(t, false)
	safe := redistest.WithConfig("min-replicas-to-write", "1")
	master := redistest.Start(t, safe)
	replicas := []*redistest.Server{redistest.Replica(t, master, safe), redistest.Replica(t, master, safe)}
	sentinel := redistest.Sentinel(t, master, replicas...)
	r := newRigOn(t, "redis+sentinel://"+sentinel+"/main")
	r.startEnqueuer()
	r.startWorkers(3)
	const rate = 50
	site := r.startBank(bank.Config{Latency: 20 * time.Millisecond})
	r.put("bank", contract{URL: site.url, Rate: rate, Timeout: "2s", More: more})
	ids := r.push("bank", 300)
	var pushes *stream
	if durable {
		pushes = r.startStream("bank", 50*time.Millisecond)
	}
	r.requests(site, 100)
	master.AwaitReplicas(t, 2)
	master.Kill(t)
	redistest.NextMaster(t, sentinel, master)
	if durable {
		r.takenNow(pushes, patience)
		taken, refused := pushes.end()
		t.Logf("%d pushes taken, %d refused", len(taken), len(refused))
		ids = append(ids, taken...)
	}
	r.eventually("an empty lane", lease(2*time.Second)+patience, func() bool { return r.live("bank").Depth == 0 })
	if once {
		t.Logf("%v", r.sentOnce("bank", site, ids))
		r.keepsRate("bank", site, rate, 0)
	} else {
		r.arrived(site, ids, patience)
		// What had not reached the replica when its master died is not known to have
		// been sent: on a busy machine half a second of it.
		r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, MayRepeat: rate / 2})
	}
	next := r.push("bank", 20)
	r.arrived(site, next, patience)
}
