package app

import (
	"bytes"
	"strings"
	"testing"
)

func TestDemoDeliversAllAtTheRate(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := RunDemo(t.Context(), DemoOptions{Rate: 50, Jobs: 100, Workers: 3}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "told to wait") {
		t.Errorf("the demo does not show refusals:\n%s", out.String())
	}
	t.Log(out.String())
}
