package queue

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tundish/internal/job"
)

// modelPolicy is what the model knows of the lane's cool-down and breaker.
type modelPolicy struct {
	most       int   // failures in a row that open the breaker; 0: it has none
	cool, good int64 // logical µs
	breaker    modelBreaker
	known      bool // the lane has written its breaker
}

type modelBreaker struct {
	phase       string // closed, open, probing
	n           int
	ends, since int64
	id          job.ID
}

func (m *model) breakerJSON() string {
	return fmt.Sprintf(`"breaker":{"failures":%d,"open_for":"2s","max_open_for":"5s"}`, m.policy.most)
}

// beginBreaker follows a contract that changed: one that is switched on starts closed.
func (m *model) beginBreaker() {
	p, unbegun := &m.policy, modelBreaker{phase: "closed"}
	switch {
	case p.most == 0 && p.known:
		p.breaker = unbegun
	case p.most > 0 && (!p.known || p.breaker == unbegun):
		since := int64(0)
		fmt.Sscanf(m.b.dump().state["breaker"], "closed|0|0|%d|", &since)
		if since < m.now {
			m.fail("the breaker begins at %d, before %d", since, m.now)
		}
		p.write(modelBreaker{phase: "closed", since: since})
	}
}

// inForce is the breaker as the contract has it.
func (p *modelPolicy) inForce() modelBreaker {
	if p.most == 0 || !p.known {
		return modelBreaker{phase: "closed"}
	}
	return p.breaker
}

func (p *modelPolicy) write(b modelBreaker) { p.breaker, p.known = b, true }

func (p *modelPolicy) open(b modelBreaker, n int, now int64, id job.ID) {
	span := min(5e6, int64(2e6*math.Exp2(float64(n-1))))
	p.write(modelBreaker{"open", n, now + span, b.since, id})
}

// learn takes in the result of a lease in this slot.
func (p *modelPolicy) learn(r *Result, slot, now int64) {
	if r.Kind == KindDelivered {
		p.good = max(p.good, slot)
	}
	if r.Health == HealthNone {
		return
	}
	b, ok := p.inForce(), r.Health != HealthBad
	switch {
	case b.phase == "probing" && r.ID == b.id && ok:
		p.write(modelBreaker{phase: "closed", since: now})
	case b.phase == "probing" && r.ID == b.id:
		p.open(b, b.n+1, now, r.ID)
	case b.phase != "closed" || slot < b.since:
	case ok && b.n > 0:
		p.write(modelBreaker{phase: "closed", since: b.since})
	case ok || p.most == 0:
	case b.n+1 >= p.most:
		p.open(b, 1, now, "")
	default:
		p.write(modelBreaker{phase: "closed", n: b.n + 1, since: b.since})
	}
}

// throttle answers when a job is due whose destination said "later".
func (p *modelPolicy) throttle(r *Result, slot, now int64) int64 {
	until := now + r.Delay.Microseconds()
	if r.Before == 0 || p.good <= r.Before {
		p.cool = max(p.cool, until)
		until = p.cool
	}
	return until + slot%1_000_000
}

// sendsFrom is from when on the lane may send; probing: one job, and never: a probe is out.
func (m *model) sendsFrom() (from int64, probing, never bool) {
	b := m.policy.inForce()
	from = max(m.now, m.policy.cool)
	if b.phase == "open" {
		from = max(from, b.ends)
	}
	out := m.jobs[b.id]
	return from, b.phase != "closed", b.phase == "probing" && out != nil && out.state == job.Leased
}

// probes checks what a turn handed out against cool-down and breaker, and takes
// the probe in. It answers whether a reason "held" is a true one.
func (m *model) probes(t *Turn, r *TurnReply, from int64, probing, never bool) (held bool) {
	n := len(r.Leases)
	switch {
	case n > 0 && (never || from > m.now+t.Ahead.Microseconds()):
		m.fail("%d leases while the lane is held until %d, a probe is out: %v", n, from, never)
	case n > 1 && probing:
		m.fail("%d leases at once are no probe", n)
	case n > 0 && r.Leases[0].Slot < from:
		m.fail("slot %d before %d", r.Leases[0].Slot, from)
	}
	if n == 1 && probing {
		b := m.policy.inForce()
		m.policy.write(modelBreaker{"probing", b.n, b.ends, b.since, r.Leases[0].ID})
		return true
	}
	return never || from > m.now+t.Ahead.Microseconds()
}

// comparePolicy holds the lane's state against the model's.
func (m *model) comparePolicy(d *dump) {
	b, want := m.policy.breaker, ""
	if m.policy.known {
		want = strings.Join([]string{b.phase, strconv.Itoa(b.n), fmt.Sprint(b.ends), fmt.Sprint(b.since), string(b.id)}, "|")
	}
	if d.number("cool") != m.policy.cool || d.number("good") != m.policy.good || d.state["breaker"] != want {
		m.fail("cool %s, good %s, breaker %q; want %d, %d, %q", d.state["cool"], d.state["good"], d.state["breaker"], m.policy.cool, m.policy.good, want)
	}
}

// randomHealth is what an attempt may tell.
func (m *model) randomHealth() Health {
	return []Health{HealthOK, HealthOK, HealthSlow, HealthBad, HealthBad, HealthNone}[m.rng.IntN(6)]
}

// laterSaid makes a result "later", sometimes of a job that drew it before.
func (m *model) laterSaid(r *Result) {
	r.Delay, r.Counts = time.Duration(m.rng.IntN(3000))*time.Millisecond, false
	if j := m.jobs[r.ID]; j != nil && m.rng.IntN(2) == 0 {
		r.Before = j.later
	}
}
