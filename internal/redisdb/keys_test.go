package redisdb

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"tundish/internal/redistest"
)

func TestLaneKeys(t *testing.T) {
	t.Parallel()
	k, err := NewKeys("default")
	if err != nil {
		t.Fatal(err)
	}
	got, err := k.Lane("bank")
	if err != nil {
		t.Fatal(err)
	}
	var want LaneKeys
	for _, n := range strings.Fields(`conf state jobs ready tenants finish tenantjobs waiting leased tries expires
		calendar idem idemends done doneends dead deadjobs log:1 log:2 log:3 log:4 log:5 log:6 log:7 log:8`) {
		want = append(want, "tundish:{default.s07}:bank:"+n)
	}
	for _, n := range []string{"due", "clock", "lanes"} {
		want = append(want, "tundish:{default.s07}:"+n)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("keys are\n%v\nwant\n%v", got, want)
	}
	due, clock, lanes := k.Shard(ShardOf("bank"))
	if due != got.Due() || clock != got.Clock() || lanes != got.Lanes() {
		t.Errorf("keys of the shard: %s %s %s", due, clock, lanes)
	}
	if got.Conf() != want[0] || got.State() != want[1] {
		t.Errorf("conf %s, state %s", got.Conf(), got.State())
	}
	if k.Meta() != "tundish:{default}:meta" || k.Wake() != "tundish:default:wake" {
		t.Errorf("meta %s, wake %s", k.Meta(), k.Wake())
	}
}

// The shard of a name is in the keys of every stored job: it never changes.
func TestShardOfStays(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"a": 12, "bank": 7, "mail-1": 8, "hook-1": 12} {
		if got := ShardOf(name); got != want {
			t.Errorf("ShardOf(%s) = %d, want %d", name, got, want)
		}
	}
}

func TestNamesAreChecked(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "bank": true, "a.b_c-9": true, strings.Repeat("x", 63): true,
		"": false, "-a": false, "Bank": false, "a:b": false, "a{b}": false, "a b": false, "a\n": false,
		strings.Repeat("x", 64): false,
	} {
		k, _ := NewKeys("default")
		if _, err := k.Lane(name); (err == nil) != want {
			t.Errorf("lane %q: %v", name, err)
		}
	}
	for name, want := range map[string]bool{
		"default": true, "a-1": true, strings.Repeat("x", 31): true,
		"": false, "-": false, "a.b": false, "A": false, strings.Repeat("x", 32): false,
	} {
		if _, err := NewKeys(name); (err == nil) != want {
			t.Errorf("namespace %q: %v", name, err)
		}
	}
}

func TestCacheOfKeysIsBounded(t *testing.T) {
	t.Parallel()
	k, _ := NewKeys("default")
	first, _ := k.Lane("a")
	again, _ := k.Lane("a")
	if &first[0] != &again[0] {
		t.Error("the list is built twice")
	}
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			for i := range maxCached {
				if _, err := k.Lane(strings.Repeat("x", g+1) + string(rune('a'+i%26)) + strings.Repeat("y", i%40)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(k.lanes); n > maxCached {
		t.Errorf("%d lists are cached", n)
	}
}

// Each name of the prelude is the key of that name, everywhere scripts run.
func TestPrelude(t *testing.T) {
	t.Parallel()
	body := "local out = {}\nfor n, k in pairs(K) do if n ~= 'log' then out[#out+1] = n .. '=' .. k end end\n" +
		"for i, k in ipairs(K.log) do out[#out+1] = 'log:' .. i .. '=' .. k end\nreturn out"
	s := NewScript("names", Prelude(), Part{Name: "body", Source: body})
	for name, url := range backends(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, Config{URL: url, Namespace: redistest.Namespace(t)})
			keys := laneKeys(t, db)
			v, err := db.Run(t.Context(), s, keys)
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, x := range v.([]any) {
				got = append(got, x.(string))
			}
			for i, n := range append(append([]string{}, laneNames...), shardNames...) {
				want = append(want, n+"="+keys[i])
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("got %v\nwant %v", got, want)
			}
		})
	}
}
