package sharedbucket

import (
	"fmt"
	"math/big"
)

// bucket is the state of one algorithm.
type bucket interface {
	earliest(n, t int64) int64
	charge(n, t int64)
	refund(n, slot int64)
	lost(t int64)
	after(n, t, k int64) int64
	saveText(n int64) string
	clone() bucket
}

// tracked is the largest value of the present and the previous window.
type tracked struct {
	cur, prev, since int64
	known            bool
}

func (t *tracked) track(value, now, window int64) int64 {
	switch {
	case !t.known:
		*t = tracked{cur: value, since: now, known: true}
	case now >= t.since+2*window:
		*t = tracked{cur: value, since: now, known: true}
	case now >= t.since+window:
		*t = tracked{cur: value, prev: t.cur, since: now, known: true}
	default:
		t.cur = max(t.cur, value)
	}
	return max(t.cur, t.prev)
}

// leaky is one slot every n/rate µs: the last one is at last + rem/rate.
type leaky struct{ last, rem, rate int64 }

// slot is the last slot, rounded up to a whole µs.
func (b *leaky) slot() int64 {
	if b.rem != 0 {
		return b.last + 1
	}
	return b.last
}

func (b *leaky) adapt(rate int64) bucket {
	if rate != b.rate && b.rem != 0 {
		b.last, b.rem = b.last+1, 0
	}
	b.rate = rate
	return b
}

// next is the exact time of the next slot, in 1/rate µs behind b.last.
func (b *leaky) next(n int64) (whole, rem int64) {
	sum := b.rem + n%b.rate
	return b.last + n/b.rate + sum/b.rate, sum % b.rate
}

func (b *leaky) earliest(n, t int64) int64 {
	whole, rem := b.next(n)
	if rem > 0 {
		whole++
	}
	return max(t, whole)
}

func (b *leaky) charge(n, t int64) {
	if t > b.earliest(n, 0) {
		b.last, b.rem = t, 0
		return
	}
	b.last, b.rem = b.next(n)
}

func (b *leaky) refund(int64, int64) {}

func (b *leaky) lost(t int64) {
	if t > b.last {
		b.last, b.rem = t, 0
	}
}

func (b *leaky) after(n, t, k int64) int64 { return b.earliest(n, t) + ceilDiv(n, k, b.rate) }

func (b *leaky) saveText(int64) string { return fmt.Sprintf("%d:%d:%d", b.last, b.rem, b.rate) }

func (b *leaky) clone() bucket { c := *b; return &c }

// token holds have/n tokens at the time last.
type token struct{ rate, burst, last, have, n, from, room int64 }

func (b *token) adapt(l TwinLimit, n int64) bucket {
	b.rate, b.burst = l.Rate, l.Burst
	if n != b.n {
		if b.have/b.n >= b.burst { // else the product below might not fit
			b.have, b.n = b.burst, 1
		}
		b.have, b.from, b.room = floorDiv(b.have, n, b.n), b.last+1, 0
		b.n = n
	}
	if b.have > b.burst*n {
		b.have, b.from, b.room = b.burst*n, b.last+1, 0
	}
	return b
}

// at is what the bucket has at t. It is full when it filled a µs ago or earlier.
func (b *token) at(t int64) int64 {
	full, gain := b.burst*b.n, max(0, t-b.last)
	if gain <= (full-b.have)/b.rate+1 && b.have+gain*b.rate < full+b.rate {
		return b.have + gain*b.rate
	}
	return full
}

func (b *token) earliest(n, t int64) int64 { return b.after(n, t, 0) }

func (b *token) after(n, t, k int64) int64 {
	t = max(t, b.last)
	return t + ceilDiv(max(0, (k+1)*n-b.at(t)), 1, b.rate)
}

func (b *token) charge(n, t int64) {
	have := b.at(t)
	if t > b.last {
		b.room = max(0, min(b.room, b.burst*n-have))
		if b.room < n {
			b.from, b.room = t, b.burst*n
		}
	}
	b.have, b.last = have-n, max(t, b.last)
}

func (b *token) refund(n, slot int64) {
	if slot < b.from {
		return
	}
	back := min(n, b.room)
	b.have, b.room = b.have+back, b.room-back
}

func (b *token) lost(t int64) {
	b.last, b.have = max(t, b.last), 0
	b.from, b.room = b.last+1, 0
}

func (b *token) saveText(n int64) string {
	return fmt.Sprintf("%d:%d:%d:%d:%d", b.last, b.have, n, b.from, b.room)
}

func (b *token) clone() bucket { c := *b; return &c }

// ceilDiv is a × b / c rounded up, floorDiv rounded down, without overflow.
func ceilDiv(a, b, c int64) int64 { return -floorDiv(-a, b, c) }

func floorDiv(a, b, c int64) int64 {
	product := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	return product.Div(product, big.NewInt(c)).Int64() // Euclidean: rounds down for c > 0
}
