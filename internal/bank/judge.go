package bank

import (
	"math/bits"
	"slices"
	"time"
)

// Worst is the most stamps (nanoseconds, any order) that fall into one
// half-open window [t, t + window): two stamps exactly one window apart never
// share one.
func Worst(stamps []int64, window time.Duration) int {
	if window <= 0 {
		return 0
	}
	s := sorted(stamps)
	worst, first := 0, 0
	for last := range s {
		for s[last]-s[first] >= int64(window) {
			first++
		}
		worst = max(worst, last-first+1)
	}
	return worst
}

// Use is the share of the rate that was used between the first and the last
// stamp: (n − 1) / (rate/per × (last − first)). It is 0 when that says
// nothing: fewer than two stamps, or all at one moment.
func Use(stamps []int64, rate int64, per time.Duration) float64 {
	if len(stamps) < 2 || rate <= 0 || per <= 0 {
		return 0
	}
	span := slices.Max(stamps) - slices.Min(stamps)
	if span == 0 {
		return 0
	}
	possible := float64(rate) * float64(span) / float64(per)
	return float64(len(stamps)-1) / possible
}

// Gaps are the median and the 99th percentile (nearest rank) of the time
// between one stamp and the next.
func Gaps(stamps []int64) (p50, p99 time.Duration) {
	if len(stamps) < 2 {
		return 0, 0
	}
	s := sorted(stamps)
	gaps := make([]int64, len(s)-1)
	for i := range gaps {
		gaps[i] = s[i+1] - s[i]
	}
	slices.Sort(gaps)
	return time.Duration(rank(gaps, 50)), time.Duration(rank(gaps, 99))
}

// rank is the nearest-rank percentile of sorted values.
func rank(s []int64, percent int) int64 {
	return s[max(0, (len(s)*percent+99)/100-1)]
}

// Duplicates counts successes (2xx) beyond the first of each key. A repeated
// request that the bank refused or failed is a retry, not a duplicate.
func Duplicates(arrivals []Arrival) int {
	seen := make(map[string]struct{}, len(arrivals))
	duplicates := 0
	for _, a := range arrivals {
		name := a.name()
		if name == "" || !a.succeeded() {
			continue
		}
		if _, again := seen[name]; again {
			duplicates++
		}
		seen[name] = struct{}{}
	}
	return duplicates
}

// Allowed is the most requests that one window of per may hold: rate, burst − 1
// more, and what a spread of the path delay explains, ceil(rate × spread / per).
func Allowed(rate, burst int64, per, spread time.Duration) int64 {
	return rate + max(burst, 1) - 1 + explained(rate, per, spread)
}

func explained(rate int64, per, spread time.Duration) int64 {
	if spread <= 0 || rate <= 0 || per <= 0 {
		return 0
	}
	// The product overflows for long windows and high rates, hence 128 bits.
	whole := rate * int64(spread/per)
	hi, lo := bits.Mul64(uint64(rate), uint64(spread%per))
	quotient, rest := bits.Div64(hi, lo, uint64(per))
	if rest > 0 {
		quotient++
	}
	return whole + int64(quotient)
}

// sorted is stamps in order, copied only when they are not.
func sorted(stamps []int64) []int64 {
	if slices.IsSorted(stamps) {
		return stamps
	}
	s := slices.Clone(stamps)
	slices.Sort(s)
	return s
}
