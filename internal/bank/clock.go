package bank

import "golang.org/x/sys/unix"

// Monotonic reads CLOCK_MONOTONIC in nanoseconds: the one clock that all
// processes of a machine share and that nobody steps. time.Now keeps its
// monotonic reading to itself, so it cannot be compared between processes.
func Monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("bank: CLOCK_MONOTONIC cannot be read: " + err.Error())
	}
	return ts.Nano()
}
