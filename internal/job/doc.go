// Package job is the vocabulary of jobs: what a job is, the states it passes
// through, how an attempt can end, and the closed list of error codes.
//
// # States
//
//	scheduled ─► ready ─► leased ─► delivered
//	               ▲        │  ├───► waiting (back-off, throttled) ─► ready
//	               │        │  ├───► dead     (attempts or age used up, permanent answer, crashed)
//	               └────────┘  └───► unknown  (at_most_once: bytes may have left)
//	          released / recovered           expired, cancelled: from scheduled, ready, waiting
//
// The table in state.go is checked against this drawing by a test.
package job
