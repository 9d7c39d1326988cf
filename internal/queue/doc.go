// Package queue owns the lanes: the bounded queue of each destination in Redis,
// with its contract, its jobs in every state, its dead letters and its entry in
// the due index. One script, turn, decides everything that governs outflow: a
// job and its slot are taken in one step, and nothing is ever put back because of the rate.
//
// A script is joined from Lua parts, each beside the package that owns its
// keys: limits and logical time from sharedbucket, keys of producers from
// idempotency, the rest from here. Every script of a lane gets the same KEYS.
package queue
