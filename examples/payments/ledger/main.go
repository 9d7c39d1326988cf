// Command ledger is the other side of the example: a bank that books payouts,
// knows no idempotency keys, and twice hangs up without an answer.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"sync"
	"time"
)

// ledger is what the bank has booked.
type ledger struct {
	mu     sync.Mutex
	booked []payout
	hungUp map[string]bool
}

type payout struct {
	Ref    string `json:"ref"`
	Amount string `json:"amount"`
}

func main() {
	listen := flag.String("listen", "127.0.0.1:9092", "address to listen on")
	answer := flag.String("lose-answer", "p-3", "book this payout, and hang up once")
	request := flag.String("lose-request", "p-5", "hang up once before this payout is booked")
	flag.Parse()
	l := &ledger{hungUp: map[string]bool{}}
	http.HandleFunc("POST /payouts", func(w http.ResponseWriter, r *http.Request) { l.book(w, r, *answer, *request) })
	http.HandleFunc("GET /statement", l.statement)
	server := &http.Server{Addr: *listen, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func (l *ledger) book(w http.ResponseWriter, r *http.Request, loseAnswer, loseRequest string) {
	var p payout
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&p); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.hungUp[p.Ref]
	l.hungUp[p.Ref] = true
	if first && p.Ref == loseRequest {
		panic(http.ErrAbortHandler) // ends the connection
	}
	l.booked = append(l.booked, p)
	if first && p.Ref == loseAnswer {
		panic(http.ErrAbortHandler)
	}
	fmt.Fprintf(w, `{"booked":%q}`, p.Ref)
}

func (l *ledger) statement(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.booked {
		fmt.Fprintf(w, "%s %s\n", p.Ref, p.Amount)
	}
}
