// Package drain is the worker: it claims due lanes, turns them, waits for each
// slot, sends, and lets results ride on the lane's next turn.
//
//	claim ─► turn ─► pace ─► write ─► result ─┐
//	  ▲       ▲                               │
//	  │       └───────────────────────────────┘
//	  └── let go after a second, or when senders are short
//
// One goroutine, the loop, owns all state; turns, claims and sends run beside
// it and report back as events.
package drain
