package bank

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRunServesThenReports(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	file := filepath.Join(t.TempDir(), "report.json")
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Run(ctx, Options{Listen: "127.0.0.1:0", Rate: 50, Per: time.Second, Refuse: true, ReportFile: file}, write)
		_ = write.Close()
		ended <- err
	}()
	out := bufio.NewReader(read)
	first, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url, _, _ := strings.Cut(strings.TrimPrefix(first, "bank on "), ": ")
	if !strings.Contains(first, "at most 50 in any window") { // no spread given is none
		t.Errorf("first line: %q", first)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Post(url+"/x", "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	cancel()
	rest, err := io.ReadAll(out)
	if err != nil || !strings.Contains(string(rest), "bank: within the rate\n") || !strings.Contains(string(rest), "1 accepted") {
		t.Errorf("it ends with %q, %v", rest, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil || r.Requests != 1 || !r.OK {
		t.Errorf("report file = %+v, %v", r, err)
	}
}

func TestRunRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"a rate of nothing": {Listen: "127.0.0.1:0", Per: time.Second},
		"no such address":   {Listen: "256.0.0.1:0", Rate: 1, Per: time.Second},
	} {
		if err := Run(t.Context(), o, io.Discard); err == nil {
			t.Errorf("%s: Run ended well", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := Options{Listen: "127.0.0.1:0", Rate: 1, Per: time.Second, ReportFile: filepath.Join(t.TempDir(), "no", "folder")}
	if err := Run(ctx, o, io.Discard); err == nil || !strings.Contains(err.Error(), "bank report: ") {
		t.Errorf("a report that cannot be written: %v", err)
	}
}
