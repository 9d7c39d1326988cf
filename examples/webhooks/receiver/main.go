// Command receiver is the other side of the example: endpoints of two customers
// that take signed webhooks. Bob's is down at first.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9091", "address to listen on")
	down := flag.Int64("down", 4, "answer so many requests of bob with 500")
	flag.Parse()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("WEBHOOK_SECRET"), "whsec_"))
	if err != nil || len(key) == 0 {
		log.Fatal("WEBHOOK_SECRET: give whsec_ and a key in base64")
	}
	var bob atomic.Int64
	http.HandleFunc("POST /ann", receive(key, func() int { return http.StatusOK }))
	http.HandleFunc("POST /bob", receive(key, func() int {
		if bob.Add(1) <= *down {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}))
	server := &http.Server{Addr: *listen, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// receive verifies a webhook before it looks at it.
func receive(key []byte, status func() int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || !signed(key, r.Header, body) {
			fmt.Printf("%s: refused, not signed by us\n", r.URL.Path)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s := status()
		fmt.Printf("%s: verified, attempt %s, %s answered with %d\n", r.URL.Path, r.Header.Get("Tundish-Attempt"), body, s)
		w.WriteHeader(s)
	}
}

// signed says whether one of the signatures is that of the id, the time and the
// body, and the time is now: what somebody recorded cannot be sent again later.
func signed(key []byte, h http.Header, body []byte) bool {
	id, at := h.Get("webhook-id"), h.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if age := time.Since(time.Unix(seconds, 0)); err != nil || id == "" || age.Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	want := mac.Sum(nil)
	for one := range strings.FieldsSeq(h.Get("webhook-signature")) {
		text, ok := strings.CutPrefix(one, "v1,")
		if got, err := base64.StdEncoding.DecodeString(text); ok && err == nil && hmac.Equal(got, want) {
			return true
		}
	}
	return false
}
