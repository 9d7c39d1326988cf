package api

import (
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
)

// What quotaOf writes is read as a structured field, and written by a library alike.
func TestQuotaIsAStructuredField(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		capacity, depth int64
		refused         time.Duration
		q, r, t         any
	}{
		{100, 1, 0, int64(100), int64(99), nil},
		{10_000_000, 0, 0, int64(10_000_000), int64(10_000_000), nil},
		{5, 9, 0, int64(5), int64(0), nil}, // lowered below what it holds
		{5, 5, 1200 * time.Millisecond, int64(5), int64(0), int64(2)},
		{5, 3, time.Hour, int64(5), int64(0), int64(3600)}, // the tenant's share is full
	} {
		q := quotaOf(tc.capacity, tc.depth, tc.refused)
		for text, want := range map[string]map[string]any{q.Policy: {"q": tc.q}, q.Limit: {"r": tc.r, "t": tc.t}} {
			list, err := httpsfv.UnmarshalList([]string{text})
			if err != nil || len(list) != 1 {
				t.Fatalf("%s: %v", text, err)
			}
			item, _ := list[0].(httpsfv.Item)
			if item.Value != "queue" {
				t.Errorf("%s is of %v", text, item.Value)
			}
			for name, v := range want {
				if got, _ := item.Params.Get(name); got != v {
					t.Errorf("%s of %s is %v, want %v", name, text, got, v)
				}
			}
			if again, err := httpsfv.Marshal(list); again != text {
				t.Errorf("%s, a library writes %s: %v", text, again, err)
			}
		}
	}
	if q := quotaOf(0, 0, 0); q != (Quota{}) {
		t.Errorf("of an unknown capacity: %+v", q)
	}
}
