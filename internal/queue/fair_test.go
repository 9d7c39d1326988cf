package queue

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// serve hands out n jobs in turns of some, settles each at once by kind, and
// counts them by tenant.
func (b *bench) serve(n, each int, kind func(tenant string) Kind) map[string]int {
	b.t.Helper()
	served := map[string]int{}
	var results []Result
	for total := 0; total < n; {
		r := b.turnAs("w1", Turn{Want: min(each, n-total), Ahead: 400 * time.Millisecond, Result: results})
		if len(r.Leases) == 0 {
			b.t.Fatalf("%d of %d served: %s", total, n, r.Why)
		}
		results = results[:0]
		for _, l := range r.Leases {
			j, err := Decode(b.lane, l.ID, l.Envelope)
			if err != nil {
				b.t.Fatal(err)
			}
			served[j.Tenant]++
			results = append(results, settleAll([]Lease{l}, kind(j.Tenant))[0])
		}
		total += len(r.Leases)
	}
	b.turn(0, results...)
	return served
}

// succeed delivers every job.
func succeed(string) Kind { return KindDelivered }

func near(got map[string]int, want map[string]int, by int) bool {
	for tenant, n := range want {
		if math.Abs(float64(got[tenant]-n)) > float64(by) {
			return false
		}
	}
	return true
}

// TestTenantsShareEqually, however many jobs each has.
func TestTenantsShareEqually(t *testing.T) {
	t.Parallel()
	for _, each := range []int{1, 7, 50, 100} {
		t.Run(fmt.Sprint(each), func(t *testing.T) {
			t.Parallel()
			b := openBench(t, "redis")
			b.apply(perSecond(fast), "")
			b.accept(newJobs(1000, "a")...)
			b.accept(newJobs(110, "b")...)
			b.accept(newJobs(110, "")...)
			if got := b.serve(300, each, succeed); !near(got, map[string]int{"a": 100, "b": 100, "": 100}, 1) {
				t.Errorf("served %v", got)
			}
			b.checkDump()
		})
	}
}

func TestTenantsShareByWeight(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), `"tenants":{"weights":{"b":2,"c":4}}`)
	for _, tenant := range []string{"a", "b", "c"} {
		b.accept(newJobs(500, tenant)...)
	}
	if got := b.serve(700, 50, succeed); !near(got, map[string]int{"a": 100, "b": 200, "c": 400}, 2) {
		t.Errorf("served %v", got)
	}
	b.checkDump()
}

// TestNewcomerGetsItsShareAtOnce: no more for having been away, no less for coming late.
func TestNewcomerGetsItsShareAtOnce(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), "")
	b.accept(newJobs(1000, "a")...)
	b.serve(500, 50, succeed)
	b.accept(newJobs(60, "b")...)
	if got := b.serve(100, 20, succeed); !near(got, map[string]int{"a": 50, "b": 50}, 1) {
		t.Errorf("served %v", got)
	}
	b.serve(20, 20, succeed) // b runs dry
	b.accept(newJobs(60, "b")...)
	if got := b.serve(100, 20, succeed); !near(got, map[string]int{"a": 50, "b": 50}, 3) {
		t.Errorf("after a pause: served %v", got)
	}
}

// TestRetriesPay: a tenant whose jobs all fail gets no more slots than another.
func TestRetriesPay(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), "")
	b.accept(newJobs(20, "fails")...)
	b.accept(newJobs(400, "works")...)
	got := b.serve(400, 10, func(tenant string) Kind { return map[string]Kind{"fails": KindReturn, "works": KindDelivered}[tenant] })
	if !near(got, map[string]int{"fails": 200, "works": 200}, 10) {
		t.Errorf("served %v", got)
	}
	b.checkDump()
}

// TestReleasesAreGivenBack: a slot that was not used costs its tenant nothing.
func TestReleasesAreGivenBack(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), "")
	b.accept(newJobs(200, "a")...)
	b.accept(newJobs(200, "b")...)
	for range 10 {
		var results []Result
		for _, l := range b.turn(10).Leases {
			if j, err := Decode(b.lane, l.ID, l.Envelope); err != nil || j.Tenant == "b" {
				results = append(results, settleAll([]Lease{l}, KindRelease)[0])
			} else {
				results = append(results, delivered(l))
			}
		}
		b.turn(0, results...)
	}
	d := b.dump()
	if a, held := d.tenants["a"], d.tenants["b"]; a < 5 || a > 100 || held > 1 {
		t.Errorf("a had its slots and stands at %v, b gave all back and stands at %v", a, held)
	}
}

// TestTenantsThatComeOnceAreForgotten: the memory of who had slots is bounded,
// though such tenants never move virtual time.
func TestTenantsThatComeOnceAreForgotten(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), openBench(t, "redis")
	b.apply(perSecond(fast), "")
	var once []redis.Z
	for i := range 10_500 {
		once = append(once, redis.Z{Score: 1, Member: fmt.Sprint("user-", i)})
	}
	if err := b.db.Client().ZAdd(ctx, b.key("finish"), once...).Err(); err != nil {
		t.Fatal(err)
	}
	b.accept(newJob("once"))
	b.serve(1, 1, succeed)
	if d := b.dump(); len(d.finish) != 10_000 || len(d.tenants) > 0 || len(d.tenantjobs) > 0 {
		t.Errorf("%d finished, %d with a turn, %d counted", len(d.finish), len(d.tenants), len(d.tenantjobs))
	}
}

// TestLowPriorityAges: jobs that go first keep coming, and the last one goes
// when its steps have been waited for.
func TestLowPriorityAges(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), `"queue":{"aging":"1s"}`)
	low := newJob("")
	low.Priority = 9
	b.accept(low)
	for second := range 12 {
		jobs := newJobs(3, "")
		for _, j := range jobs {
			j.Priority = 0
		}
		b.accept(jobs...)
		leases := b.turn(3).Leases
		b.turn(0, settleAll(leases, KindDelivered)...)
		for _, l := range leases {
			if l.ID != low.ID {
				continue
			}
			if second < 8 {
				t.Errorf("sent after %d s, before jobs that go first", second)
			}
			return
		}
		b.pass(time.Second)
	}
	t.Error("never sent")
}

// TestOrderWithinATenant is that of the pushes, also after a release.
func TestOrderWithinATenant(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(fast), "")
	jobs := newJobs(100, "a")
	b.accept(jobs[:50]...)
	b.accept(jobs[50:]...)
	leases := b.turn(10).Leases
	b.turn(0, settleAll(leases, KindRelease)...)
	for i, l := range b.leaseAll(100) {
		if l.ID != jobs[i].ID {
			t.Fatalf("place %d is %s, want %s", i, l.ID, jobs[i].ID)
		}
	}
}
