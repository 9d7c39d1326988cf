package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Ten mails in a row that are greylisted, as many as the breaker bears failures,
// leave the destination as it is: another mail goes meanwhile, and they go later.
func TestGreylistedMailsStopNoOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.startEnqueuer()
	o := r.startPostOffice(nil)
	o.greylists = true
	r.do(http.MethodPut, r.at("mail"), fmt.Sprintf(`{"target": {"smtp": {"host": "127.0.0.1", "port": %d, "from": "shop@b.example", "tls": "none"}},
		"limits": [{"rate": 50, "per": "1s"}], "retry": {"min_backoff": "3s", "max_backoff": "3s"}}`, o.addr.Port), http.StatusCreated)
	r.startWorkers(1)
	var lines strings.Builder
	for i := range 12 {
		fmt.Fprintf(&lines, `{"email": {"to": "new%d@a.example", "text": "t"}}`+"\n", i)
	}
	put := r.pushBatch("mail", lines.String())
	r.eventually("all are put off", patience, func() bool { return r.live("mail").Waiting == len(put) })
	if l := r.live("mail"); l.State != "running" {
		t.Errorf("the destination is %s", l.State)
	}
	known := r.pushBatch("mail", `{"email": {"to": "known@a.example", "text": "t"}}`)
	r.settled("mail")
	arrivals, _ := o.seen()
	if len(arrivals) != len(put)+1 || arrivals[0].Job != known[0] {
		t.Errorf("%d mails, the first is %s, want the one that was not put off", len(arrivals), arrivals[0].Job)
	}
	for _, id := range slices.Concat(put, known) {
		if j := r.job("mail", id); j.State != "delivered" {
			t.Errorf("%s: %+v", id, j)
		}
	}
}
