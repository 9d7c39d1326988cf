package destination

import (
	"fmt"
	"math"
	"time"
)

const (
	// maxTolerance bounds how late a slot may be used, whatever the window.
	maxTolerance = time.Second
	// timeoutGrace is what a lease outlives its attempt by.
	timeoutGrace = 5 * time.Second
	// keyBytes is what one idempotency key with its end costs in Redis, measured.
	keyBytes = 230
)

// Tolerance is how much later than its slot a request may be written, as far
// as the contract says: the guard's share of the shortest window, at most 1 s.
// Every limit is spread by it.
func (c *Contract) Tolerance() time.Duration {
	t := time.Duration(math.Round(c.Guard * float64(c.ShortestWindow())))
	return min(t, maxTolerance).Truncate(time.Microsecond)
}

// EffectiveRate is what l lets through per second in the long run: its rate
// over its window and the tolerance.
func (c *Contract) EffectiveRate(l Limit) float64 {
	return float64(l.Rate) / (l.Per + c.Tolerance()).Seconds()
}

// Rate is the effective rate per second of the limits together: the smallest.
func (c *Contract) Rate() float64 {
	rate := math.Inf(1)
	for _, l := range c.Limits {
		rate = min(rate, c.EffectiveRate(l))
	}
	return rate
}

// nominalRate is the smallest rate per second as written, without the guard.
func nominalRate(limits []Limit) float64 {
	rate := math.Inf(1)
	for _, l := range limits {
		rate = min(rate, float64(l.Rate)/l.Per.Seconds())
	}
	return rate
}

// Warnings says what is allowed and probably not meant.
func Warnings(c *Contract) []string {
	var all []string
	rate := c.Rate()
	if lost := float64(c.Tolerance()) / float64(c.ShortestWindow()); lost > 0.01 {
		all = append(all, fmt.Sprintf("guard: %s of a window of %s leaves %.4g per second; a longer window with the same rate loses less",
			FormatShare(c.Guard), FormatDuration(c.ShortestWindow()), rate))
	}
	// Leases of a killed worker count until their deadline.
	if need := rate * (c.Timeout() + timeoutGrace).Seconds() * 0.1; float64(c.MaxInFlight) < need {
		all = append(all, fmt.Sprintf("max_in_flight: %d may hold back the rate when requests are slow or a worker is killed; with a timeout of %s give at least %.0f",
			c.MaxInFlight, FormatDuration(c.Timeout()), math.Ceil(need)))
	}
	if need := rate * c.Retention.Idempotency.Seconds() * keyBytes; need > float64(c.Queue.MaxHistoryBytes) {
		all = append(all, fmt.Sprintf("retention.idempotency: at the full rate the keys of %s need about %.1f GiB; queue.max_history_bytes (%s) lets the oldest go earlier",
			FormatDuration(c.Retention.Idempotency), need/float64(gib), FormatSize(c.Queue.MaxHistoryBytes)))
	}
	return append(all, inTheClear(c)...)
}
