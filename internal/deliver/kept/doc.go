// Package kept keeps connections between their uses: made ahead of a slot, given
// to one use at a time, kept while unused for as long as is good for them.
//
// A [Pools] has a [Pool] for each target, that is, for what connections may be
// shared by. What a connection is and how it is made its user says; it has the
// methods of [Conn].
package kept
