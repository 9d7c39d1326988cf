package sharedbucket

import (
	"context"
	"strconv"
	"testing"
	"time"
)

var clockScript = join("clock_test", `
A = {expect = tonumber(ARGV[1]), width = tonumber(ARGV[2]), confirmed = ARGV[3], move = tonumber(ARGV[4]), slack = tonumber(ARGV[5])}
local now, raw, adj, stepped = read_clock()
return {now and int(now) or '', int(raw), int(adj), stepped and 1 or 0, identity()}
`)

type reading struct {
	now      int64 // 0: refused
	raw, adj int64
	stepped  bool
	identity string
}

func (b *bench) clock(t *testing.T, expect, width int64, confirmed string, move int64) reading {
	t.Helper()
	return b.lateClock(t, expect, width, 0, confirmed, move)
}

// lateClock is clock for a caller whose calls run later than they could.
func (b *bench) lateClock(t *testing.T, expect, width, slack int64, confirmed string, move int64) reading {
	t.Helper()
	v, err := b.db.Run(context.Background(), clockScript, b.keys, expect, width, confirmed, move, slack)
	if err != nil {
		t.Fatal(err)
	}
	list := v.([]any)
	r := reading{raw: integer(t, list[1]), stepped: list[3].(int64) == 1, identity: list[4].(string)}
	if r.adj, err = strconv.ParseInt(list[2].(string), 10, 64); err != nil {
		t.Fatal(err)
	}
	if list[0] != "" {
		r.now = integer(t, list[0])
	}
	return r
}

// TestStepBackIsMendedAtOnce: logical time goes on where the caller expects it.
func TestStepBackIsMendedAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		before := b.clock(t, 0, 0, "", 0)
		expect := before.now + 600*sec // TIME is 10 minutes behind what the caller knows
		r := b.clock(t, expect, 1000, "", 0)
		if !r.stepped || r.now != expect+500 || r.now != r.raw+r.adj {
			t.Errorf("%+v, expected %d", r, expect)
		}
		if again := b.clock(t, expect, 1000, "", 0); again.stepped || again.adj != r.adj || again.now < r.now {
			t.Errorf("mended twice: %+v", again)
		}
		if plain := b.clock(t, 0, 0, "", 0); plain.adj != r.adj || plain.now < r.now {
			t.Errorf("a caller without bounds sees %+v", plain)
		}
	})
}

// TestStepForwardNeedsConfirmation: to the script a late call looks the same.
func TestStepForwardNeedsConfirmation(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		expect := b.clock(t, 0, 0, "", 0).now - 600*sec
		r := b.clock(t, expect, 1000, "", 0)
		if r.now != 0 || r.stepped || r.adj != 0 {
			t.Fatalf("%+v", r)
		}
		for _, other := range []string{"1", "", "-600000000"} {
			if r := b.clock(t, expect, 1000, other, -600*sec); r.now != 0 || r.adj != 0 {
				t.Errorf("confirmed %q: %+v", other, r)
			}
		}
		if r := b.clock(t, expect, 1000, "0", -600*sec); !r.stepped || r.adj != -600*sec || r.now != r.raw-600*sec {
			t.Errorf("confirmed: %+v", r)
		}
	})
}

// TestSmallStepsPassAsTime, and callers without bounds never move anything.
func TestSmallStepsPassAsTime(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		now := b.clock(t, 0, 0, "", 0).now
		for _, expect := range []int64{0, now + 30_000, now - 5_000} {
			if r := b.clock(t, expect, 20*sec, "0", 77); r.stepped || r.adj != 0 || r.now != r.raw {
				t.Errorf("expect %d: %+v", expect, r)
			}
		}
		if r := b.clock(t, 0, 0, "0", 77); r.stepped || r.adj != 0 {
			t.Errorf("no bounds: %+v", r)
		}
	})
}

// TestSlackIsForLateCallsAlone: a caller whose calls are usually late is refused later, and
// sees time go back as soon as others.
func TestSlackIsForLateCallsAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		const slack, width = 20 * sec, 1000
		now := b.clock(t, 0, 0, "", 0).now
		if r := b.lateClock(t, now-slack, width, slack, "", 0); r.now == 0 || r.stepped {
			t.Errorf("late as usual: %+v", r)
		}
		if r := b.lateClock(t, now-slack-2*sec, width, slack, "", 0); r.now != 0 {
			t.Errorf("later than that: %+v", r)
		}
		if r := b.lateClock(t, now+10*sec, width, slack, "", 0); !r.stepped || r.adj < 9*sec {
			t.Errorf("back: %+v", r)
		}
	})
}

func TestIdentityIsTheServers(t *testing.T) {
	t.Parallel()
	server, mini := openBench(t, "redis").clock(t, 0, 0, "", 0), openBench(t, "miniredis").clock(t, 0, 0, "", 0)
	if len(server.identity) != 40 || mini.identity != "-" {
		t.Errorf("redis %q, miniredis %q", server.identity, mini.identity)
	}
	if d := time.Since(time.UnixMicro(server.raw)); d < -time.Minute || d > time.Minute {
		t.Errorf("TIME is off by %v", d)
	}
}
