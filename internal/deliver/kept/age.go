package kept

import (
	"math/rand/v2"
	"time"
)

// DefaultMaxAge is how long a connection is used, if it never ends by itself.
const DefaultMaxAge = 5 * time.Minute

// Age says when a connection has lived for long enough: one that is always busy
// would stay with an address that its target's name has left, or with one of
// many servers for ever. Zero: never.
type Age struct{ end time.Time }

// NewAge begins now. Connections that were made together end apart, for their
// successors are dialled one by one as slots come.
func NewAge(most time.Duration) Age {
	return Age{time.Now().Add(most - time.Duration(rand.Float64()*float64(most)/5))}
}

// Over says that the connection is to be used no more.
func (a Age) Over() bool { return !a.end.IsZero() && !time.Now().Before(a.end) }
