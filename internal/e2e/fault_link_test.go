package e2e

import (
	"fmt"
	"testing"
	"time"

	"tundish/internal/bank"
	"tundish/internal/redistest"
)

// linked starts n workers that reach Redis through a link each.
func (r *rig) linked(n int, flags ...string) []*redistest.Link {
	r.Helper()
	links := make([]*redistest.Link, n)
	started := make([]*server, n)
	for i := range links {
		links[i] = r.redis.NewLink(r)
		started[i] = r.spawnWorker(append([]string{"--redis-url", links[i].URL()}, flags...)...)
	}
	for _, s := range started {
		s.awaitWorker(r)
	}
	return links
}

// startLinked starts what most tests of links look at: an enqueuer, a bank that has
// a rate per second, and n workers with a link each; through a door the enqueuer
// has one too, the last.
func (r *rig) startLinked(n int, rate int64, latency time.Duration, door bool) (*site, []*redistest.Link) {
	r.Helper()
	var doors []*redistest.Link
	var flags []string
	if door {
		doors = append(doors, r.redis.NewLink(r))
		flags = []string{"--redis-url", doors[0].URL()}
	}
	r.startEnqueuer(flags...)
	site := r.startBank(bank.Config{Latency: latency})
	r.put("bank", contract{URL: site.url, Rate: rate})
	return site, append(r.linked(n), doors...)
}

// A slow link costs some of the rate and never breaks it.
func TestFaultLinkIsSlow(t *testing.T) {
	t.Parallel()
	cases := []struct {
		roundTrip, jitter time.Duration
		least             float64 // of the rate, of the best of some runs
	}{
		{2 * time.Millisecond, 0, 0.95},
		{6 * time.Millisecond, 0, 0.95},
		{30 * time.Millisecond, 0, 0.9},
		{20 * time.Millisecond, 10 * time.Millisecond, 0.85},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s±%s", c.roundTrip, 2*c.jitter), func(t *testing.T) {
			t.Parallel()
			const rate = 50
			r := newRig(t, false)
			site, links := r.startLinked(3, rate, 20*time.Millisecond, false)
			for _, l := range links {
				l.Slow(t, c.roundTrip, c.jitter)
			}
			// A machine with other work takes slots away: each run keeps the rate, one must use it.
			var use float64
			for run := 0; run < 4 && use < c.least; run++ {
				use = max(use, r.drainBacklog("bank", site, rate, 150))
			}
			t.Logf("%.1f %% of the rate was used", 100*use)
			if use < c.least {
				t.Errorf("at most %.1f %% of the rate was used, want %.0f %%", 100*use, 100*c.least)
			}
		})
	}
}

// Workers that are cut off send what they hold and nothing more, lose no result
// and go on soon after.
func TestFaultLinksAreCut(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 200
	r := newRig(t, false)
	site, links := r.startLinked(2, rate, 300*time.Millisecond, false) // answers come while the link is cut
	ids := r.push("bank", jobs)
	for cut := range 2 {
		r.requests(site, 40+60*cut)
		for _, l := range links {
			l.Cut()
		}
		r.sendsNothing("bank", bank.Monotonic(), 2*time.Second)
		for _, l := range links {
			l.Mend(t)
		}
		r.sendsAgain("bank", bank.Monotonic())
	}
	r.recount("bank", site, ids)
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs})
}

// While one worker is cut off, the others use the rate.
func TestFaultOneLinkIsCut(t *testing.T) {
	t.Parallel()
	const rate, jobs = 50, 350
	r := newRig(t, false)
	site, links := r.startLinked(2, rate, 20*time.Millisecond, false)
	ids := r.push("bank", jobs)
	r.requests(site, 40)
	for _, l := range links {
		before, _ := site.Arrivals()
		l.Cut()
		after(2 * time.Second)
		during, _ := site.Arrivals()
		if n := len(during) - len(before); n < rate {
			t.Errorf("%d requests in 2 s while one of two workers was cut off, want at least %d", n, rate)
		}
		l.Mend(t)
		after(soon) // by then it works again
	}
	r.recount("bank", site, ids)
	r.mustJudge("bank", site, bank.Case{Rate: rate, Per: time.Second, Jobs: jobs})
}

// Replies are lost after the script has run: nobody knows it, and still nothing
// is sent or made twice, and nothing waits for the end of a lease.
func TestFaultRepliesAreLost(t *testing.T) {
	t.Parallel()
	const rate, times = 50, 8
	r := newRig(t, false)
	site, links := r.startLinked(2, rate, 20*time.Millisecond, true)
	door := links[2]
	producers := r.startProducers(2, 50*time.Millisecond)
	r.requests(site, 20)
	for n := range times {
		l, long := links[n%len(links)], 200*time.Millisecond
		if l == door {
			long = time.Second // longer than the repeats of a call, so that producers have to
		}
		l.LoseReplies(t, 20*time.Millisecond)
		after(long)
		l.Heal()
		seen, _ := site.Arrivals()
		r.requests(site, len(seen)+rate/4)
	}
	moment := time.Now()
	keys, tries := r.judgeKeyed("bank", site, rate, producers)
	if took := time.Since(moment); took > 3*time.Second {
		t.Errorf("the rest took %s: jobs waited for the end of their lease", took)
	}
	if tries == keys {
		t.Error("no push had to be repeated: the test shows nothing")
	}
}
