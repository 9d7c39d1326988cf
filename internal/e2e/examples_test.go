package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// matches is how often a text matches.
func matches(text, pattern string) int {
	return len(regexp.MustCompile(pattern).FindAllString(text, -1))
}

func TestExampleWebhooks(t *testing.T) {
	t.Parallel()
	p := openExample(t, "webhooks")
	p.block()
	p.eventually("the breaker of bob to open", patience, func() bool { return p.live("hook-bob").State == "breaker_open" })
	if out := p.block(); matches(out, `(?m)^hook-ann +running `) != 1 || matches(out, `(?m)^hook-bob +breaker_open `) != 1 {
		t.Errorf("get shows %s", out)
	}
	p.settled("hook-ann")
	p.settled("hook-bob")
	if s := p.live("hook-bob").State; s != "running" {
		t.Errorf("bob's destination is %s at the end", s)
	}
	out := p.last()
	if n := matches(out, `(?m) delivered +delivered `); n != 6 || matches(out, `(?m)^401$`) != 1 {
		t.Errorf("%d of 6 jobs of bob are shown as delivered: %s", n, out)
	}
	log := p.shell.log()
	for order := 1; order <= 6; order++ {
		for _, who := range []string{"ann", "bob"} {
			if n := matches(log, fmt.Sprintf(`(?m)^/%s: verified, attempt \d+, \{"type": "order.paid", "order": %d\} answered with 200$`, who, order)); n != 1 {
				t.Errorf("%s took order %d %d times", who, order, n)
			}
		}
	}
	if failed, refused := matches(log, `answered with 500`), matches(log, `(?m)^/ann: refused, not signed by us$`); failed != 4 || refused != 1 {
		t.Errorf("%d requests failed, 4 were to; %d were refused, 1 was to", failed, refused)
	}
}

func TestExampleEmails(t *testing.T) {
	t.Parallel()
	p := openExample(t, "emails")
	p.block()
	p.settled("mail")
	out := p.last()
	if !strings.Contains(out, "33 accepted (33 of them were there before), 0 refused") || matches(out, `(?m) delivered +delivered .* receipts$`) != 3 {
		t.Errorf("the second push and the list say %s", out)
	}
	mails := regexp.MustCompile(`(?m)^mail (\d+): "(.*)" from "Shop" <shop@shop.example> to (\S+)( with receipt-\d.txt)?$`).FindAllStringSubmatch(p.shell.log(), -1)
	if len(mails) != 33 {
		t.Errorf("%d mails arrived, want 33", len(mails))
	}
	for _, m := range mails {
		n, _ := strconv.Atoi(m[1])
		if receipt := strings.HasPrefix(m[2], "Receipt "); receipt != (m[4] != "") || receipt && (n > 8 || m[3] != "ann@a.example") {
			t.Errorf("%s", m[0])
		}
	}
}

func TestExamplePayments(t *testing.T) {
	t.Parallel()
	p := openExample(t, "payments")
	p.block()
	p.settled("payouts")
	if out := p.block(); matches(out, `(?m) unknown +connection_lost .* merchant-[35]$`) != 2 || matches(out, `(?m)^p-\d \d0\.00$`) != 5 || strings.Contains(out, "p-5") {
		t.Errorf("unknown jobs and the statement: %s", out)
	}
	if out := p.block(); matches(out, `(?m)^\S+ delivered$`) != 1 {
		t.Errorf("resolve says %s", out)
	}
	p.settled("payouts")
	out := p.last()
	if n := matches(out, `(?m) delivered .* merchant-\d$`); n != 6 {
		t.Errorf("%d of 6 jobs are shown as delivered: %s", n, out)
	}
	for i := 1; i <= 6; i++ {
		if n := matches(out, fmt.Sprintf(`(?m)^p-%d %d0\.00$`, i, i)); n != 1 {
			t.Errorf("p-%d stands %d times on the statement", i, n)
		}
	}
}

// The commands of the README, from the first start to the last look.
func TestReadme(t *testing.T) {
	t.Parallel()
	p := newPage(t)
	text := readFile(t, filepath.Join(top, "README.md"))
	pairs := ports(t, text+usualPorts+" 127.0.0.1:9090")
	bank := strings.NewReplacer(pairs...).Replace("127.0.0.1:9090")
	redis := strings.NewReplacer(pairs...).Replace("redis-server --port 6379")
	p.open(p.dir, text, strings.NewReplacer(append(pairs, "make build ", ": ", "redis-server", redis,
		"init destinations.yaml ", "init destinations.yaml && sed -i s/127.0.0.1:9090/"+bank+"/ destinations.yaml ",
		"redrive bank --wait ", "redrive bank --wait --yes ", // nobody is there to be asked
		"tundish bank &", "tundish bank --listen "+bank+" &")...))
	p.block()
	p.eventually("an API that knows the bank", patience, func() bool {
		a, err := p.try(http.MethodGet, p.at("bank"), "")
		return err == nil && a.status == http.StatusOK
	})
	pushed := regexp.MustCompile(`"id":"(\S{22})"`).FindStringSubmatch(p.block())
	if pushed == nil {
		t.Fatal("the push answers no id")
	}
	if out := p.block(); matches(out, `(?m)^HTTP/1.1 200 OK`) != 1 || matches(out, `(?m)^Preference-Applied: wait`) != 1 {
		t.Errorf("the answer of the bank, passed on, is %s", out)
	}
	p.settled("bank")
	p.blocks[p.next] = strings.ReplaceAll(p.blocks[p.next], "AaIsO00BcbiWqQTBiY5RpQ", pushed[1])
	out := p.block()
	for _, want := range []string{`(?m)^bank +running +49.75/s +0/10000`, `(?m)^state +delivered$`, `100 accepted, 0 refused`, `(?m)^bank .*paused`} {
		if matches(out, want) == 0 {
			t.Errorf("%s is not in %s", want, out)
		}
	}
	if j := p.job("bank", pushed[1]); j.State != "delivered" || len(j.Attempts) != 1 {
		t.Errorf("the job that was pushed first: %+v", j)
	}
}

// Each folder of examples has a test here.
func TestExamplesAreRun(t *testing.T) {
	t.Parallel()
	text := readFile(t, "examples_test.go")
	entries, err := os.ReadDir(filepath.Join(top, "examples"))
	if err != nil || len(entries) == 0 {
		t.Fatalf("%v, %d examples", err, len(entries))
	}
	for _, e := range entries {
		if !strings.Contains(text, fmt.Sprintf("openExample(t, %q)", e.Name())) {
			t.Errorf("examples/%s is run by no test", e.Name())
		}
	}
}
