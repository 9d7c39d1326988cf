package queue

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// secretRequest applies a contract that refers to sealed secrets.
func (b *bench) secretRequest(sealed map[string]string, names ...string) ApplyRequest {
	b.t.Helper()
	var refs []string
	for _, name := range names {
		refs = append(refs, `"${secret:`+name+`}"`)
	}
	doc := `{"target":{"http":{"url":"http://127.0.0.1:1/","headers":{"X":[` + strings.Join(refs, ",") + `]}}},"limits":[{"rate":50,"per":"1s"}]}`
	c, written, err := destination.ParseContract(b.lane, []byte(doc))
	if err != nil {
		b.t.Fatal(err)
	}
	return ApplyRequest{Name: b.lane, Contract: c, Written: written, Source: Source{Kind: "api"}, Sealed: sealed}
}

func TestSealedSecretsStayWithTheContract(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	put := func(sealed map[string]string, names ...string) error {
		_, _, err := b.s.Apply(t.Context(), b.secretRequest(sealed, names...))
		return err
	}
	want := func(want string) {
		t.Helper()
		c, _, err := b.s.Contract(t.Context(), b.lane)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range c.SealedNames() {
			got = append(got, name+"="+c.Sealed[name])
		}
		if text := strings.Join(got, " "); text != want || len(c.Sealed) != len(got) {
			t.Errorf("%q (%v), want %q", text, c.Sealed, want)
		}
	}
	err := put(map[string]string{"a": "k:1"}, "a", "b", "c")
	e, ok := errors.AsType[*job.Error](err)
	if !ok || e.Code != job.CodeInvalid || len(e.Fields) != 2 || e.Fields[0].Pointer != "/secrets/b" {
		t.Errorf("missing secrets: %v", err)
	}
	for _, step := range []struct {
		sealed map[string]string
		names  []string
		want   string
	}{
		{map[string]string{"a": "k:1", "b": "k:2"}, []string{"a", "b"}, "a=k:1 b=k:2"},
		{nil, []string{"a", "b"}, "a=k:1 b=k:2"},
		{map[string]string{"b": "k:3"}, []string{"b", "a"}, "b=k:3 a=k:1"},
		{nil, []string{"b"}, "b=k:3"},
		{nil, nil, ""},
	} {
		if err := put(step.sealed, step.names...); err != nil {
			t.Fatal(err)
		}
		want(step.want)
		if d, err := b.s.Destination(t.Context(), b.lane); err != nil || strings.Contains(string(d.Written), "k:") {
			t.Errorf("written as %s, %v", d.Written, err)
		}
	}
	if err := put(nil, "b"); job.CodeOf(err) != job.CodeInvalid {
		t.Errorf("a secret that was dropped is still there: %v", err)
	}
	if err := put(map[string]string{"a": "k:1"}, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.s.Delete(t.Context(), b.lane, 0, true); err != nil {
		t.Fatal(err)
	}
	if err := put(nil, "a"); job.CodeOf(err) != job.CodeInvalid {
		t.Errorf("a secret outlived its destination: %v", err)
	}
}

// Two that give different secrets at once lose none of them.
func TestSecretsGivenAtOnce(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	if _, _, err := b.s.Apply(t.Context(), b.secretRequest(map[string]string{"a": "k:0", "b": "k:0"}, "a", "b")); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		wg.Go(func() {
			if _, _, err := b.s.Apply(t.Context(), b.secretRequest(map[string]string{name: "k:1"}, "a", "b")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if c, _, err := b.s.Contract(t.Context(), b.lane); err != nil || c.Sealed["a"] != "k:1" || c.Sealed["b"] != "k:1" {
		t.Errorf("%v, %v", c.Sealed, err)
	}
}

// A contract of a file may refer to what is given later: its worker says so.
func TestFileMayReferToWhatIsGivenLater(t *testing.T) {
	t.Parallel()
	b := openBench(t, "redis")
	r := b.secretRequest(nil, "a")
	r.Source = Source{Kind: "file", Set: "s", Revision: 1}
	for _, sealed := range []string{"", "k:1"} {
		if sealed != "" {
			r.Sealed = map[string]string{"a": sealed}
		}
		if _, _, err := b.s.Apply(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if c, _, err := b.s.Contract(t.Context(), b.lane); err != nil || c.Sealed["a"] != sealed {
			t.Errorf("%v, %v", c.Sealed, err)
		}
	}
}
