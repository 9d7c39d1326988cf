package job

import "testing"

func TestEveryOutcomeHasATextOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]Outcome{}
	for _, o := range Outcomes() {
		text := o.Text()
		if text == "" || seen[text] != "" {
			t.Errorf("%s: %q, as %q", o, text, seen[text])
		}
		seen[text] = o
	}
	if len(texts) != len(Outcomes()) {
		t.Errorf("%d texts for %d outcomes", len(texts), len(Outcomes()))
	}
}
