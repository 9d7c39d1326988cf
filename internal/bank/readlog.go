package bank

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Write is one request as the worker wrote it.
type Write struct {
	Lane string
	Job  string
	Slot int64 // µs of the lane's logical time
	At   int64 // CLOCK_MONOTONIC in ns, right before the Write
}

// ReadWriteLogs joins the write logs of several processes, in order of time.
// A line that a killed process left torn is skipped; anything else that is not
// a write is an error.
func ReadWriteLogs(paths ...string) ([]Write, error) {
	var writes []Write
	for _, path := range paths {
		var err error
		if writes, err = readWriteLog(writes, path); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(writes, func(a, b Write) int { return cmp.Compare(a.At, b.At) })
	return writes, nil
}

func readWriteLog(writes []Write, path string) ([]Write, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("write log: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	r := bufio.NewReader(f)
	for number := 1; ; number++ {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) { // what stands before it has no end: torn
			return writes, nil
		}
		if err != nil {
			return nil, fmt.Errorf("write log: %w", err)
		}
		w, torn, err := parseWrite(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, fmt.Errorf("write log %s: line %d: %w", path, number, err)
		}
		if !torn {
			writes = append(writes, w)
		}
	}
}

// parseWrite reads one line. A line with too few fields, or whose last one is
// too short, is the beginning of one: torn.
func parseWrite(line string) (w Write, torn bool, err error) {
	fields := strings.Split(line, " ")
	if len(fields) > 4 {
		return w, false, fmt.Errorf("%d fields, want 4", len(fields))
	}
	if len(fields) < 4 || len(fields[3]) < atDigits {
		return w, true, nil
	}
	w = Write{Lane: fields[0], Job: fields[1]}
	if w.Slot, err = strconv.ParseInt(fields[2], 10, 64); err != nil {
		return w, false, fmt.Errorf("slot: %w", err)
	}
	if w.At, err = strconv.ParseInt(fields[3], 10, 64); err != nil {
		return w, false, fmt.Errorf("stamp: %w", err)
	}
	return w, false, nil
}

// OfLane picks the writes of one lane.
func OfLane(writes []Write, lane string) []Write {
	var picked []Write
	for _, w := range writes {
		if w.Lane == lane {
			picked = append(picked, w)
		}
	}
	return picked
}
