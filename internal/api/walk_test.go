package api

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// decoded is members as encoding/json reads them.
func decoded(raw []byte) ([]member, bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	var list []member
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, false
		}
		m := member{name: name.(string)}
		if err := dec.Decode(&m.value); err != nil {
			return nil, false
		}
		list = append(list, m)
	}
	return list, true
}

func sameMembers(a, b []member) bool {
	for i := range a {
		if len(a) != len(b) || a[i].name != b[i].name || !bytes.Equal(a[i].value, b[i].value) {
			return false
		}
	}
	return len(a) == len(b)
}

var documents = []string{
	`{}`, ` { } `, `[]`, `null`, `1`, `"{"`, "\t{\"a\":1}\r\n",
	`{"a":1,"b":[1,{"c":"]}"}],"a":"\"","":{}}`, `{"\u0061\n" : -1.5e+3 ,"x":true,"y" :null,"z":false}`,
	`{"deep":[[[[{"a":{"b":"\\"}}]]]],"tail":"\\\""}`, `{"\ud800":"half"}`, `{"a":"ü\u0000","b":12345678901234567890}`,
}

func TestMembersAreAsDecoded(t *testing.T) {
	t.Parallel()
	for _, doc := range documents {
		got, ok := members([]byte(doc))
		want, wantOK := decoded([]byte(doc))
		if ok != wantOK || !sameMembers(got, want) {
			t.Errorf("%s: %v %v, decoded %v %v", doc, got, ok, want, wantOK)
		}
	}
}

func TestElementsAreAsDecoded(t *testing.T) {
	t.Parallel()
	for _, doc := range append(documents, `[1]`, ` [ {"a":[1,2]} , "],", [ ] ,null ] `) {
		var want []json.RawMessage
		wantOK := startsWith([]byte(doc), '[') && json.Unmarshal([]byte(doc), &want) == nil
		got, ok := elements([]byte(doc))
		if ok != wantOK || len(got) != len(want) {
			t.Fatalf("%s: %d %v, decoded %d %v", doc, len(got), ok, len(want), wantOK)
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("%s: %q, decoded %q", doc, got[i], want[i])
			}
		}
	}
}

// Whatever is given: the walk ends, and agrees with the decoder where that reads it.
func TestWalkOfAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"{", "}", "[", "]", `"a"`, ":", ",", "1", "tru", `"`, `\`, " ", "ü"}), 0, 30).Draw(t, "parts")
		var raw []byte
		for _, p := range parts {
			raw = append(raw, p...)
		}
		got, ok := members(raw)
		elements(raw)
		if !json.Valid(raw) {
			return
		}
		if want, wantOK := decoded(raw); ok != wantOK || !sameMembers(got, want) {
			t.Fatalf("%s: %v %v, decoded %v %v", raw, got, ok, want, wantOK)
		}
	})
}

// A value that is added to must not write over what follows it.
func TestMembersAreCutOff(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"a":1,"b":2}`)
	list, _ := members(raw)
	_ = append(list[0].value, "xxxx"...)
	if string(raw) != `{"a":1,"b":2}` {
		t.Errorf("%s", raw)
	}
}
