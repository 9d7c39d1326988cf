package destination

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"
)

// adaptedLimit is the name under which a destination shows its adapted rate.
const adaptedLimit = "adaptive"

const (
	maxLimits   = 8
	minPer      = 10 * time.Millisecond
	maxPer      = 366 * day
	maxPerSec   = 50_000 // what a lane's script can space out to the microsecond
	maxFraction = 1000   // largest denominator of a rate
	maxBurst    = 1_000_000
	// maxCredit bounds burst × window in µs, so that the credit of a bucket
	// stays a whole number that a double holds exactly.
	maxCredit = 4_000_000_000_000_000

	maxInFlight int64 = 100_000

	defaultGuard = 0.005
	maxGuard     = 0.1
	// shortWindow is the window below which the usual guard is less than the
	// lateness of a busy machine, and guardNeed what such a window needs.
	shortWindow = 500 * time.Millisecond
	guardNeed   = 5 * time.Millisecond
)

// limits reads the list of limits. shortest is where the window of the
// shortest limit was written; nil when a limit is broken or missing.
func limits(o *object) (all []Limit, shortest *value) {
	items := o.items("limits", maxLimits)
	if len(items) == 0 {
		noLimits(o)
		return nil, nil
	}
	sound := true
	names := limitNames{first: map[string]*value{}, unnamed: map[Algorithm]int{}}
	var window time.Duration
	for _, item := range items {
		l, per, ok := limit(o.p, item)
		l.Name = names.take(o.p, item, l)
		if ok {
			all = append(all, l)
			if shortest == nil || l.Per < window {
				shortest, window = per, l.Per
			}
		}
		sound = sound && ok
	}
	if !sound {
		return nil, nil
	}
	return all, shortest
}

func noLimits(o *object) {
	v := o.v.fields["limits"]
	switch {
	case v == nil:
		o.missing("limits", "1 to 8 limits, such as [{rate: 50, per: 1s}]")
	case v.kind == list:
		o.p.invalid(v, "limits: none is not allowed; give 1 to %d, such as [{rate: 50, per: 1s}]", maxLimits)
	}
}

// limit reads one limit; not ok when something in it is wrong.
func limit(p *problems, v *value) (l Limit, per *value, ok bool) {
	before := p.added
	o := p.open(v, false)
	defer o.close()
	l = Limit{Name: o.name("name", false), Burst: 1}
	if l.Name == adaptedLimit {
		p.bad(o.get("name"), "another name: "+adaptedLimit+" is what the adapted rate is shown as")
	}
	o.later("mode", "enforce")
	o.later("on_state_loss", "assume_used")
	o.later("share")
	l.Algorithm = algorithm(o)
	rate := rateOf(o)
	window := windowOf(o)
	if rate != nil && window > 0 {
		l.Rate, l.Per = normalise(o, rate, window)
	}
	if l.Algorithm == "" {
		o.known = append(o.known, "burst", "every", "time_zone")
		return l, nil, false
	}
	o.later("every")
	o.later("time_zone")
	l.Burst = burst(o, l)
	return l, o.get("per"), l.Rate > 0 && p.added == before
}

// algorithm reads how a limit counts; empty when that is not built. Then those
// of its fields that not every algorithm has are known, and nothing is said about them.
func algorithm(o *object) Algorithm {
	v := o.get("algorithm")
	if v == nil {
		return LeakyBucket
	}
	switch a := Algorithm(v.text); {
	case v.kind == text && (a == LeakyBucket || a == TokenBucket):
		return a
	case v.kind == text && (a == "fixed_window" || a == "sliding_window_log" || a == "sliding_window_counter"):
		o.p.notSupported(v, "algorithm: %s is not supported yet; give leaky_bucket or token_bucket", a)
	default:
		o.p.bad(v, "leaky_bucket or token_bucket")
	}
	return ""
}

// rateOf reads a rate as an exact fraction; nil when it is none.
func rateOf(o *object) *big.Rat {
	const want = "a number above 0, at most 50000 per second"
	v := o.get("rate")
	if v == nil {
		o.missing("rate", want)
		return nil
	}
	// The float comes first: a fraction with a large exponent would not fit in memory.
	f, err := strconv.ParseFloat(v.text, 64)
	switch {
	case v.kind != number || err != nil || f < 0 || f > maxPerSec*maxPer.Seconds():
		o.p.bad(v, want)
		return nil
	case f == 0:
		o.p.bad(v, want+"; to send nothing use paused: true")
		return nil
	case f < 1e-9:
		o.p.bad(v, want+"; with a longer per")
		return nil
	}
	r, ok := new(big.Rat).SetString(v.text)
	if !ok || r.Denom().Cmp(big.NewInt(maxFraction)) > 0 {
		o.p.bad(v, fmt.Sprintf("a whole number with a longer per, or a fraction with a denominator up to %d, such as 0.5", maxFraction))
		return nil
	}
	return r
}

