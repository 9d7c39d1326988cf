package destination

import (
	"math"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	good := map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "10s": 10 * time.Second, "5m": 5 * time.Minute, "24h": 24 * time.Hour,
		"30d": 720 * time.Hour, "0s": 0, "007s": 7 * time.Second, "106751d": 106751 * 24 * time.Hour,
	}
	for s, want := range good {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	bad := []string{
		"", "600", "0", "-5s", "+5s", "5 s", " 5s", "5s ", "1.5s", "1h30m", "abc", "s", "1_000s", "1e3s", "5S", "5w", "5us", "0x10s", "٣s",
		"106752d", "99999999999h", "9223372036854775807ms", "92233720368547758070ms",
	}
	for _, s := range bad {
		if got, err := ParseDuration(s); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", s, got)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s": 0, "1500ms": 1500 * time.Millisecond, "90s": 90 * time.Second, "1h": time.Hour, "30d": 720 * time.Hour,
		"2ms": 2*time.Millisecond + 500*time.Microsecond,
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	good := map[string]int64{"0B": 0, "1B": 1, "1000B": 1000, "256KiB": 256 << 10, "3MiB": 3 << 20, "8589934591GiB": 8589934591 << 30}
	for s, want := range good {
		got, err := ParseSize(s)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %v, %v; want %v", s, got, err, want)
		}
		if back := FormatSize(got); back != s {
			t.Errorf("FormatSize(%d) = %q, want %q", got, back, s)
		}
	}
	for _, s := range []string{"", "0", "256", "256KB", "256kib", "1.5MiB", "-1B", "8589934592GiB", "1 MiB", "B"} {
		if got, err := ParseSize(s); err == nil {
			t.Errorf("ParseSize(%q) = %v, want an error", s, got)
		}
	}
}

func TestShares(t *testing.T) {
	t.Parallel()
	good := map[string]float64{"0%": 0, "0.5%": 0.005, "50%": 0.5, "100%": 1, "0.0001%": 0.000001, "33.3333%": 0.333333}
	for s, want := range good {
		got, err := ParseShare(s)
		if err != nil || got != want {
			t.Errorf("ParseShare(%q) = %v, %v; want %v", s, got, err, want)
		}
		if back := FormatShare(got); back != s {
			t.Errorf("FormatShare(%v) = %q, want %q", got, back, s)
		}
	}
	for _, s := range []string{"", "%", "5", "0.5", ".5%", "5.%", "-1%", "+1%", "100.0001%", "101%", "1e1%", "0.00001%", "5 %", "NaN%", "5%%"} {
		if got, err := ParseShare(s); err == nil {
			t.Errorf("ParseShare(%q) = %v, want an error", s, got)
		}
	}
}

func TestEveryShareSurvivesWriting(t *testing.T) {
	t.Parallel()
	for millionths := 0; millionths <= sharesPerOne; millionths += 37 {
		want := float64(millionths) / sharesPerOne
		got, err := ParseShare(FormatShare(want))
		if err != nil || got != want {
			t.Fatalf("%v was written as %s and read as %v, %v", want, FormatShare(want), got, err)
		}
	}
}

func TestValidName(t *testing.T) {
	t.Parallel()
	long := make([]byte, maxNameBytes)
	for i := range long {
		long[i] = 'a'
	}
	for _, s := range []string{"a", "7", "bank", "mail-1.eu_x", string(long)} {
		if err := ValidName(s); err != nil {
			t.Errorf("ValidName(%q) = %v", s, err)
		}
	}
	for _, s := range []string{"", ".", "..", "-a", "_a", "A", "bAnk", "foo/bar", "a+b", "a b", "%2F", "ü", "x?y#z", "{a}", "a\n", "a\x00", string(long) + "a"} {
		if ValidName(s) == nil {
			t.Errorf("ValidName(%q) passes", s)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"limits", "max_in_flight", "retry", "queue", "x"}
	for name, want := range map[string]string{
		"limit": "limits", "maxInFlight": "max_in_flight", "rety": "retry", "que": "queue", "something": "", "": "",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestCanonicalNumber(t *testing.T) {
	t.Parallel()
	for literal, want := range map[string]string{
		"5": "5", "5.0": "5", "5e2": "500", "-0": "0", "-0.0": "0", "0.50": "0.5", "9007199254740993": "9007199254740993", "1e-7": "1e-07", "-2.5": "-2.5",
	} {
		got, ok := canonicalNumber(literal)
		if !ok || got != want {
			t.Errorf("canonicalNumber(%q) = %q, %v; want %q", literal, got, ok, want)
		}
		if again, ok := canonicalNumber(got); !ok || again != got {
			t.Errorf("canonicalNumber is not stable: %q becomes %q", got, again)
		}
	}
	for _, literal := range []string{"", "-", "+5", "05", "0x10", "0o17", "1_000", ".5", "5.", ".nan", "NaN", ".inf", "Infinity", "1e999", "1:30", "5 "} {
		if got, ok := canonicalNumber(literal); ok {
			t.Errorf("canonicalNumber(%q) = %q, want none", literal, got)
		}
	}
}

func TestGuardForIsEnough(t *testing.T) {
	t.Parallel()
	for per := minPer; per < shortWindow; per += time.Millisecond {
		g := guardFor(per)
		if got := time.Duration(math.Round(g * float64(per))); got < guardNeed || got > guardNeed+time.Microsecond {
			t.Errorf("a window of %v gets a tolerance of %v", per, got)
		}
	}
	if g := guardFor(shortWindow); g != 0 {
		t.Errorf("a window of %v needs %v", shortWindow, g)
	}
}
