// Package bank is the strict bank: a destination that judges its callers by
// every half-open sliding window. The demo, tests and benchmarks send to it.
//
// A rate is judged twice. At the write: workers log when they wrote each
// request (WriteLog), and no window of length W may hold more than R of them.
// At the bank: it stamps each request when its first byte is read from the
// connection, and no window may hold more than R + ceil(R × spread / W), where
// spread is how much the delay between the two varied in the same run. Both
// clocks are CLOCK_MONOTONIC of one machine, so stamps of several processes
// can be joined (Judge).
package bank
