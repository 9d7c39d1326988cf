package app

import (
	"crypto/sha256"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A file counts as changed when it has stood still: half of one that is being
// written may be a valid file.
func TestSettled(t *testing.T) {
	t.Parallel()
	sums := func(list ...byte) func() ([sha256.Size]byte, error) {
		return func() ([sha256.Size]byte, error) {
			sum := [sha256.Size]byte{list[0]}
			list = list[1:]
			return sum, nil
		}
	}
	broken := errors.New("gone")
	for name, c := range map[string]struct {
		sum     func() ([sha256.Size]byte, error)
		changed bool
		err     error
		took    time.Duration
	}{
		"as seen":       {sums(1), false, nil, 0},
		"changed":       {sums(2, 2), true, nil, standStill},
		"still changes": {sums(2, 3), false, errLookLater, standStill},
		"gone":          {func() ([sha256.Size]byte, error) { return [sha256.Size]byte{}, broken }, false, broken, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				changed, err := settled(t.Context(), [sha256.Size]byte{1}, c.sum)
				if changed != c.changed || !errors.Is(err, c.err) || time.Since(began) != c.took {
					t.Errorf("%v, %v after %s", changed, err, time.Since(began))
				}
			})
		})
	}
}
