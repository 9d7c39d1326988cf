package destination

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tundish/internal/job"
)

func TestNormalise(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rate, per string
		wantRate  int64
		wantPer   time.Duration
	}{
		{"50", "1s", 50, time.Second},
		{"0.5", "1s", 1, 2 * time.Second},
		{"2.5", "1s", 5, 2 * time.Second},
		{"2.0", "1s", 2, time.Second},
		{"0.001", "1s", 1, 1000 * time.Second},
		{"0.333", "1s", 333, 1000 * time.Second},
		{"1", "366d", 1, 366 * day},
		{"7", "11m", 7, 11 * time.Minute},
		{"50000", "1s", 50000, time.Second},
		{"4320000000", "1d", 4320000000, day},
		{"1.5", "40ms", 3, 80 * time.Millisecond},
	} {
		c, _, err := ParseContract("bank", []byte(`{"target":{"http":{"url":"http://a"}},"limits":[{"rate":`+test.rate+`,"per":"`+test.per+`"}]}`))
		if err != nil {
			t.Errorf("%s per %s: %v", test.rate, test.per, err)
			continue
		}
		if l := c.Limits[0]; l.Rate != test.wantRate || l.Per != test.wantPer {
			t.Errorf("%s per %s becomes %d per %v", test.rate, test.per, l.Rate, l.Per)
		}
	}
	for _, bad := range []string{`"rate":0.5,"per":"184d"`, `"rate":0.001,"per":"1d"`, `"rate":4320000001,"per":"1d"`, `"rate":501,"per":"10ms"`, `"rate":0.1234,"per":"1s"`} {
		_, _, err := ParseContract("bank", []byte(`{"target":{"http":{"url":"http://a"}},"limits":[{`+bad+`}]}`))
		if job.CodeOf(err) != job.CodeInvalid {
			t.Errorf("%s gives %v", bad, err)
		}
	}
}

// TestGrid tries combinations of rate, window and burst that nobody would:
// each is refused or stays within what the scripts can count exactly.
func TestGrid(t *testing.T) {
	t.Parallel()
	accepted := 0
	for _, rate := range []string{"1", "7", "0.125", "1000", "1000000", "50000"} {
		for _, per := range []string{"1ms", "50ms", "1s", "1d", "365d", "366d", "10000d"} {
			for _, b := range []string{"1", "126", "1000000", "1000000000"} {
				doc := `{"target":{"http":{"url":"http://a"}},"limits":[{"algorithm":"token_bucket","rate":` + rate + `,"per":"` + per + `","burst":` + b + `}]}`
				c, _, err := ParseContract("bank", []byte(doc))
				if err != nil {
					continue
				}
				accepted++
				l := c.Limits[0]
				if credit := float64(l.Burst) * float64(l.Per.Microseconds()); credit > 4e15 || l.Rate < 1 || l.Per > maxPer {
					t.Errorf("%s is accepted as %+v", doc, l)
				}
				if c.MaxInFlight < 100 || c.MaxInFlight > 100_000 {
					t.Errorf("%s has %d in flight", doc, c.MaxInFlight)
				}
			}
		}
	}
	if accepted < 20 {
		t.Errorf("only %d cells are accepted", accepted)
	}
}

func TestBurst(t *testing.T) {
	t.Parallel()
	bucket := func(rest string) []byte {
		return []byte(`{"target":{"http":{"url":"http://a"}},"limits":[{"algorithm":"token_bucket","rate":5,` + rest + `}]}`)
	}
	for rest, want := range map[string]int64{
		`"per":"1s"`: 1, `"per":"1s","burst":9`: 9, `"per":"1s","burst":1000000`: 1000000, `"per":"366d","burst":126`: 126,
	} {
		if c := mustParse(t, bucket(rest)); c.Limits[0].Burst != want {
			t.Errorf("%s has burst %d, want %d", rest, c.Limits[0].Burst, want)
		}
	}
	for _, rest := range []string{`"per":"1s","burst":0`, `"per":"1s","burst":1000001`, `"per":"366d","burst":127`, `"per":"1s","burst":"9"`, `"per":"1s","burst":1.5`} {
		_, _, err := ParseContract("bank", bucket(rest))
		if got := fields(err); len(got) != 1 || got[0].Pointer != "/limits/0/burst" {
			t.Errorf("%s gives %v", rest, err)
		}
	}
}