func windowOf(o *object) time.Duration {
	if o.v.fields["per"] == nil {
		o.get("per")
		if o.v.fields["every"] == nil {
			o.missing("per", "a duration, such as 1s")
		}
		return 0
	}
	return quantity(o, durations, "per", 0, minPer, maxPer)
}

// normalise makes the rate a whole number: 2.5 per 1 s is 5 per 2 s.
func normalise(o *object, rate *big.Rat, per time.Duration) (int64, time.Duration) {
	v := o.get("rate")
	whole, times := rate.Num().Int64(), rate.Denom().Int64()
	if int64(per) > int64(maxPer)/times {
		o.p.invalid(v, "rate: %s per %s needs a window of %d × %s; give one of at most %s",
			v.show(), FormatDuration(per), times, FormatDuration(per), FormatDuration(maxPer))
		return 0, 0
	}
	per *= time.Duration(times)
	if float64(whole) > maxPerSec*per.Seconds() {
		o.p.invalid(v, "rate: %d per %s is not allowed; give a number above 0, at most %d per second", whole, FormatDuration(per), maxPerSec)
		return 0, 0
	}
	return whole, per
}

// burst reads how many requests idle time saves up; 1 unless given.
func burst(o *object, l Limit) int64 {
	v := o.get("burst")
	if v != nil && l.Algorithm != TokenBucket {
		o.p.invalid(v, "burst: only algorithm: token_bucket has a burst")
		return 1
	}
	most := int64(maxBurst)
	if l.Per > 0 { // else something is wrong with it
		most = min(most, maxCredit/l.Per.Microseconds())
	}
	return o.whole("burst", 1, 1, most)
}

// limitNames gives every limit of a list its own name: as written, else the
// algorithm's, else that with -2, -3 and so on.
type limitNames struct {
	first   map[string]*value
	unnamed map[Algorithm]int
}

// take looks also at limits in which something else is wrong, but for those of
// which the name cannot be known.
func (n *limitNames) take(p *problems, v *value, l Limit) string {
	name := l.Name
	if name == "" && (v.kind != dict || v.fields["name"] != nil || l.Algorithm == "") {
		return ""
	}
	if name == "" {
		name = string(l.Algorithm)
		n.unnamed[l.Algorithm]++
		if i := n.unnamed[l.Algorithm]; i > 1 {
			name += "-" + strconv.Itoa(i)
		}
	}
	if first := n.first[name]; first != nil {
		at := v
		if written := v.fields["name"]; written != nil {
			at = written
		}
		p.invalid(at, "name: two limits are called %s; give each its own name", name)
	}
	n.first[name] = v
	return name
}

// guard reads the guard, raised where the shortest window needs more.
func guard(o *object, all []Limit, shortest *value) float64 {
	v := o.get("guard")
	given := quantity(o, shares, "guard", defaultGuard, 0, maxGuard)
	if len(all) == 0 || shortest == nil {
		return given
	}
	window := (&Contract{Limits: all}).ShortestWindow()
	need := guardFor(window)
	switch {
	case need > maxGuard:
		o.p.invalid(shortest, "per: a window of %s needs a guard of %s, and at most %s is allowed; give at least %s (50 per 1s instead of 1 per 20ms)",
			FormatDuration(window), FormatShare(need), FormatShare(maxGuard), FormatDuration(time.Duration(float64(guardNeed)/maxGuard)))
	case v == nil:
		return max(given, need)
	case given < need && !o.p.broken[v]:
		o.p.invalid(v, "guard: %s is not allowed; the window of %s needs at least %s", v.show(), FormatDuration(window), FormatShare(need))
	}
	return given
}

// guardFor is the least guard of a window, a whole number of millionths.
func guardFor(window time.Duration) float64 {
	if window >= shortWindow {
		return 0
	}
	return math.Ceil(float64(guardNeed)*sharesPerOne/float64(window)) / sharesPerOne
}

// defaultInFlight is two seconds of the rate, at least 100.
func defaultInFlight(all []Limit) int64 {
	if len(all) == 0 {
		return 100
	}
	return min(max(100, int64(math.Ceil(2*nominalRate(all)))), maxInFlight)
}
