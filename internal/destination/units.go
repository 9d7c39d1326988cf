package destination

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// unit is a suffix and what it multiplies by.
type unit struct {
	suffix string
	factor int64
}

// The units, largest first: the first that divides a value exactly is the one
// it is written in.
var (
	durationUnits = []unit{
		{"d", int64(24 * time.Hour)},
		{"h", int64(time.Hour)},
		{"m", int64(time.Minute)},
		{"s", int64(time.Second)},
		{"ms", int64(time.Millisecond)},
	}
	sizeUnits = []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
)

// sharesPerOne is the resolution of shares: a millionth, four decimals of a
// percent. Whole millionths survive writing and reading without rounding.
const sharesPerOne = 1_000_000

// ParseDuration reads one whole number and one unit: ms, s, m, h or d (a day is
// 24 hours). A number without a unit is refused.
func ParseDuration(s string) (time.Duration, error) {
	n, err := parseQuantity(s, durationUnits)
	if err != nil {
		return 0, fmt.Errorf("%s is not a duration: %w", quoted(s), err)
	}
	return time.Duration(n), nil
}

// ParseSize reads one whole number of bytes and one unit: B, KiB, MiB or GiB.
func ParseSize(s string) (int64, error) {
	n, err := parseQuantity(s, sizeUnits)
	if err != nil {
		return 0, fmt.Errorf("%s is not a size: %w", quoted(s), err)
	}
	return n, nil
}

// ParseShare reads a percentage from 0% to 100% with at most four decimals;
// "0.5%" is 0.005.
func ParseShare(s string) (float64, error) {
	number, found := strings.CutSuffix(s, "%")
	whole, decimals, dotted := strings.Cut(number, ".")
	if !found || !digits(whole, 3) || dotted && !digits(decimals, 4) {
		return 0, fmt.Errorf("%s is not a share: give a percentage with at most four decimals, such as 0.5%%", quoted(s))
	}
	decimals += strings.Repeat("0", 4-len(decimals))
	millionths, err := strconv.ParseInt(whole+decimals, 10, 64)
	if err != nil || millionths > sharesPerOne {
		return 0, fmt.Errorf("%s is not a share: it is above 100%%", quoted(s))
	}
	return float64(millionths) / sharesPerOne, nil
}

// FormatDuration writes d as ParseDuration reads it, in the largest unit that
// divides it. What is finer than a millisecond is dropped.
func FormatDuration(d time.Duration) string {
	d = d.Truncate(time.Millisecond)
	if d == 0 {
		return "0s"
	}
	return formatQuantity(int64(d), durationUnits)
}

// FormatSize writes n bytes as ParseSize reads them, in the largest unit that divides n.
func FormatSize(n int64) string {
	if n == 0 {
		return "0B"
	}
	return formatQuantity(n, sizeUnits)
}

// FormatShare writes a share as ParseShare reads it, rounded to a millionth.
func FormatShare(share float64) string {
	millionths := math.Round(share * sharesPerOne)
	return strconv.FormatFloat(millionths/(sharesPerOne/100), 'f', -1, 64) + "%"
}

func parseQuantity(s string, units []unit) (int64, error) {
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	suffix := s[len(number):]
	for _, u := range units {
		if u.suffix == suffix {
			return multiply(number, u.factor)
		}
	}
	return 0, fmt.Errorf("give one whole number and a unit: %s", suffixes(units))
}

func multiply(number string, factor int64) (int64, error) {
	if !digits(number, math.MaxInt) {
		return 0, fmt.Errorf("give a whole number without sign, space or decimals before the unit")
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/factor {
		return 0, fmt.Errorf("it is too large")
	}
	return n * factor, nil
}

func formatQuantity(n int64, units []unit) string {
	for _, u := range units {
		if n%u.factor == 0 {
			return strconv.FormatInt(n/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10) // not reached: the last unit of a list divides what it is given
}

// suffixes lists the units, smallest first: "ms, s, m, h or d".
func suffixes(units []unit) string {
	list := units[len(units)-1].suffix
	for i := len(units) - 2; i >= 0; i-- {
		separator := ", "
		if i == 0 {
			separator = " or "
		}
		list += separator + units[i].suffix
	}
	return list
}

// digits says whether s is 1 to most decimal digits.
func digits(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	return strings.Trim(s, "0123456789") == ""
}

// quoted shows what a caller wrote, cut to a length that fits an error.
func quoted(s string) string {
	const most = 40
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "…"
	}
	return strconv.Quote(s)
}

// quotedIfOdd shows a field's name: as it is when it looks like one.
func quotedIfOdd(name string) string {
	if name != "" && len(name) <= 40 && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return name
	}
	return quoted(name)
}