func TestLimitNames(t *testing.T) {
	t.Parallel()
	parse := func(limits string) (*Contract, error) {
		c, _, err := ParseContract("bank", []byte(`{"target":{"http":{"url":"http://a"}},"limits":[`+limits+`]}`))
		return c, err
	}
	const unnamed = `{"rate":1,"per":"1s"}`
	c, err := parse(unnamed + `,{"name":"tps","rate":1,"per":"1s"},` + unnamed + `,{"algorithm":"token_bucket","rate":1,"per":"1s"}`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range c.Limits {
		got = append(got, l.Name)
	}
	if want := []string{"leaky_bucket", "tps", "leaky_bucket-2", "token_bucket"}; !reflect.DeepEqual(got, want) {
		t.Errorf("names are %q, want %q", got, want)
	}
	for limits, pointer := range map[string]string{
		`{"name":"a","rate":1,"per":"1s"},{"name":"a","rate":1,"per":"1s"}`: "/limits/1/name",
		`{"name":"leaky_bucket","rate":1,"per":"1s"},` + unnamed:            "/limits/1",
		strings.Repeat(unnamed+",", 8) + unnamed:                            "/limits",
	} {
		_, err := parse(limits)
		if got := fields(err); len(got) != 1 || got[0].Pointer != pointer {
			t.Errorf("%s gives %v, want a problem at %s", limits, err, pointer)
		}
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rest string
		want float64
	}{
		{`"limits":[{"rate":5,"per":"1s"}]`, 0.005},
		{`"limits":[{"rate":5,"per":"500ms"}]`, 0.005},
		{`"limits":[{"rate":5,"per":"100ms"}]`, 0.05},
		{`"limits":[{"rate":5,"per":"50ms"}]`, 0.1},
		{`"limits":[{"rate":5,"per":"1h"},{"rate":5,"per":"250ms"}]`, 0.02},
		{`"limits":[{"rate":5,"per":"100ms"}],"guard":"7%"`, 0.07},
		{`"limits":[{"rate":5,"per":"1s"}],"guard":"0%"`, 0},
		{`"limits":[{"rate":5,"per":"1s"}],"guard":"10%"`, 0.1},
	} {
		if c := mustParse(t, []byte(`{"target":{"http":{"url":"http://a"}},`+test.rest+`}`)); c.Guard != test.want {
			t.Errorf("%s has a guard of %v, want %v", test.rest, c.Guard, test.want)
		}
	}
	for rest, pointer := range map[string]string{
		`"limits":[{"rate":5,"per":"100ms"}],"guard":"4.9999%"`:    "/guard",
		`"limits":[{"rate":5,"per":"49ms"}]`:                       "/limits/0/per",
		`"limits":[{"rate":5,"per":"1s"},{"rate":5,"per":"20ms"}]`: "/limits/1/per",
		`"limits":[{"rate":5,"per":"20ms"}],"guard":"10%"`:         "/limits/0/per",
		`"limits":[{"rate":5,"per":"1s"}],"guard":"0.5"`:           "/guard",
	} {
		_, _, err := ParseContract("bank", []byte(`{"target":{"http":{"url":"http://a"}},`+rest+`}`))
		if got := fields(err); len(got) != 1 || got[0].Pointer != pointer {
			t.Errorf("%s gives %v, want a problem at %s", rest, err, pointer)
		}
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	c := mustParse(t, []byte(`{"target":{"http":{"url":"http://a"}},"limits":[{"rate":50,"per":"1s"},{"rate":36000,"per":"1h"}]}`))
	if got, want := c.Tolerance(), 5*time.Millisecond; got != want {
		t.Errorf("tolerance is %v, want %v", got, want)
	}
	if got, want := c.EffectiveRate(c.Limits[0]), 50/1.005; math.Abs(got-want) > 1e-9 {
		t.Errorf("the first limit lets through %v, want %v", got, want)
	}
	if got, want := c.Rate(), 36000/3600.005; math.Abs(got-want) > 1e-9 {
		t.Errorf("the rate is %v, want %v", got, want)
	}
	slow := mustParse(t, []byte(`{"target":{"http":{"url":"http://a"}},"limits":[{"rate":1,"per":"24h"}],"guard":"10%"}`))
	if got := slow.Tolerance(); got != time.Second {
		t.Errorf("the tolerance of a day is %v, want 1s", got)
	}
}

func TestDefaultInFlight(t *testing.T) {
	t.Parallel()
	for limits, want := range map[string]int{
		`{"rate":50,"per":"1s"}`:                           100,
		`{"rate":1,"per":"1d"}`:                            100,
		`{"rate":1000,"per":"1s"}`:                         2000,
		`{"rate":1000,"per":"1s"},{"rate":600,"per":"2s"}`: 600,
		`{"rate":50000,"per":"1s"}`:                        100000,
	} {
		if c := mustParse(t, []byte(`{"target":{"http":{"url":"http://a"}},"limits":[`+limits+`]}`)); c.MaxInFlight != want {
			t.Errorf("%s has %d in flight, want %d", limits, c.MaxInFlight, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for rest, want := range map[string]string{
		`"limits":[{"rate":50,"per":"1s"}]`:                                   "",
		`"limits":[{"rate":50,"per":"1s"}],"max_in_flight":75`:                "",
		`"limits":[{"rate":50,"per":"1s"}],"max_in_flight":70`:                "max_in_flight: 70 ",
		`"limits":[{"rate":500,"per":"1s"}]`:                                  "retention.idempotency: ",
		`"limits":[{"rate":500,"per":"1s"}],"retention":{"idempotency":"1h"}`: "",
		`"limits":[{"rate":5,"per":"100ms"}]`:                                 "guard: 5% of a window of 100ms leaves 47.62 per second",
	} {
		got := Warnings(mustParse(t, []byte(`{"target":{"http":{"url":"http://a"}},`+rest+`}`)))
		if want == "" && len(got) == 0 || len(got) == 1 && want != "" && strings.HasPrefix(got[0], want) {
			continue
		}
		t.Errorf("%s warns %q, want %q", rest, got, want)
	}
}

// TestAcceptedLimitsAreSound checks what the scripts build on, for any limit.
func TestAcceptedLimitsAreSound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Int64Range(1, 2_000_000).Draw(t, "thousandths")
		ms := rapid.Int64Range(10, 40_000_000).Draw(t, "ms")
		doc := []byte(`{"target":{"http":{"url":"http://a"}},"limits":[{"rate":` + strconv.FormatFloat(float64(rate)/1000, 'f', -1, 64) + `,"per":"` + FormatDuration(time.Duration(ms)*time.Millisecond) + `"}]}`)
		c, _, err := ParseContract("bank", doc)
		if err != nil {
			return
		}
		l := c.Limits[0]
		want := float64(rate) / 1000 / (float64(ms) / 1000)
		if got := float64(l.Rate) / l.Per.Seconds(); math.Abs(got-want) > want*1e-12 {
			t.Fatalf("%s allows %v per second, want %v", doc, got, want)
		}
		if lost := float64(c.Tolerance()) / float64(l.Per); lost > maxGuard || l.Per < shortWindow && c.Tolerance() < guardNeed {
			t.Fatalf("%s has a tolerance of %v", doc, c.Tolerance())
		}
	})
}

// What is wrong in a limit is told together, also where its algorithm is not built or unknown.
func TestLimitTellsEveryProblem(t *testing.T) {
	t.Parallel()
	for limits, want := range map[string][]string{
		`{"algorithm":"sliding_window_log","rate":0,"per":"1"}`:                                                   {"0/algorithm", "0/per", "0/rate"},
		`{"algorithm":"leaky","rate":-1,"per":"1s","burst":"x"}`:                                                  {"0/algorithm", "0/rate"},
		`{"algorithm":"fixed_window","rate":"many","every":"day"}`:                                                {"0/algorithm", "0/rate"},
		`{"algorithm":"token_bucket","rate":0,"per":"1","burst":0}`:                                               {"0/burst", "0/per", "0/rate"},
		`{"rate":0,"per":"1s","burst":2}`:                                                                         {"0/burst", "0/rate"},
		`{"name":"a","rate":0,"per":"1s"},{"name":"a","algorithm":"x","rate":1,"per":"1s"}`:                       {"0/rate", "1/algorithm", "1/name"},
		`{"rate":0,"per":"1s"},{"name":"leaky_bucket","rate":1,"per":"1s"}`:                                       {"0/rate", "1/name"},
		`{"name":"A","rate":1,"per":"1s"},{"name":"leaky_bucket","rate":1,"per":"1s"}`:                            {"0/name"},
		`"x",{"name":"leaky_bucket","rate":1,"per":"1s"}`:                                                         {"0"},
		`{"algorithm":"fixed_window","rate":1,"every":"day"},{"algorithm":"fixed_window","rate":1,"every":"day"}`: {"0/algorithm", "1/algorithm"},
	} {
		_, _, err := ParseContract("bank", []byte(`{"target":{"http":{"url":"http://a"}},"limits":[`+limits+`]}`))
		e, ok := errors.AsType[*job.Error](err)
		if !ok {
			t.Errorf("%s gives %v", limits, err)
			continue
		}
		var got []string
		for _, f := range e.Fields {
			got = append(got, strings.TrimPrefix(f.Pointer, "/limits/"))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", limits, got, want)
		}
	}
}
