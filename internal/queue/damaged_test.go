package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tundish/internal/job"
)

// A contract that lost a field is faulty, shown, and can be replaced or deleted.
func TestContractThatLostAFieldCanBeDeleted(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"version", "gen", "limits", "doc", "source", "timeout"} {
		for _, replace := range []bool{true, false} {
			t.Run(fmt.Sprint(field, " replaced ", replace), func(t *testing.T) {
				t.Parallel()
				b := openBench(t, "redis")
				b.apply(perSecond(fast), "")
				b.accept(newJobs(3, "")...)
				if err := b.db.Client().HDel(t.Context(), b.keys.Conf(), field).Err(); err != nil {
					t.Fatal(err)
				}
				if d, err := b.s.Destination(t.Context(), b.lane); err != nil || field != "source" && d.Faulty == "" {
					t.Errorf("read: %+v, %v", d, err)
				}
				if replace {
					b.apply(perSecond(fast/2), "")
					if n := len(b.turn(10).Leases); n != 3 {
						t.Errorf("%d leases after another contract was applied", n)
					}
				}
				if _, err := b.s.Delete(t.Context(), b.lane, 0, true); err != nil {
					t.Errorf("delete: %v", err)
				}
			})
		}
	}
}

// Whichever field of a contract is damaged, its destination is shown as faulty.
func TestDamagedContractIsShown(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	b.apply(perSecond(1000), following)
	b.accept(newJob(""))
	sound := b.dump().conf
	for _, field := range []string{"version", "gen", "limits", "guard_us", "cap", "timeout", "capacity", "max_bytes", "max_history", "share", "aging",
		"keep_keys", "keep_done", "keep_dead", "dead_max"} {
		for _, bad := range []string{"", "x", "-1", "nan", "1e999"} {
			if err := b.db.Client().HSet(t.Context(), b.keys.Conf(), field, bad).Err(); err != nil {
				t.Fatal(err)
			}
			if d, err := b.s.Destination(t.Context(), b.lane); err != nil || d.Faulty == "" {
				t.Errorf("%s is %q: read %+v, %v", field, bad, d, err)
			}
			if l := b.survey(); l.State != faultyState {
				t.Errorf("%s is %q: it is surveyed as %s", field, bad, l.State)
			}
			if r := b.turn(1); r.Status != TurnFaulty {
				t.Errorf("%s is %q: it is turned, %s", field, bad, r.Status)
			}
			if err := b.db.Client().HSet(t.Context(), b.keys.Conf(), field, sound[field]).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d, err := b.s.Destination(t.Context(), b.lane); err != nil || d.Faulty != "" {
		t.Errorf("whole again: %+v, %v", d, err)
	}
}

// A lane whose state holds damaged numbers goes on.
func TestDamagedStateGoesOn(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"nan", "-nan", "inf", "1e999", "", "x", "0x", "1e300", "-1e300", "9007199254740993", "99999999999999999999",
		"9007199254740993:9007199254740993:1000", "9007199254740993:0:1005000:0:0", "99999999999999999999:0:0"} {
		t.Run(bad, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, "redis")
			b.apply(perSecond(fast), "")
			b.accept(newJobs(3, "")...)
			for _, field := range []string{"vt", "epoch", "planned", "norecover", "bytes", "hist", "deadbytes", "order", "last", "tol", "l:tps", "t:tps"} {
				if err := b.db.Client().HSet(t.Context(), b.keys.State(), field, bad).Err(); err != nil {
					t.Fatal(err)
				}
			}
			b.accept(newJobs(3, "")...)
			var leases []Lease
			for range 3 {
				leases = append(leases, b.turn(10).Leases...)
				b.pass(time.Second)
			}
			if len(leases) != 6 {
				t.Fatalf("%d leases of 6 jobs", len(leases))
			}
			if adj := b.db.Client().HGet(t.Context(), b.keys.Clock(), "adj").Val(); adj != "3000000" {
				t.Errorf("the time of all lanes of the shard was moved, to %s", adj)
			}
			if got := b.state(leases[0].ID); got != job.Leased {
				t.Errorf("job is %s", got)
			}
		})
	}
}

// What a lane learnt from answers, or its terms, may be damaged or from another
// program: it learns anew.
func TestDamagedPoliciesGoOn(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("9", 400)
	for name, set := range map[string]map[string]string{
		"terms":    {"breaker": "3", "adaptive": "x"},
		"terms 2":  {"breaker": "1|x|y", "adaptive": "nan"},
		"terms 3":  {"breaker": "1|2000000|" + huge, "adaptive": "inf"},
		"learnt":   {"s:breaker": "open|x", "s:adapt": "5", "s:cool": "nan", "s:good": "x"},
		"learnt 2": {"s:breaker": "ajar|1|0|0|", "s:adapt": "0|steady|0", "s:cool": "inf"},
		"learnt 3": {"s:breaker": "open|" + huge + "|" + huge + "|" + huge + "|", "s:adapt": huge + "|slow|" + huge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, perSecond(1000), following, func(t *testing.T, b *bench) {
				b.accept(newJobs(4, "")...)
				for field, v := range set {
					key := b.keys.Conf()
					if f, state := strings.CutPrefix(field, "s:"); state {
						key, field = b.keys.State(), f
					}
					if err := b.db.Client().HSet(t.Context(), key, field, v).Err(); err != nil {
						t.Fatal(err)
					}
				}
				for range 8 {
					r := b.turn(10)
					var ends []Result
					for _, l := range r.Leases {
						ends = append(ends, bad(l))
					}
					b.turn(0, ends...)
					b.accept(newJob(""))
					b.pass(6 * time.Second)
				}
				leases := b.turn(100).Leases
				if len(leases) == 0 {
					t.Errorf("nothing is sent: %+v", b.live())
				}
				b.checkDump()
			})
		})
	}
}
