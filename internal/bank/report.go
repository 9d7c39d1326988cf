package bank

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Report is what the bank saw. It knows nothing of writes: its bound is the one
// with the spread that it was told to allow, where Judge measures it.
type Report struct {
	Rate       int64       `json:"rate"`
	PerMS      float64     `json:"per_ms"`
	Burst      int64       `json:"burst"`
	SpreadMS   float64     `json:"spread_ms"`
	Requests   int         `json:"requests"`
	Jobs       int         `json:"jobs"` // distinct
	Accepted   int         `json:"accepted"`
	Statuses   map[int]int `json:"statuses"` // answered → requests; 0: no answer
	Duplicates int         `json:"duplicates"`
	Worst      int         `json:"worst"` // most requests in one window, refused ones too
	Bound      int64       `json:"bound"`
	Use        float64     `json:"use"`
	GapP50MS   float64     `json:"gap_p50_ms"`
	GapP99MS   float64     `json:"gap_p99_ms"`
	Forgotten  int64       `json:"forgotten"` // older than what is kept; in none of the other figures
	OK         bool        `json:"ok"`        // within the bound, none twice, nothing forgotten
}

// Arrivals are the requests so far, in the order in which they were answered,
// and how many older ones are forgotten.
func (b *Bank) Arrivals() ([]Arrival, int64) { return b.ledger.all() }

// Reset forgets everything.
func (b *Bank) Reset() {
	b.ledger.reset()
	b.gate.reset()
	b.seen.Store(0)
}

// Report judges what arrived so far.
func (b *Bank) Report() Report {
	arrivals, forgotten := b.ledger.all()
	stamps := sorted(Stamps(arrivals))
	c := &b.config
	r := Report{
		Rate:       c.Rate,
		PerMS:      milliseconds(c.Per),
		Burst:      c.Burst,
		SpreadMS:   milliseconds(c.Spread),
		Requests:   len(arrivals),
		Statuses:   make(map[int]int),
		Duplicates: Duplicates(arrivals),
		Worst:      Worst(stamps, c.Per),
		Bound:      c.allowed(),
		Use:        Use(stamps, c.Rate, c.Per),
		Forgotten:  forgotten,
	}
	p50, p99 := Gaps(stamps)
	r.GapP50MS, r.GapP99MS = milliseconds(p50), milliseconds(p99)
	jobs := make(map[string]struct{}, len(arrivals))
	for i := range arrivals {
		a := &arrivals[i]
		jobs[a.name()] = struct{}{}
		r.Statuses[a.Status]++
		if a.succeeded() {
			r.Accepted++
		}
	}
	r.Jobs = len(jobs)
	r.OK = int64(r.Worst) <= r.Bound && r.Duplicates == 0 && forgotten == 0
	return r
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// String is the report for people.
func (r Report) String() string {
	var s strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&s, "  %-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&s, "bank: %s\n", word(r.OK, "within the rate", "NOT within the rate"))
	line("requests", "%d of %d jobs, %d accepted, %d twice", r.Requests, r.Jobs, r.Accepted, r.Duplicates)
	line("worst window", "%d, bound %d (%d per %v ms, burst %d, spread %v ms)",
		r.Worst, r.Bound, r.Rate, r.PerMS, r.Burst, r.SpreadMS)
	line("use", "%.1f %%", 100*r.Use)
	line("gap", "p50 %.3f ms, p99 %.3f ms", r.GapP50MS, r.GapP99MS)
	if r.Forgotten > 0 {
		line("forgotten", "%d older requests: the rest is no proof", r.Forgotten)
	}
	return s.String()
}

func word(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}

func (b *Bank) adminMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_bank/report", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(b.Report()) // the caller may be gone
	})
	mux.HandleFunc("POST /_bank/reset", func(w http.ResponseWriter, _ *http.Request) {
		b.Reset()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /_bank/stamps", b.writeStamps)
	return mux
}

// writeStamps answers one line of JSON per arrival; Tundish-Bank-Forgotten
// counts the older ones that are missing.
func (b *Bank) writeStamps(w http.ResponseWriter, _ *http.Request) {
	arrivals, forgotten := b.ledger.all()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Tundish-Bank-Forgotten", fmt.Sprint(forgotten))
	out := bufio.NewWriterSize(w, 64<<10)
	lines := json.NewEncoder(out)
	for i := range arrivals {
		if err := lines.Encode(&arrivals[i]); err != nil {
			return // the caller is gone
		}
	}
	_ = out.Flush()
}
