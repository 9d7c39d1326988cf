package api

import (
	"encoding/json"
	"fmt"
	"testing"
)

// A string without a backslash is read as a decoder reads it; any other is left to one.
func TestPlainStringsAreAsDecoded(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		`""`: true, `"a"`: true, `"ü 日本 \u007f"`: false, `"日本"`: true, "\"\ufffd\"": true, `"a\"b"`: false, `"\\"`: false, `1`: false, `null`: false, `[]`: false, `"`: false, ``: false,
	} {
		got, ok := plain([]byte(raw))
		if ok != want {
			t.Errorf("%s: %v", raw, ok)
		}
		var decoded string
		if ok && (json.Unmarshal([]byte(raw), &decoded) != nil || decoded != got) {
			t.Errorf("%s: %q, decoded %q", raw, got, decoded)
		}
	}
}

func TestRepeatedNamesAreFoundInShortAndLongLists(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, fewMembers, fewMembers + 1, 200} {
		list := make([]member, n)
		for i := range list {
			list[i] = member{name: fmt.Sprint("n", i), value: json.RawMessage("1")}
		}
		list[n-1].name, list[n-1].value = "n0", json.RawMessage("null") // a repeat, though null
		list[1].value = json.RawMessage("null")
		var f fieldErrors
		visited := 0
		f.once("/at", list, func(member) { visited++ })
		if len(f) != 1 || f[0].Pointer != "/at/n0" || f[0].Detail != "the name appears twice" || visited != n-2 {
			t.Errorf("%d members: %v, %d visited", n, f, visited)
		}
	}
}
