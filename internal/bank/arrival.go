package bank

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Arrival is one request as the bank saw it.
type Arrival struct {
	Job     string `json:"job"`           // Tundish-Job-Id, else the Idempotency-Key
	Key     string `json:"key,omitempty"` // Idempotency-Key as received
	At      int64  `json:"at_ns"`         // CLOCK_MONOTONIC when its first byte was read
	Attempt int    `json:"attempt"`       // Tundish-Attempt; 0: none or not a number
	Status  int    `json:"status"`        // answered; 0: hung up, or the request did not end
}

// name is what makes two requests the same: the key, else the job.
func (a *Arrival) name() string {
	if a.Key != "" {
		return a.Key
	}
	return a.Job
}

func (a *Arrival) succeeded() bool { return a.Status >= 200 && a.Status <= 299 }

// Stamps are the moments of the arrivals.
func Stamps(arrivals []Arrival) []int64 {
	stamps := make([]int64, len(arrivals))
	for i := range arrivals {
		stamps[i] = arrivals[i].At
	}
	return stamps
}

// ReadArrivals reads what GET /_bank/stamps answers.
func ReadArrivals(r io.Reader) ([]Arrival, error) {
	var arrivals []Arrival
	for d := json.NewDecoder(bufio.NewReader(r)); ; {
		var a Arrival
		switch err := d.Decode(&a); err {
		case nil:
			arrivals = append(arrivals, a)
		case io.EOF:
			return arrivals, nil
		default:
			return arrivals, fmt.Errorf("stamps: entry %d: %w", len(arrivals)+1, err)
		}
	}
}
